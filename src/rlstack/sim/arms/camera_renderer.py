"""Camera images of arms' worlds, rendered one at a time with randomized appearance.

The simulated worlds use capsules and boxes for links. The rendered model uses the arm's collision meshes, which look
like the arm from a distance and render five times as fast as its visual meshes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.mjcf import BODY, add_robot, import_mujoco, new_world
from rlstack.robots.sensing import OPTICAL, Camera, rotation_from_rpy
from rlstack.sim.arms.scene import Build
from rlstack.sim.arms.visual_randomization import TABLES, Appearance
from rlstack.sim.mujoco_renderer import Renderer, add_renderer_camera

_SHOWN = 1
"""The geom group that MuJoCo renders by default."""


class ArmCameraRenderer:
    """Renders states of :class:`rlstack.sim.batch_mujoco.simulator.MujocoSimulator`; all images have one size.

    Args:
        robot: The arm, whose file has these cameras.
        build: Adds the task's objects, as for the worlds.
        cameras: Names of the cameras.
        handled: Names of the boxes whose sizes and colours differ between trials.

    Raises:
        UserError: The robot lacks a camera, their sizes differ, a lens has distortion, or rendering is not possible
            here.
    """

    def __init__(self, robot: Manipulator, build: Build, cameras: Sequence[str], handled: Sequence[str]) -> None:
        self._mujoco = mujoco = import_mujoco()
        self.names = tuple(cameras)
        self._cameras = [_plain(robot, name) for name in cameras]
        sizes = {(camera.height, camera.width) for camera in self._cameras}
        if len(sizes) > 1:
            raise UserError(
                f"{robot.name}: its cameras {', '.join(cameras)} have images of different sizes ({sorted(sizes)}):"
                " give them one size in the robot file."
            )
        ((self.height, self.width),) = sizes
        self._model = _drawn(robot, build)
        self._data = mujoco.MjData(self._model)
        model = self._model
        self._nq = model.nq
        self._handled = np.array([int(model.geom(name).id) for name in handled])
        self._floor = int(model.geom("floor").id)
        own = model.geom_bodyid != 0
        own[self._handled] = False
        self._arm = np.flatnonzero(own)
        self._tables = [int(model.material(f"table {k}").id) for k in range(TABLES)]
        self.colours = model.geom_rgba[self._handled, :3].copy()
        """(boxes, 3) the boxes' colours as built."""
        self._links = [_link(model, robot, *named) for named in zip(self.names, self._cameras)]
        # Mesa's software renderer: for such small images its threads cost more than they save
        os.environ.setdefault("LP_NUM_THREADS", "1")
        self._renderer = Renderer(mujoco, model, self._data)

    def render(
        self,
        state: Array,
        half: Array,
        colour: Array,
        appearance: Appearance,
        world: int,
        camera: int,
        stands: Mapping[str, Array] | None = None,
    ) -> NDArray[np.uint8]:
        """Return a camera's RGB image (height, width, 3).

        Args:
            state: (width,) state of the world; see :attr:`rlstack.sim.batch_mujoco.simulator.MujocoSimulator.state`.
            half: (boxes, 3) half lengths of the boxes, m.
            colour: (boxes, 3) their colours, before the appearance's offset.
            appearance: Appearance of all worlds.
            world: Index of the world.
            camera: Index of the camera.
            stands: Position, m, and yaw, rad, (4,) of fixed bodies by name, as far as they have been moved.
        """
        mujoco, model, data = self._mujoco, self._model, self._data
        self._apply_appearance(appearance, world)
        model.geom_rgba[self._handled, :3] = np.clip(colour + appearance.thing[world], 0.0, 1.0)
        model.geom_size[self._handled] = half
        model.geom_rbound[self._handled] = np.linalg.norm(half, axis=1)
        model.geom_aabb[self._handled, 3:] = half
        for name, stand in (stands or {}).items():
            body, turn = int(model.body(name).id), stand[3] / 2.0
            model.body_pos[body], model.body_quat[body] = stand[:3], (math.cos(turn), 0.0, 0.0, math.sin(turn))
        data.qpos[:] = state[1 : 1 + self._nq]
        mujoco.mj_kinematics(model, data)
        given = self._cameras[camera]
        link = self._links[camera]
        axis = data.xmat[link].reshape(3, 3)
        place = data.xpos[link] + axis @ (given.position + appearance.shift[world, camera])
        axes = axis @ given.rotation @ rotation_from_rpy(tuple(appearance.turn[world, camera].tolist())) @ OPTICAL
        view = self._renderer.look(place, axes, _lens(given, float(appearance.view[world, camera])), ("rgb",))
        assert view.rgb is not None
        return view.rgb

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()

    def _apply_appearance(self, appearance: Appearance, world: int) -> None:
        model = self._model
        model.light_diffuse[0], model.light_dir[0] = appearance.sun[world], appearance.direction[world]
        model.vis.headlight.ambient[:] = appearance.ambient[world]
        table = self._tables[int(appearance.material[world])]
        model.geom_matid[self._floor] = table
        model.mat_rgba[table, :3] = appearance.table[world]
        model.geom_rgba[self._arm, :3] = appearance.arm[world]
        self._renderer.cast_shadows(bool(appearance.shadows[world]))


