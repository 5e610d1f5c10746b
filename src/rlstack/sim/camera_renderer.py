"""Camera images of many worlds, rendered one at a time with randomized appearance: what all scenes share."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.mjcf import import_mujoco
from rlstack.robots.sensing import OPTICAL, Camera, rotation_from_rpy
from rlstack.robots.spec import RobotSpec
from rlstack.sim.mujoco_renderer import Renderer
from rlstack.sim.visual_randomization import TABLES, Appearance

_NONE = np.zeros((0, 3))


class CameraRenderer:
    """Renders a model with a floor, and the materials of :func:`rlstack.sim.visual_randomization.add_tables` for it.

    All images have one size.

    Args:
        robot: The robot, whose file has these cameras.
        cameras: Names of the cameras.

    Raises:
        UserError: The robot lacks a camera, their sizes differ, a lens has distortion, or rendering is not possible
            here.
    """

    def __init__(self, robot: RobotSpec, cameras: Sequence[str]) -> None:
        self.names = tuple(cameras)
        self._cameras = [_plain(robot, name) for name in cameras]
        sizes = {(camera.height, camera.width) for camera in self._cameras}
        if len(sizes) > 1:
            raise UserError(
                f"{robot.name}: its cameras {', '.join(cameras)} have images of different sizes ({sorted(sizes)}):"
                " give them one size in the robot file."
            )
        ((self.height, self.width),) = sizes
        self.renders = True
        """False: images stay black, and only :attr:`places` are found."""
        self.places = np.zeros((0, 2))
        """(points, 2) where the followed points are in the last image, hidden or not: right and down, -1 to 1."""

    def _open(self, model: Any) -> None:
        """Open the renderer of a compiled model."""
        mujoco = import_mujoco()
        self._model, self._data = model, mujoco.MjData(model)
        self._floor = int(model.geom("floor").id)
        self._tables = [int(model.material(f"table {k}").id) for k in range(TABLES)]
        self._renderer = Renderer(mujoco, model, self._data)

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()

    def _light(self, appearance: Appearance, world: int) -> None:
        """Set light and floor."""
        model = self._model
        model.light_diffuse[0], model.light_dir[0] = appearance.sun[world], appearance.direction[world]
        model.vis.headlight.ambient[:] = appearance.ambient[world]
        table = self._tables[int(appearance.material[world])]
        model.geom_matid[self._floor] = table
        model.mat_rgba[table, :3] = appearance.table[world]
        self._renderer.cast_shadows(bool(appearance.shadows[world]))

    def _look(
        self, camera: int, position: Array, axis: Array, appearance: Appearance, world: int, points: Array = _NONE
    ) -> NDArray[np.uint8]:
        """Return a camera's RGB image (height, width, 3), and set :attr:`places`.

        Args:
            camera: Its index.
            position: (3,) m of its mount.
            axis: (3, 3) of its mount.
            appearance: Appearance of all worlds.
            world: Index of the world.
            points: (points, 3) m in the world, to follow.
        """
        given = self._cameras[camera]
        place = position + axis @ (given.position + appearance.shift[world, camera])
        axes = axis @ given.rotation @ rotation_from_rpy(tuple(appearance.turn[world, camera].tolist())) @ OPTICAL
        lens = _lens(given, float(appearance.view[world, camera]))
        self.places = _projected(points, place, axes, lens)
        if not self.renders:
            return np.zeros((self.height, self.width, 3), np.uint8)
        view = self._renderer.look(place, axes, lens, ("rgb",))
        assert view.rgb is not None
        return view.rgb


def camera_of(robot: RobotSpec, name: str) -> Camera:
    """Return a camera from a robot's file.

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


def _plain(robot: RobotSpec, name: str) -> Camera:
    camera = camera_of(robot, name)
    if not camera.is_plain or not camera.rgb:
        raise UserError(
            f"{robot.name}: its camera '{name}' has lens distortion or no colours, which is not simulated for many"
            " robots at once: give it square pixels and no distortion, and undistort the real one's images."
        )
    return camera.rendered


def _lens(camera: Camera, view: float) -> SimpleNamespace:
    """Return what :class:`rlstack.sim.mujoco_renderer.Renderer` needs of a camera, with a scaled field of view."""
    intrinsics = camera.intrinsics.copy()
    intrinsics[0, 0] /= view
    intrinsics[1, 1] /= view
    size = {"width": camera.width, "height": camera.height}
    return SimpleNamespace(**size, intrinsics=intrinsics, near_m=camera.near_m, far_m=camera.far_m)


def _projected(points: Array, place: Array, axes: Array, lens: SimpleNamespace) -> Array:
    """Return where points (n, 3) m are in an image, (n, 2) right and down from -1 to 1; far outside or behind: 2.

    Args:
        points: In the world.
        place: (3,) m of the camera.
        axes: (3, 3) whose columns are its optical frame's axes: right, down, forward.
        lens: Of :func:`_lens`.
    """
    along = (points - place) @ axes
    found = along[:, :2] / np.maximum(along[:, 2:], 1e-6) * np.diag(lens.intrinsics)[:2]
    pixels = found + lens.intrinsics[:2, 2] + 0.5
    spread: Array = 2.0 * pixels / np.array([lens.width, lens.height]) - 1.0
    return np.where(along[:, 2:] > 0.0, np.clip(spread, -2.0, 2.0), 2.0)
