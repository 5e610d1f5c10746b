"""The ``isaac`` backend: Isaac Sim's PhysX as an engine. **Not yet run on Isaac Sim**, see docs/isaac.md.

Quadrotors are single rigid bodies written as USD from the robot file (``stage.py``); robots with joints are
articulations that Isaac Sim imports from their URDF (``articulated.py``). PhysX takes semi-implicit Euler steps in
single precision: states have a relative error of about 1e-7, and flights deviate accordingly from those of the double
precision engines. A process has one world at a time; the application runs until the process ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.sim.backends.isaac import api_5, application, convert, installation, stage
from rlstack.sim.backends.isaac.robots import Robots
from rlstack.sim.engine import BODY_ROWS, DriveMode, Gyroscopic, JointState, MassProperties, Scene, View, find_obstacle
from rlstack.sim.obstacle import OBJECT
from rlstack.sim.simulated_robot import SingleRobotBackend

NOT_YET_RUN = "not yet run on Isaac Sim"
"""Notice on every page and report with this backend, until the conformance suite has run on Isaac Sim."""


class IsaacEngine:
    """Isaac Sim with N robots in one world; see :class:`rlstack.sim.engine.Engine`.

    Scene options: ``headless`` (default True: no window) and ``ros_bridge`` (default False: Isaac Sim's ROS 2 bridge,
    which rlstack's nodes do not need).
    """

    name: ClassVar[str] = "isaac"
    gyroscopic: ClassVar[Gyroscopic] = "explicit"
    steps_per_s: ClassVar[float] = 1000.0
    options: ClassVar[tuple[str, ...]] = ("headless", "ros_bridge")

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` if Isaac Sim is not installed, has an unsupported version, or lacks its environment."""
        installation.require_supported(installation.installed_version(), sys.version_info[:2])
        installation.require_environment(os.environ, interactive=sys.stdin is not None and sys.stdin.isatty())

    def __init__(self, scene: Scene) -> None:
        self.require()
        options = _options(scene.options)
        steps_per_s = _whole_rate(scene.step_s)
        bodies = Robots(scene.robots)
        if (model := getattr(scene.world, "mjcf", None)) is not None:
            raise UserError(f"{model} is a MuJoCo model, which Isaac Sim cannot hold: choose another world.")
        obstacles = () if scene.world is None else scene.world.obstacles
        if moved := [obstacle.name for obstacle in obstacles if obstacle.kinematic]:
            raise UserError(f"{moved[0]} is kinematic, which is not supported in Isaac Sim: choose mujoco.")
        if sliding := [obstacle.name for obstacle in obstacles if obstacle.slide is not None]:
            raise UserError(f"{sliding[0]} slides, which is not supported in Isaac Sim: choose mujoco or pybullet.")
        if any(robot.end_effector for robot in scene.robots) and any(obstacle.is_handled for obstacle in obstacles):
            raise UserError(
                f"The pose of '{OBJECT}' for an arm is not supported in Isaac Sim: choose mujoco or pybullet."
            )
        if options["ros_bridge"]:
            installation.require_environment(os.environ, ros_bridge=True, interactive=True)
        application.occupy(self)
        self._world: api_5.World5 | None = None
        try:
            running = application.start(lambda: api_5.construct(**options))
            self._world = api_5.World5(running, steps_per_s, lambda usd: stage.author_surroundings(usd, scene.world))
            bodies.enter(self._world, isolated=scene.isolated and len(scene.robots) > 1)
        except BaseException:
            self.close()
            raise
        self._robots, self._isolated = bodies, scene.isolated
        self._loose = tuple(obstacle for obstacle in obstacles if obstacle.mass_kg > 0.0)
        self._orientation = np.zeros((4, len(scene.robots)))
        self._stale = True

    @property
    def _open(self) -> api_5.World5:
        if self._world is None:
            raise RuntimeError("The Isaac Sim world was closed.")
        return self._world

    def refresh(self, rows: Array) -> None:
        """Write the bodies' states."""
        _ = self._open
        self._robots.refresh(rows)
        self._orientation[:] = rows[3:7]
        self._stale = False

    def place(self, index: int, body: Array) -> None:
        """Set one robot's state."""
        self._robots.place(index, body)
        self._stale = True

    def push(self, force: Array, torque: Array) -> None:
        """Set the wrenches of the next step; PhysX gets both in the world frame."""
        if self._stale:
            self.refresh(np.empty((BODY_ROWS, force.shape[1])))
        self._robots.push(force, torque, self._orientation)

    def step(self) -> None:
        """Take one physics step."""
        self._open.step()
        self._stale = True

    def reset_world(self) -> None:
        """Return movable obstacles to their initial poses."""
        for obstacle in self._loose:
            half = 0.5 * obstacle.yaw_rad
            self._open.put_back(
                f"{stage.OBSTACLES}/{obstacle.name}",
                np.array([obstacle.position_m], dtype=np.float32),
                np.array([[np.cos(half), 0.0, 0.0, np.sin(half)]], dtype=np.float32),
            )

    def move_obstacle(self, name: str, position: Array) -> None:
        """Refuse: this engine has no kinematic obstacles."""
        find_obstacle({}, name, "are kinematic")

    def obstacle_pose(self, name: str) -> tuple[Array, Array]:
        """Refuse: reading obstacle poses from PhysX is not implemented."""
        raise UserError(f"The pose of '{name}' is not supported in Isaac Sim: choose mujoco or pybullet.")

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set one robot's mass and inertia."""
        self._robots.set_mass(index, mass_kg, inertia_kg_m2)

    def mass_properties(self, index: int) -> MassProperties:
        """Return PhysX's mass properties, in single precision."""
        return self._robots.mass_properties(index)

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return the driven joints' names; none for a quadrotor."""
        robot = self._robots.jointed.get(index)
        return () if robot is None else robot.names

    def joints(self, index: int) -> JointState:
        """Return the joints' state."""
        robot = self._robots.jointed.get(index)
        return JointState(np.zeros(0), np.zeros(0), np.zeros(0)) if robot is None else robot.joints()

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Set the joints' state."""
        if (robot := self._robots.jointed.get(index)) is not None:
            robot.place_joints(position, velocity)

    def drive(self, index: int, mode: DriveMode, target: Array) -> None:
        """Drive the joints."""
        if (robot := self._robots.jointed.get(index)) is not None:
            robot.drive(mode, target)

    def touching(self, index: int) -> bool:
        """Return whether one robot had contact in the last step."""
        return self._robots.touching(index)

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render from any pose with Isaac Sim's ray tracer, without a physics step."""
        fov = 2.0 * np.arctan(0.5 * camera.width / camera.intrinsics[0, 0])
        name = f"w{camera.width}h{camera.height}f{fov:.6f}n{camera.near_m:g}x{camera.far_m:g}"
        try:
            rgb, depth = self._open.look(
                name.translate(str.maketrans(".-+", "ppp")),
                (camera.width, camera.height),
                float(fov),
                (camera.near_m, camera.far_m),
                position,
                convert.wxyz_from_xyzw(frames.from_matrix(rotation)),
            )
        except api_5.NoFrame as error:
            raise UserError(
                f"{error} It renders on NVIDIA RTX GPUs only: see that nvidia-smi lists one, with the driver that Isaac"
                " Sim's requirements name."
            ) from error
        depth[depth > camera.far_m] = np.inf
        return View(rgb if "rgb" in wanted else None, depth if "depth" in wanted else None)

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return ray lengths from PhysX's scene queries."""
        paths = self._robots.paths
        unseen = paths if self._isolated else [paths[index]]
        return self._open.cast(origins, directions, far_m, unseen)

    def close(self) -> None:
        """Release the world; the application runs until the process ends."""
        world, self._world = self._world, None
        try:
            if world is not None:
                world.close()
        finally:
            application.vacate(self)


def _options(given: dict[str, Any]) -> dict[str, bool]:
    known = {"headless": True, "ros_bridge": False}
    if unknown := sorted(set(given) - set(known)):
        raise UserError(f"The isaac backend has no option {', '.join(unknown)}; its options: {', '.join(known)}.")
    for name, wanted in given.items():
        if not isinstance(wanted, bool):
            raise UserError(f"{name}: {wanted!r} is not allowed: must be true or false.")
    return {**known, **given}


def _whole_rate(step_s: float) -> int:
    rate = 1.0 / step_s
    if abs(rate - round(rate)) > 1e-6 * rate:
        raise UserError(
            f"physics_rate_hz: {rate:g} is not allowed: Isaac Sim's physics takes a whole number of steps a second."
        )
    return round(rate)


class IsaacBackend(SingleRobotBackend):
    """A robot in Isaac Sim; options as for :class:`rlstack.sim.simulation.Simulation` and :class:`IsaacEngine`."""

    engine = IsaacEngine
    install: ClassVar[str] = installation.INSTALL
    """How to install Isaac Sim, as the end of a sentence."""

    @staticmethod
    def look() -> tuple[Literal["ok", "missing", "broken"], str]:
        """Return whether Isaac Sim is installed and supported, with its version or the reason, without importing it."""
        version = installation.installed_version()
        if version is None:
            return "missing", NOT_YET_RUN
        try:
            installation.require_supported(version)
        except UserError as error:
            return "broken", f"{error} ({NOT_YET_RUN})"
        return "ok", f"{version}, {NOT_YET_RUN}"
