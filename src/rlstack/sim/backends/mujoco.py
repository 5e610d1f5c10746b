"""The ``mujoco`` backend: MuJoCo as an engine, on models generated from the robot files.

Bodies move freely under the forces they are given, in MuJoCo's semi-implicit Euler steps, which
:mod:`rlstack.sim.rotorcraft` makes second order; MuJoCo does contact. Measured accuracy and speed: docs/results.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.robots.mjcf import BODY, add_robot, import_mujoco, new_world
from rlstack.sim.engine import Gyroscopic, JointState, MassProperties, Scene, View
from rlstack.sim.mujoco_eye import Eye, add_eye
from rlstack.sim.robot import AloneInAWorld
from rlstack.sim.world_models import add_to_mujoco

Array = NDArray[np.float64]


class MujocoEngine:
    """MuJoCo with N robots in one world; see :class:`rlstack.sim.engine.Engine`."""

    name: ClassVar[str] = "mujoco"
    gyroscopic: ClassVar[Gyroscopic] = "explicit"
    steps_per_s: ClassVar[float] = 1000.0

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` where MuJoCo is not installed."""
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
        if world is not None and world.obstacles:
            add_to_mujoco(spec, world)
        add_eye(spec)
        self.model = model = spec.compile()
        """The ``mujoco.MjModel``, for viewers and renderers."""
        self.data = data = mujoco.MjData(model)
        """The ``mujoco.MjData``, for viewers and renderers; writing to it bypasses the robots."""
        self._bodies = [int(model.body(prefix + BODY).id) for prefix in self._prefixes]
        joints = [model.joint(prefix + BODY) for prefix in self._prefixes]
        q = np.array([int(joint.qposadr[0]) for joint in joints])[:, None] + np.arange(7)
        v = np.array([int(joint.dofadr[0]) for joint in joints])[:, None] + np.arange(6)
        # Views into MuJoCo's memory, the robots along the last axis: theirs are the first free joints of the world.
        self._pose, self._velocity = _view(data.qpos, q).T, _view(data.qvel, v).T
        self._wrench = _view(data.qfrc_applied, v).T
        self._robots = scene.robots
        self._isolated = scene.isolated
        self._eye: Eye | None = None

    def refresh(self, rows: Array) -> None:
        """Write the bodies' states; MuJoCo's quaternions are wxyz, its free joints' velocities ours."""
        pose = self._pose
        rows[:3], rows[3:6], rows[6] = pose[:3], pose[4:], pose[3]
        rows[7:] = self._velocity

    def place(self, index: int, body: Array) -> None:
        """Put one robot into a state."""
        data = self.data
        if not (np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()):
            self._mujoco.mj_resetData(self.model, data)  # what has diverged would stay in the solver's memory
        self._pose[:3, index], self._pose[4:, index], self._pose[3, index] = body[:3], body[3:6], body[6]
        self._velocity[:, index] = body[7:]
        self._wrench[:, index] = 0.0
        v = int(self.model.body_dofadr[self._bodies[index]])
        data.qacc_warmstart[v : v + 6] = 0.0

    def push(self, force: Array, torque: Array) -> None:
        """Take the wrenches: linear in the world, angular in the body, as MuJoCo's free joints have them."""
        self._wrench[:3] = force
        self._wrench[3:] = torque

    def step(self) -> None:
        """Let one physics step pass."""
        self._mujoco.mj_step(self.model, self.data)

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Give one robot's body another mass and inertia."""
        model, body = self.model, self._bodies[index]
        if model.body_mass[body] == mass_kg and (model.body_inertia[body] == inertia_kg_m2).all():
            return
        model.body_mass[body] = mass_kg
        model.body_inertia[body] = inertia_kg_m2
        # Recomputes what MuJoCo derives from mass and inertia; in data of its own, because it moves the robot.
        self._mujoco.mj_setConst(model, self._mujoco.MjData(model))

    def mass_properties(self, index: int) -> MassProperties:
        """Return what MuJoCo holds."""
        model, body = self.model, self._bodies[index]
        turn = np.empty(9)
        self._mujoco.mju_quat2Mat(turn, model.body_iquat[body])
        axes = turn.reshape(3, 3)
        inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
        return MassProperties(float(model.body_mass[body]), model.body_ipos[body].copy(), inertia)

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return none: a quadrotor's rotors are no joints in MuJoCo."""
        return ()

    def joints(self, index: int) -> JointState:
        """Return the state of no joint."""
        return JointState(np.zeros(0), np.zeros(0), np.zeros(0))

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Put no joint into a state."""

    def drive(self, index: int, mode: Literal["position", "velocity", "effort"], target: Array) -> None:
        """Drive no joint."""

    def touching(self, index: int) -> bool:
        """Return whether one robot is in contact."""
        geoms = self.data.contact.geom
        return bool((self.model.geom_bodyid[geoms] == self._bodies[index]).any()) if len(geoms) else False

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render from anywhere."""
        if self._eye is None:
            self._eye = Eye(self._mujoco, self.model, self.data)
        return self._eye.look(position, rotation, camera, wanted)

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return how far rays go."""
        mujoco, model, data = self._mujoco, self.model, self.data
        mujoco.mj_kinematics(model, data)
        count = len(origins)
        distance, geom = np.empty(count), np.empty(count, dtype=np.int32)
        # what is only seen and what is only felt: only the latter stops a ray
        groups = np.array([1, 0, 1, 1, 1, 1], dtype=np.uint8)
        if self._isolated and len(self._bodies) > 1:
            groups[3] = 0
        for origin in np.unique(origins, axis=0):
            mine = (origins == origin).all(axis=1)
            some = int(mine.sum())
            d, g = np.empty(some), np.empty(some, dtype=np.int32)
            flat = np.ascontiguousarray(directions[mine]).ravel()
            mujoco.mj_multiRay(model, data, origin, flat, groups, True, self._bodies[index], g, d, None, some, far_m)
            distance[mine], geom[mine] = d, g
        return np.where((geom < 0) | (distance > far_m), np.inf, distance)

    def close(self) -> None:
        """Release everything."""
        if self._eye is not None:
            self._eye.close()
        self._eye = None
        del self._pose, self._velocity, self._wrench, self.model, self.data


def _view(flat: Array, index: NDArray[np.intp]) -> Array:
    """Return ``flat[index]`` (N, width) as a view; the places must follow each other at one distance."""
    count, width = index.shape
    first, last = int(index[0, 0]), int(index[-1, -1])
    block = flat[first : last + 1]
    if len(block) != count * width:
        raise AssertionError("the robots' free joints do not follow each other")
    return block.reshape(count, width)


def _isolate(mujoco: Any, spec: Any, body: Any) -> None:
    """Let a robot touch the world alone, and be without what is only seen: many of them cost time."""
    for geom in list(body.geoms):
        if geom.contype == 0 and geom.conaffinity == 0:
            spec.delete(geom)
        else:
            geom.contype = 0  # the world's contype meets its conaffinity, another robot's 0 does not


class MujocoBackend(AloneInAWorld):
    """A robot in MuJoCo; options as for :class:`rlstack.sim.simulation.Simulation`."""

    engine = MujocoEngine


BACKEND = MujocoBackend
