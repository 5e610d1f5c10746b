"""The ``pybullet`` backend: PyBullet as physics engine, on the URDFs in the robot files.

Bodies are PyBullet multibodies, integrated by semi-implicit Euler steps with an explicit gyroscopic term, which
:mod:`rlstack.sim.rotorcraft` makes second order. Measured accuracy and speed: docs/results.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.sim.backends.pybullet.bodies import BulletRobot
from rlstack.sim.backends.pybullet.rays import cast
from rlstack.sim.backends.pybullet.renderer import look
from rlstack.sim.backends.pybullet.server import Server, import_pybullet
from rlstack.sim.backends.pybullet.sliding import Sliding
from rlstack.sim.engine import (
    BODY_ROWS,
    DriveMode,
    Gyroscopic,
    JointState,
    MassProperties,
    Scene,
    View,
    find_obstacle,
)
from rlstack.sim.obstacle import parts_of
from rlstack.sim.simulated_robot import SingleRobotBackend

_ROW = struct.Struct(f"{BODY_ROWS}d")
_PACK, _ROW_BYTES = _ROW.pack_into, _ROW.size


class PybulletEngine:
    """PyBullet with N robots in one world; see :class:`rlstack.sim.engine.Engine`."""

    name: ClassVar[str] = "pybullet"
    gyroscopic: ClassVar[Gyroscopic] = "explicit"
    options: ClassVar[tuple[str, ...]] = ()
    steps_per_s: ClassVar[float] = 1000.0  # PyBullet's own default, 240, has no whole number of steps in 10 ms

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` if PyBullet is not installed."""
        import_pybullet()

    def __init__(self, scene: Scene) -> None:
        world = scene.world
        if world is not None and world.mjcf is not None:
            raise UserError(f"{world.mjcf} is a MuJoCo model, which PyBullet cannot hold: choose another world.")
        self._scene = scene
        self._isolated = scene.isolated and len(scene.robots) > 1
        self._masses: dict[int, tuple[float, Array]] = {}  # set by set_mass
        self._build()

    def _build(self) -> None:
        scene = self._scene
        bullet = import_pybullet()
        self._server = server = Server(bullet, scene.step_s)
        try:
            if scene.world is None or scene.world.floor:
                server.add_floor()
            obstacles = () if scene.world is None else scene.world.obstacles
            sliding = parts_of(obstacles, f"The world '{scene.world.name}'") if scene.world else {}
            self._sliding = {o.name: Sliding(server, o, sliding[o.name]) for o in obstacles if o.name in sliding}
            held = [obstacle for obstacle in obstacles if obstacle.name not in sliding and not obstacle.part_of]
            bodies = [(server.add_obstacle(obstacle), obstacle) for obstacle in held]
            self._loose = [(body, obstacle) for body, obstacle in bodies if obstacle.mass_kg > 0.0]
            self._moved = {obstacle.name: body for body, obstacle in bodies if obstacle.kinematic}
            self._robots = [BulletRobot(server, robot, self._isolated) for robot in scene.robots]
        except BaseException:
            server.close()
            raise
        for index, (mass, inertia) in self._masses.items():
            self._robots[index].set_mass(mass, inertia)
        self._bodies = [robot.body for robot in self._robots]
        self._plain = all(robot.plain for robot in self._robots)
        self._driven = [robot.drives for robot in self._robots if robot.drives.names]
        self._pushes: tuple[list[list[float]], list[list[float]]] | None = None
        self._centres: list[tuple[float, float, float]] = []  # centres of mass, while they are known
        self._client = server.client
        self._buffer = np.zeros((len(self._bodies), BODY_ROWS))
        # Functions called in every step, bound once: the attribute lookup costs as much as some of the calls.
        self._pose_of, self._velocity_of = bullet.getBasePositionAndOrientation, bullet.getBaseVelocity
        self._push, self._twist, self._step = (
            bullet.applyExternalForce,
            bullet.applyExternalTorque,
            bullet.stepSimulation,
        )
        self._in_world, self._in_link = bullet.WORLD_FRAME, bullet.LINK_FRAME

    def _begin_anew(self) -> None:
        """Rebuild the world: after a NaN position, PyBullet detects no contacts for any body."""
        rows = np.empty((BODY_ROWS, len(self._robots)))
        self.refresh(rows)
        pushed = [self._server.motion(body) for body, _ in self._loose]
        moved = {name: self._server.motion(body)[0] for name, body in self._moved.items()}
        slid = {name: thing.motion() for name, thing in self._sliding.items()}
        self._server.close()
        self._build()
        for (body, _), motion in zip(self._loose, pushed):
            if np.isfinite(np.concatenate(motion)).all():
                self._server.move(body, *motion)
        for name, how in slid.items():
            if np.isfinite(how).all():
                self._sliding[name].move(*how)
        for name, place in moved.items():
            self.move_obstacle(name, np.array(place))
        for index in np.flatnonzero(np.isfinite(rows).all(axis=0)):
            self._robots[index].place(rows[:, index])

    @property
    def client(self) -> int:
        """PyBullet's ``physicsClientId``, for debugging; changes through it bypass the robots."""
        return self._client

    def refresh(self, rows: Array) -> None:
        """Write the bodies' states; PyBullet's angular velocities are in the world frame."""
        if not self._plain:
            for robot, column in zip(self._robots, rows.T):
                robot.refresh(column)
            return
        pose_of, velocity_of, client = self._pose_of, self._velocity_of, self._client
        alone = len(self._bodies) == 1 and rows.flags.c_contiguous
        memory, place, centres = rows.data if alone else self._buffer.data, 0, []
        for body in self._bodies:
            position, (x, y, z, w) = pose_of(body, client)
            linear, (a, b, c) = velocity_of(body, client)
            centres.append(position)
            # the inverse rotation, written out: numpy takes ten times as long for three numbers
            p, q, r = y * c - z * b, z * a - x * c, x * b - y * a
            a += 2.0 * (y * r - z * q - w * p)
            b += 2.0 * (z * p - x * r - w * q)
            c += 2.0 * (x * q - y * p - w * r)
            _PACK(memory, place, *position, x, y, z, w, *linear, a, b, c)
            place += _ROW_BYTES
        if not alone:
            rows[:] = self._buffer.T
        self._centres = centres

    def place(self, index: int, body: Array) -> None:
        """Set one robot's state."""
        if not self._sound(index):
            self._begin_anew()
        self._robots[index].place(body)
        self._centres = []

    def _sound(self, index: int) -> bool:
        """Return whether the states of one robot, its joints and all movable obstacles are finite."""
        places = [self._pose_of(self._bodies[index], self._client)[0], self.joints(index).position]
        places += [self._server.motion(body)[0] for body, _ in self._loose]
        places += [thing.pose()[0] for thing in self._sliding.values()]
        return all(bool(np.isfinite(place).all()) for place in places)

    def push(self, force: Array, torque: Array) -> None:
        """Set the wrenches of the next step."""
        if self._plain:
            torques = torque.T.tolist()
        else:
            torques = [robot.torque_in_base(column) for robot, column in zip(self._robots, torque.T)]
        self._pushes = force.T.tolist(), torques

    def step(self) -> None:
        """Take one physics step."""
        client = self._client
        if self._pushes is not None:
            # A world force needs a world position; PyBullet adds the torque of its lever arm to the centre of mass.
            centres = self._centres or [self._pose_of(body, client)[0] for body in self._bodies]
            for body, at, force, torque in zip(self._bodies, centres, *self._pushes):
                self._push(body, -1, force, at, self._in_world, client)
                self._twist(body, -1, torque, self._in_link, client)
            self._pushes = None
        self._centres = []
        for drives in self._driven:
            drives.prepare(self._scene.step_s)
        self._step(client)

    def reset_world(self) -> None:
        """Return movable obstacles to their initial poses."""
        for body, obstacle in self._loose:
            still = [0.0, 0.0, 0.0]
            self._server.move(body, obstacle.position_m, frames.from_yaw(obstacle.yaw_rad).tolist(), still, still)
        for thing in self._sliding.values():
            thing.move(0.0, 0.0)

    def move_obstacle(self, name: str, position: Array) -> None:
        """Move a kinematic obstacle."""
        still, body = (0.0, 0.0, 0.0), find_obstacle(self._moved, name, "are kinematic")
        self._server.move(body, position.tolist(), (0.0, 0.0, 0.0, 1.0), still, still)

    def obstacle_pose(self, name: str) -> tuple[Array, Array]:
        """Return the pose of a movable obstacle."""
        sliding = {held: thing.body for held, thing in self._sliding.items()}
        body = find_obstacle({obstacle.name: body for body, obstacle in self._loose} | sliding, name, "can be pushed")
        if name in sliding:
            return self._sliding[name].pose()
        position, orientation, *_ = self._server.motion(body)
        return np.array(position), np.array(orientation)

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set one robot's mass and inertia."""
        self._masses[index] = float(mass_kg), np.array(inertia_kg_m2, dtype=float)
        self._robots[index].set_mass(*self._masses[index])

    def mass_properties(self, index: int) -> MassProperties:
        """Return PyBullet's mass properties."""
        return self._robots[index].mass_properties()

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return the driven joints' names; none for a quadrotor."""
        return self._robots[index].drives.names

    def joints(self, index: int) -> JointState:
        """Return the joints' state."""
        return self._robots[index].drives.state()

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Set the joints' state."""
        self._robots[index].drives.place(np.asarray(position), np.asarray(velocity))

    def drive(self, index: int, mode: DriveMode, target: Array) -> None:
        """Drive the joints."""
        self._robots[index].drives.set(mode, target)

    def touching(self, index: int) -> bool:
        """Return whether one robot had contact in the last step."""
        points = self._server.bullet.getContactPoints(bodyA=self._bodies[index])
        return any(point[9] > 0.0 for point in points)

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render from any pose."""
        return look(self._server, position, rotation, camera, wanted)

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return ray lengths."""
        return cast(self._server, self._bodies[index], self._isolated, origins, directions, far_m)

    def close(self) -> None:
        """Release everything."""
        self._server.close()


class PybulletBackend(SingleRobotBackend):
    """A robot in PyBullet; options as for :class:`rlstack.sim.simulation.Simulation`."""

    engine = PybulletEngine
