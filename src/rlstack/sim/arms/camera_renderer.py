"""Camera images of arms' worlds.

The simulated worlds use capsules and boxes for links. The rendered model uses the arm's collision meshes, which look
like the arm from a distance and render five times as fast as its visual meshes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.mjcf import BODY, add_robot, import_mujoco, new_world
from rlstack.robots.sensing import Camera
from rlstack.sim.arms.scene import Build
from rlstack.sim.camera_renderer import CameraRenderer
from rlstack.sim.mujoco_renderer import add_renderer_camera
from rlstack.sim.visual_randomization import Appearance, add_tables

_SHOWN = 1
"""The geom group that MuJoCo renders by default."""


class ArmCameraRenderer(CameraRenderer):
    """Renders states of :class:`rlstack.sim.batch_mujoco.simulator.MujocoSimulator`.

    The boxes whose sizes and colours differ between trials are followed in images, in their order, and then the tool.

    Args:
        robot: The arm, whose file has these cameras.
        build: Adds the task's objects, as for the worlds.
        cameras: Names of the cameras.
        handled: Names of the boxes whose sizes and colours differ between trials.

    Raises:
        UserError: As of :class:`.CameraRenderer`, or a camera is on a link that the model lacks.
    """

    def __init__(self, robot: Manipulator, build: Build, cameras: Sequence[str], handled: Sequence[str]) -> None:
        super().__init__(robot, cameras)
        self._mujoco, model = import_mujoco(), _drawn(robot, build)
        self._nq = model.nq
        self._handled = np.array([int(model.geom(name).id) for name in handled])
        own = model.geom_bodyid != 0
        own[self._handled] = False
        self._arm = np.flatnonzero(own)
        self.colours = model.geom_rgba[self._handled, :3].copy()
        """(boxes, 3) the boxes' colours as built."""
        self._tool = int(model.body(robot.tool_link).id)
        self.places = np.zeros((len(self._handled) + 1, 2))
        self._links = [_link(model, robot, *named) for named in zip(self.names, self._cameras)]
        self._open(model)

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
        self._light(appearance, world)
        model.geom_rgba[self._arm, :3] = appearance.arm[world]
        model.geom_rgba[self._handled, :3] = np.clip(colour + appearance.thing[world], 0.0, 1.0)
        model.geom_size[self._handled] = half
        model.geom_rbound[self._handled] = np.linalg.norm(half, axis=1)
        model.geom_aabb[self._handled, 3:] = half
        for name, stand in (stands or {}).items():
            body, turn = int(model.body(name).id), stand[3] / 2.0
            model.body_pos[body], model.body_quat[body] = stand[:3], (math.cos(turn), 0.0, 0.0, math.sin(turn))
        data.qpos[:] = state[1 : 1 + self._nq]
        mujoco.mj_kinematics(model, data)
        link = self._links[camera]
        mount, points = data.xmat[link].reshape(3, 3), [*data.geom_xpos[self._handled], data.xpos[self._tool]]
        return self._look(camera, data.xpos[link], mount, appearance, world, np.array(points))


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


def _drawn(robot: Manipulator, build: Build) -> Any:
    """Return the rendered model; its positions have the layout of the simulated worlds."""
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
    add_tables(spec)
    add_renderer_camera(spec)
    return spec.compile()
