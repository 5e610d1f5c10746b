"""The ``mujoco`` backend: MuJoCo as physics engine, on models generated from the robot files.

Bodies move freely under applied forces, in MuJoCo's semi-implicit Euler steps, which :mod:`rlstack.sim.rotorcraft`
makes second order; MuJoCo handles contact. Measured accuracy and speed: docs/results.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.mjcf import BODY, add_robot, import_mujoco, new_world
from rlstack.sim.engine import DriveMode, Gyroscopic, JointState, MassProperties, Scene, View, find_obstacle
from rlstack.sim.mujoco_bodies import FreeBodies, Joints, Loose, mass_properties
from rlstack.sim.mujoco_renderer import Renderer, add_renderer_camera
from rlstack.sim.obstacle import slid
from rlstack.sim.simulated_robot import SingleRobotBackend
from rlstack.sim.world_export import PREFIX, add_to_mujoco

_SEEN_GROUP = 1
"""Group of geoms that are visual only."""
_STOPPING = np.array([group != _SEEN_GROUP for group in range(6)], dtype=np.uint8)
"""Groups of collision geoms, which stop rays."""


class MujocoEngine:
    """MuJoCo with N robots in one world; see :class:`rlstack.sim.engine.Engine`."""

    name: ClassVar[str] = "mujoco"
    gyroscopic: ClassVar[Gyroscopic] = "explicit"
    steps_per_s: ClassVar[float] = 1000.0
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` if MuJoCo is not installed."""
        import_mujoco()

    def __init__(self, scene: Scene) -> None:
        self._mujoco = mujoco = import_mujoco()
        world = scene.world
        floor = world is None or world.floor
        spec = new_world(timestep_s=scene.step_s, world=world.mjcf if world else None, floor=floor)
        count = len(scene.robots)
        self._prefixes = [f"{k}/" if count > 1 else "" for k in range(count)]
        for prefix, robot in zip(self._prefixes, scene.robots):
            body = add_robot(spec, robot, prefix, timestep_s=scene.step_s)
            if scene.isolated and count > 1:
                _isolate(mujoco, spec, body)
        obstacles = () if world is None else world.obstacles
        if world is not None and obstacles:
            add_to_mujoco(spec, world)
        add_renderer_camera(spec)
        self.model = model = spec.compile()
        """The ``mujoco.MjModel``, for viewers and renderers."""
        self.data = data = mujoco.MjData(model)
        """The ``mujoco.MjData``, for viewers and renderers; writing to it bypasses the robots."""
        self._bodies = [int(model.body(prefix + BODY).id) for prefix in self._prefixes]
        self._free = FreeBodies(mujoco, model, data, self._bodies)
        self._joints = [
            Joints(mujoco, model, data, prefix, robot.drives) for prefix, robot in zip(self._prefixes, scene.robots)
        ]
        roots = model.body_rootid[self._bodies]
        self._loose = Loose(model, data, roots)
        if scene.isolated and self._loose.there:
            raise UserError(
                f"{world.title if world else 'The world'} has parts that move, and isolated robots would all push the"
                " same ones: choose another world."
            )
        isolated = scene.isolated and count > 1
        of_geom = model.body_rootid[model.geom_bodyid]
        # geoms that each robot's rays pass through: its own and, if isolated, those of other robots
        self._passed = [np.flatnonzero(np.isin(of_geom, roots) if isolated else of_geom == root) for root in roots]
        moved = [obstacle.name for obstacle in obstacles if obstacle.kinematic]
        self._moved = {name: int(model.body(PREFIX + name).mocapid[0]) for name in moved}
        pushed = [obstacle.name for obstacle in obstacles if obstacle.mass_kg > 0.0]
        self._pushed = {name: int(model.joint(PREFIX + name).qposadr[0]) for name in pushed}
        self._sliding = {obstacle.name: obstacle for obstacle in obstacles if obstacle.slide is not None}
        self._scratch: Any = None
        self._stale = False
        self._renderer: Renderer | None = None

    def refresh(self, rows: Array) -> None:
        """Write the bodies' states."""
        self._free.refresh(rows)

    def place(self, index: int, body: Array) -> None:
        """Set one robot's state, with its joints at rest."""
        data = self.data
        if not (np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()):
            self._begin_anew()
        self._free.place(index, body)
        self._joints[index].rest()

    def _begin_anew(self) -> None:
        """Clear the solver's warm start, which would keep diverged values; finite joint states stay."""
        model, data = self.model, self.data
        held, moving, driven = data.qpos.copy(), data.qvel.copy(), data.ctrl.copy()
        self._mujoco.mj_resetData(model, data)
        places = np.split(np.arange(model.nq), model.jnt_qposadr[1:])
        speeds = np.split(np.arange(model.nv), model.jnt_dofadr[1:])
        for q, v in zip(places, speeds):
            if np.isfinite(held[q]).all() and np.isfinite(moving[v]).all():
                data.qpos[q], data.qvel[v] = held[q], moving[v]
        data.ctrl[:] = driven

    def push(self, force: Array, torque: Array) -> None:
        """Set the wrenches of the next step."""
        self._free.push(force, torque)

    def step(self) -> None:
        """Take one physics step."""
        if self._stale:
            self._derive()
        self._mujoco.mj_step(self.model, self.data)

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set one robot's mass and inertia."""
        model, body = self.model, self._bodies[index]
        if model.body_mass[body] == mass_kg and (model.body_inertia[body] == inertia_kg_m2).all():
            return
        model.body_mass[body] = mass_kg
        model.body_inertia[body] = inertia_kg_m2
        self._stale = True

    def _derive(self) -> None:
        """Let MuJoCo recompute constants derived from masses, once for all changed robots.

        It uses a separate ``MjData``, because the computation moves the robots.
        """
        if self._scratch is None:
            self._scratch = self._mujoco.MjData(self.model)
        self._mujoco.mj_setConst(self.model, self._scratch)
        self._stale = False

    def reset_world(self) -> None:
        """Return the world's movable parts to their initial state."""
        self._loose.restore()

    def move_obstacle(self, name: str, position: Array) -> None:
        """Move a kinematic obstacle."""
        self.data.mocap_pos[find_obstacle(self._moved, name, "are kinematic")] = position

    def obstacle_pose(self, name: str) -> tuple[Array, Array]:
        """Return the pose of a movable obstacle."""
        first = find_obstacle(self._pushed, name, "can be pushed")
        if name in self._sliding:
            return slid(self._sliding[name], float(self.data.qpos[first]))
        pose = self.data.qpos[first : first + 7]
        return pose[:3].copy(), pose[[4, 5, 6, 3]]

    def mass_properties(self, index: int) -> MassProperties:
        """Return MuJoCo's mass properties."""
        return mass_properties(self._mujoco, self.model, self._bodies[index])

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return the driven joints' names; none for a quadrotor, whose rotors are not joints in MuJoCo."""
        return self._joints[index].names

    def joints(self, index: int) -> JointState:
        """Return the joints' state."""
        return self._joints[index].state()

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Set the joints' state."""
        self._joints[index].place(position, velocity)

    def drive(self, index: int, mode: DriveMode, target: Array) -> None:
        """Drive the joints."""
        self._joints[index].drive(mode, target)

    def touching(self, index: int) -> bool:
        """Return whether one robot is in contact."""
        geoms = self.data.contact.geom
        roots = self.model.body_rootid
        mine = roots[self.model.geom_bodyid[geoms]] == roots[self._bodies[index]]
        return bool(mine.any()) if len(geoms) else False

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render from any pose."""
        if self._renderer is None:
            self._renderer = Renderer(self._mujoco, self.model, self.data)
        return self._renderer.look(position, rotation, camera, wanted)

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return ray lengths."""
        mujoco, model, data = self._mujoco, self.model, self.data
        mujoco.mj_kinematics(model, data)
        count = len(origins)
        distance, geom = np.empty(count), np.empty(count, dtype=np.int32)
        # mj_ray can exclude only one body, and a robot has several: meanwhile its geoms are in the group that rays pass
        passed, groups = self._passed[index], model.geom_group
        held = groups[passed].copy()
        groups[passed] = _SEEN_GROUP
        try:
            for origin in np.unique(origins, axis=0):
                mine = (origins == origin).all(axis=1)
                some = int(mine.sum())
                d, g = np.empty(some), np.empty(some, dtype=np.int32)
                flat = np.ascontiguousarray(directions[mine]).ravel()
                mujoco.mj_multiRay(model, data, origin, flat, _STOPPING, True, -1, g, d, None, some, far_m)
                distance[mine], geom[mine] = d, g
        finally:
            groups[passed] = held
        return np.where((geom < 0) | (distance > far_m), np.inf, distance)

    def close(self) -> None:
        """Release everything."""
        if self._renderer is not None:
            self._renderer.close()
        self._renderer = None
        self._scratch = None
        del self._free, self._joints, self._loose, self.model, self.data


def _isolate(mujoco: Any, spec: Any, body: Any) -> None:
    """Let a robot collide with the world only, and remove its visual geoms, which cost time."""
    for geom in list(body.geoms):
        if geom.contype == 0 and geom.conaffinity == 0:
            spec.delete(geom)
        else:
            geom.contype = 0  # the world's contype matches its conaffinity, another robot's 0 does not


class MujocoBackend(SingleRobotBackend):
    """A robot in MuJoCo; options as for :class:`rlstack.sim.simulation.Simulation`."""

    engine = MujocoEngine


BACKEND = MujocoBackend
