"""Camera images of rooms with landmarks, one at a time, for many robots: one model, changed for each image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.frames import to_matrix
from rlstack.robots.mjcf import import_mujoco, new_world
from rlstack.robots.spec import RobotSpec
from rlstack.sim.camera_renderer import CameraRenderer
from rlstack.sim.mujoco_renderer import add_renderer_camera
from rlstack.sim.visual_randomization import Appearance, add_tables

_THICK_M = 0.1
"""Thickness of walls."""


class LandmarkRenderer(CameraRenderer):
    """Renders a rectangular room with landmarks from a robot's cameras; the robot itself is not in its images.

    Args:
        robot: The robot, whose file has these cameras.
        cameras: Their names.
        corners: (2,) m each, the lowest and the highest corner of the room's floor.
        height_m: Height of the walls.
        landmarks: Number of landmarks.

    Raises:
        UserError: As of :class:`.CameraRenderer`.
    """

    def __init__(
        self,
        robot: RobotSpec,
        cameras: Sequence[str],
        corners: tuple[Array, Array],
        height_m: float,
        landmarks: int,
    ) -> None:
        super().__init__(robot, cameras)
        self.places = np.zeros((landmarks, 2))
        shapes, spec = import_mujoco().mjtGeom, new_world()
        box = shapes.mjGEOM_BOX
        low, high = corners
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        for axis in (0, 1):
            for side in (-1.0, 1.0):
                place, size = [*middle, height_m / 2.0], [*half, height_m / 2.0]
                place[axis] += side * (half[axis] + _THICK_M / 2.0)
                size[axis], size[1 - axis] = _THICK_M / 2.0, half[1 - axis] + _THICK_M
                spec.worldbody.add_geom(name=f"wall {axis} {side:g}", type=box, pos=place, size=size)
        for k in range(landmarks):
            spec.worldbody.add_geom(name=f"landmark {k}", type=box, size=[0.1] * 3)
        add_tables(spec)
        add_renderer_camera(spec)
        model = spec.compile()
        named = [model.geom(k).name for k in range(model.ngeom)]
        self._walls = np.array([k for k, name in enumerate(named) if name.startswith("wall")])
        self._landmarks = np.array([int(model.geom(f"landmark {k}").id) for k in range(landmarks)])
        model.geom_sameframe[self._landmarks] = 0  # they are moved
        self._types = int(box), int(shapes.mjGEOM_CYLINDER)
        self._open(model)

    def render(
        self,
        pose: Array,
        round_: NDArray[np.bool_],
        place: Array,
        half: Array,
        yaw: Array,
        colour: Array,
        appearance: Appearance,
        world: int,
        camera: int,
    ) -> NDArray[np.uint8]:
        """Return a camera's RGB image (height, width, 3).

        Args:
            pose: (7,) of the robot: position, m, and orientation xyzw.
            round_: (landmarks,) whether each is a cylinder, else a box.
            place: (landmarks, 3) m, centres.
            half: (landmarks, 3) m, half lengths; of a cylinder radius, radius, half height.
            yaw: (landmarks,) rad.
            colour: (landmarks, 3) 0 to 1, before the appearance's offset.
            appearance: Appearance of all worlds.
            world: Index of the world.
            camera: Index of the camera.
        """
        model, which = self._model, self._landmarks
        self._light(appearance, world)
        model.geom_rgba[self._walls, :3] = appearance.arm[world]
        model.geom_rgba[which, :3] = np.clip(colour + appearance.thing[world], 0.0, 1.0)
        model.geom_type[which] = np.where(round_, self._types[1], self._types[0])
        model.geom_size[which] = np.where(round_[:, None], half[:, [0, 2, 2]], half)
        model.geom_rbound[which] = np.linalg.norm(half, axis=1)
        model.geom_pos[which] = place
        model.geom_quat[which] = [(math.cos(turn / 2.0), 0.0, 0.0, math.sin(turn / 2.0)) for turn in yaw.tolist()]
        return self._look(camera, pose[:3], to_matrix(pose[3:]), appearance, world, place)
