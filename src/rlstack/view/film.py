"""Films of recorded trials, rendered by MuJoCo without a display or a browser."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.robots.frame_tree import read_frames
from rlstack.robots.mjcf import import_mujoco
from rlstack.robots.visuals import Visual
from rlstack.sim.mujoco_renderer import Renderer, add_renderer_camera
from rlstack.view.framing import AXES, distance, seen_points
from rlstack.view.recording import ReplayedTrial
from rlstack.view.shapes import light_shapes, mesh_path, wxyz
from rlstack.view.spinning import spun

Picture = NDArray[np.uint8]

WIDTH, HEIGHT, FRAME_MS, STILL_MS = 560, 350, 100, 1200
"""Size of a film, pixels, time between frames, and time for which the end of a trial stays."""
MOST_FRAMES = 50
"""Most frames of a trial; a longer one is shown faster."""
COLOURS = ((0.00, 0.45, 0.70), (0.90, 0.62, 0.00), (0.00, 0.62, 0.45), (0.80, 0.47, 0.65))
"""Colour of each driver, by its place."""
_GOAL = (0.13, 0.68, 0.35, 0.55)
_PATH = (0.45, 0.48, 0.55, 0.8)
_LINE = 0.6
"""Lines look this much brighter than they are."""
_BAD, _INK = (163, 18, 58), (31, 35, 40)
_FOV = math.radians(34.0)
_SUN = np.array([-0.23, 0.32, -0.92])
"""Direction of its light."""
_QUALITY, _EFFORT = 62, 2
"""Of WebP: quality of its pictures, and how long it tries to make them smaller."""


def film(trials: Sequence[ReplayedTrial], width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """Return trials, one after the other, as an animated WebP.

    Args:
        trials: One or more trials.
        width: Of the picture, pixels.
        height: Of the picture, pixels.

    Raises:
        UserError: MuJoCo or Pillow is not installed, or rendering is not possible here.
    """
    pictures: list[Picture] = []
    lasting: list[int] = []
    for trial in trials:
        shown = render(trial, width, height)
        pictures += shown
        lasting += [FRAME_MS] * (len(shown) - 1) + [STILL_MS]
    return webp(pictures, lasting)


def webp(pictures: Iterable[Picture], lasting_ms: Sequence[int]) -> bytes:
    """Return pictures (height, width, 3) as an animated WebP that repeats.

    Raises:
        UserError: Pillow is not installed.
    """
    images = [_pillow().fromarray(picture) for picture in pictures]
    file = io.BytesIO()
    images[0].save(
        file,
        "WEBP",
        save_all=True,
        append_images=images[1:],
        duration=list(lasting_ms),
        loop=0,
        quality=_QUALITY,
        method=_EFFORT,
    )
    return file.getvalue()


def render(trial: ReplayedTrial, width: int = WIDTH, height: int = HEIGHT) -> list[Picture]:
    """Return the pictures (height, width, 3) of a trial, :data:`FRAME_MS` apart if it is not too long.

    Raises:
        UserError: MuJoCo or Pillow is not installed, or rendering is not possible here.
    """
    faster = max(1.0, trial.duration_s * 1e3 / FRAME_MS / (MOST_FRAMES - 1))
    step_s = faster * FRAME_MS * 1e-3
    times = [*np.arange(0.0, trial.duration_s, step_s).tolist(), trial.duration_s]
    stage = _Stage(trial, width, height)
    try:
        return [_labelled(stage.picture(time_s), trial, time_s, faster) for time_s in times]
    finally:
        stage.close()


class _Stage:
    """A trial's robots and worlds as a MuJoCo model in which everything that moves is placed for each picture."""

    def __init__(self, trial: ReplayedTrial, width: int, height: int) -> None:
        self._mujoco = import_mujoco()
        self._takes, self._offsets = trial.takes, trial.offsets
        self._trees = [read_frames(take.urdf) for take in trial.takes]
        self._joints = [spun(take) for take in trial.takes]
        spec = self._mujoco.MjSpec()
        _furnish(self._mujoco, spec, min(take.floor_m for take in trial.takes))
        self._links: list[list[str]] = []
        self._meshes: dict[tuple[Any, ...], str] = {}
        for k, take in enumerate(trial.takes):
            shapes = light_shapes(take.urdf)
            self._links.append(list(dict.fromkeys(shape.link for shape in shapes)))
            for link in self._links[k]:
                body = spec.worldbody.add_body(name=f"{k}/{link}", mocap=True)
                self._add(spec, body, [shape for shape in shapes if shape.link == link])
            if k == 0 or trial.apart_m:
                ground = spec.worldbody.add_body(name=f"{k} world", pos=self._offsets[k].tolist())
                self._add(spec, ground, take.shapes)
                for number, mover in enumerate(take.movers):
                    body = spec.worldbody.add_body(name=f"{k} mover {number}", mocap=True)
                    self._add(spec, body, mover.shapes)
        add_renderer_camera(spec)
        self._model = model = spec.compile()
        self._data = self._mujoco.MjData(model)
        points = seen_points(trial)
        middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
        reach = max(0.05, float(np.linalg.norm(points - middle, axis=1).max()))
        model.stat.extent, model.stat.center[:] = reach, middle
        away = distance(points - middle, width / height, _FOV)
        self._lens, self._eye = _lens(width, height, away), middle - away * AXES[:, 2]
        model.light_pos[0] = middle - 4.0 * reach * _SUN  # shadows fall within some extents of it
        self._renderer = Renderer(self._mujoco, model, self._data, samples=4)
        self._renderer.decorate = self._decorate
        self._now_s = 0.0

    def picture(self, time_s: float) -> Picture:
        """Return the picture at a time, or of the end of what has ended."""
        self._now_s, data, model = time_s, self._data, self._model
        for k, take in enumerate(self._takes):
            at = take.at(time_s)
            base, turned, offset = take.position[at], take.orientation[at], self._offsets[k]
            poses = self._trees[k].poses(self._joints[k][at])
            for link in self._links[k]:
                position, orientation = poses[link]
                body = int(model.body(f"{k}/{link}").mocapid[0])
                data.mocap_pos[body] = base + frames.rotate(turned, position) + offset
                data.mocap_quat[body] = wxyz(frames.multiply(turned, orientation))
            for number, mover in enumerate(take.movers):
                if self._mujoco.mj_name2id(model, self._mujoco.mjtObj.mjOBJ_BODY, f"{k} mover {number}") < 0:
                    continue
                body = int(model.body(f"{k} mover {number}").mocapid[0])
                if np.isfinite(mover.position[at]).all():
                    data.mocap_pos[body] = mover.position[at] + offset
                    data.mocap_quat[body] = wxyz(mover.orientation[at])
        view = self._renderer.look(self._eye, AXES, self._lens, ("rgb",))
        assert view.rgb is not None
        return view.rgb

    def close(self) -> None:
        self._renderer.close()

    def _add(self, spec: Any, body: Any, shapes: Iterable[Visual]) -> None:
        for shape in shapes:
            place = {"pos": shape.position.tolist(), "quat": wxyz(shape.orientation).tolist()}
            x, y, z = (0.5 * extent for extent in shape.size)
            kinds, colour = self._mujoco.mjtGeom, list(shape.colour)
            if shape.shape == "mesh":
                body.add_geom(type=kinds.mjGEOM_MESH, meshname=self._mesh(spec, shape), rgba=colour, **place)
                continue
            kind, size = {
                "box": (kinds.mjGEOM_BOX, [x, y, z]),
                "cylinder": (kinds.mjGEOM_CYLINDER, [x, z, 0.0]),
                "sphere": (kinds.mjGEOM_SPHERE, [x, 0.0, 0.0]),
            }[shape.shape]
            body.add_geom(type=kind, size=size, rgba=colour, **place)

    def _mesh(self, spec: Any, shape: Visual) -> str:
        import trimesh

        key = (shape.mesh, *shape.size)
        if key not in self._meshes:
            self._meshes[key] = name = f"mesh {len(self._meshes)}"
            loaded: Any = trimesh.load(mesh_path(shape.mesh), force="mesh", process=False)
            points = np.asarray(loaded.vertices) * shape.size
            mesh = spec.add_mesh(name=name, inertia=self._mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
            mesh.uservert, mesh.userface = points.ravel().tolist(), np.asarray(loaded.faces).ravel().tolist()
        return self._meshes[key]

    def _decorate(self, scene: Any) -> None:
        """Add trails, paths and goals to a picture."""
        for k, (take, offset) in enumerate(zip(self._takes, self._offsets)):
            at = take.at(self._now_s)
            if take.path is not None:
                self._line(scene, take.path[:: max(1, len(take.path) // 150)] + offset, _PATH, 2.0)
            if np.ptp(take.position, axis=0).max() > 0.01:
                self._line(
                    scene,
                    take.position[: at + 1] + offset,
                    (*(_LINE * part for part in COLOURS[k % len(COLOURS)]), 1.0),
                    3.0,
                )
            if take.goal is not None:
                self._ball(scene, take.goal[at] + offset, max(0.012, 0.02 * float(self._model.stat.extent)), _GOAL)

    def _line(self, scene: Any, points: Array, colour: Sequence[float], width: float) -> None:
        mujoco = self._mujoco
        for start, end in itertools.pairwise(points):
            if scene.ngeom >= scene.maxgeom:
                return
            geom = scene.geoms[scene.ngeom]
            rgba, zero = np.array(colour, np.float32), np.zeros(3)
            mujoco.mjv_initGeom(geom, mujoco.mjtGeom.mjGEOM_LINE, zero, zero, np.eye(3).ravel(), rgba)
            mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_LINE, width, start, end)
            scene.ngeom += 1

    def _ball(self, scene: Any, position: Array, radius: float, colour: Sequence[float]) -> None:
        mujoco = self._mujoco
        size, rgba = np.array([radius, 0.0, 0.0]), np.array(colour, np.float32)
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_SPHERE, size, position, np.eye(3).ravel(), rgba
        )
        scene.ngeom += 1


def _furnish(mujoco: Any, spec: Any, floor_m: float) -> None:
    """Add light, sky and a floor."""
    spec.visual.quality.shadowsize, spec.visual.map.shadowclip = 1024, 2.5
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 20, 10
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.42] * 3, [0.32] * 3, [0.05] * 3
    textures, kinds = mujoco.mjtTexture, mujoco.mjtBuiltin
    sky = {"type": textures.mjTEXTURE_SKYBOX, "builtin": kinds.mjBUILTIN_GRADIENT, "width": 128, "height": 768}
    spec.add_texture(name="sky", rgb1=[0.97, 0.98, 0.99], rgb2=[0.86, 0.91, 0.97], **sky)
    floor = {"type": textures.mjTEXTURE_2D, "builtin": kinds.mjBUILTIN_FLAT, "width": 128, "height": 128}
    spec.add_texture(
        name="floor",
        rgb1=[0.93, 0.94, 0.95],
        mark=mujoco.mjtMark.mjMARK_EDGE,
        markrgb=[0.74, 0.77, 0.81],
        **floor,
    )
    material = spec.add_material(name="floor", texrepeat=[2.0, 2.0], texuniform=True, reflectance=0.0, specular=0.0)
    named = list(material.textures)
    named[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
    material.textures = named
    plane, place = mujoco.mjtGeom.mjGEOM_PLANE, [0.0, 0.0, floor_m]
    spec.worldbody.add_geom(name="floor", type=plane, size=[60.0, 60.0, 10.0], pos=place, material="floor")
    sun = {"type": mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, "castshadow": True, "specular": [0.15] * 3}
    spec.worldbody.add_light(name="sun", dir=_SUN.tolist(), diffuse=[0.5] * 3, **sun)


def _lens(width: int, height: int, away_m: float) -> Any:
    focal = 0.5 * height / math.tan(0.5 * _FOV)
    intrinsics = np.array([[focal, 0.0, 0.5 * (width - 1)], [0.0, focal, 0.5 * (height - 1)], [0.0, 0.0, 1.0]])
    return SimpleNamespace(width=width, height=height, intrinsics=intrinsics, near_m=0.05 * away_m, far_m=20.0 * away_m)


def _labelled(picture: Picture, trial: ReplayedTrial, time_s: float, faster: float) -> Picture:
    """Write who is who, what they were told and how it ended into a picture."""
    from PIL import ImageDraw, ImageFont

    image = _pillow().fromarray(picture)
    draw: Any = ImageDraw.Draw(image)
    font, small = ImageFont.load_default(15), ImageFont.load_default(13)
    pace = "" if faster < 1.05 else f", {faster:.1f} x"
    draw.text((12, 8), f"{trial.title}", fill=_INK, font=font)
    draw.text((image.width - 12, 8), f"{time_s:.1f} s{pace}", fill=_INK, font=small, anchor="ra")
    said = next((take.instruction for take in trial.takes if take.instruction), "")
    if said:
        draw.text((image.width // 2, 34), f"“{said}”", fill=_INK, font=font, anchor="ma")
    bottom = image.height - 22 * len(trial.takes) - 4
    for k, take in enumerate(trial.takes):
        over = time_s >= take.duration_s - 1e-6
        colour = tuple(round(255 * part) for part in COLOURS[k % len(COLOURS)])
        at = bottom + 22 * k
        draw.rectangle((12, at + 3, 24, at + 15), fill=colour)
        ending = f": {take.ending}" if over else ""
        draw.text((31, at), f"{take.driver}{ending}", fill=_BAD if over and not take.success else _INK, font=small)
    return np.asarray(image)


def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError as error:
        raise UserError("Films need Pillow, which is not installed: pip install 'rlstack[view]'.") from error
    return PIL.Image