def camera_of(robot: Manipulator, name: str) -> Camera:
    """Return a camera from an arm's file.

    Raises:
        UserError: The robot has no camera of this name.
    """
    if name not in robot.cameras:
        has = f"its cameras are {', '.join(robot.cameras)}" if robot.cameras else "its file has no cameras"
        raise UserError(
            f"{robot.name} has no camera called '{name}': {has}. Add it to the section cameras of the robot file, as"
            " in panda.yaml."
        )
    return robot.cameras[name]


def _plain(robot: Manipulator, name: str) -> Camera:
    camera = camera_of(robot, name)
    if not camera.is_plain or not camera.rgb:
        raise UserError(
            f"{robot.name}: its camera '{name}' has lens distortion or no colours, which is not simulated for many"
            " arms at once: give it square pixels and no distortion, and undistort the real one's images."
        )
    return camera.rendered


def _link(model: Any, robot: Manipulator, name: str, camera: Camera) -> int:
    """Return MuJoCo's id of the body that a camera is mounted on."""
    links = [model.body(k).name for k in range(1, model.nbody)]
    link = camera.link or BODY
    if link not in links:
        raise UserError(
            f"{robot.name}: its camera '{name}' is on '{link}', and the model has no such link; it has:"
            f" {', '.join(links)}."
        )
    return int(model.body(link).id)


def _lens(camera: Camera, view: float) -> SimpleNamespace:
    """Return what :class:`rlstack.sim.mujoco_renderer.Renderer` needs of a camera, with a scaled field of view."""
    intrinsics = camera.intrinsics.copy()
    intrinsics[0, 0] /= view
    intrinsics[1, 1] /= view
    size = {"width": camera.width, "height": camera.height}
    return SimpleNamespace(**size, intrinsics=intrinsics, near_m=camera.near_m, far_m=camera.far_m)


def _drawn(robot: Manipulator, build: Build) -> Any:
    """Return the rendered model; its positions have the layout of the simulated worlds."""
    mujoco = import_mujoco()
    spec = new_world()
    add_robot(spec, robot)
    own = [geom for geom in spec.geoms if geom.parent.name != "world"]
    solid = [geom for geom in own if geom.contype or geom.conaffinity]
    for geom in own:
        if solid and not (geom.contype or geom.conaffinity):
            spec.delete(geom)
        else:
            geom.group, geom.material = _SHOWN, ""
    build(spec)
    _add_tables(mujoco, spec)
    add_renderer_camera(spec)
    return spec.compile()


def _add_tables(mujoco: Any, spec: Any) -> None:
    """Add the table's possible materials: plain, squares, stripes of brightness, speckles; large and small."""
    kinds, marks = mujoco.mjtBuiltin, mujoco.mjtMark
    rng = np.random.default_rng(0)
    for k in range(TABLES):
        bright = rng.uniform(0.55, 1.0, 3) if k else np.ones(3)
        other = np.clip(bright * rng.uniform(0.7, 1.1), 0.0, 1.0)
        kind = (kinds.mjBUILTIN_FLAT, kinds.mjBUILTIN_CHECKER, kinds.mjBUILTIN_GRADIENT)[k % 3]
        spec.add_texture(
            name=f"table {k}",
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            builtin=kind,
            rgb1=bright.tolist(),
            rgb2=other.tolist(),
            mark=marks.mjMARK_RANDOM if k % 2 else marks.mjMARK_NONE,
            markrgb=rng.uniform(0.3, 1.0, 3).tolist(),
            random=0.02,
            width=128,
            height=128,
        )
        repeat = float(math.exp(rng.uniform(math.log(0.5), math.log(8.0))))
        material = spec.add_material(name=f"table {k}", texrepeat=[repeat, repeat], texuniform=True, reflectance=0.0)
        textures = list(material.textures)
        textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = f"table {k}"
        material.textures = textures
