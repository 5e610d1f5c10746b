"""The interface of a physics engine: rigid bodies and joints in one world.

An engine only integrates. Rotors, commands, noise and time are in :mod:`rlstack.sim.simulation`, shared by all engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots import RobotSpec
from rlstack.sim.world import World

BODY_ROWS = 13
"""Rows of a body's state: position 0:3 m, orientation 3:7 xyzw and linear velocity 7:10 m/s in the world frame, and
angular velocity 10:13 rad/s in the body frame."""


@dataclass(frozen=True)
class Scene:
    """The contents of a simulation.

    Args:
        robots: N robots, in the order of every array.
        world: Their world; None: only a floor at z = 0.
        step_s: Physics step, s.
        isolated: Whether robots touch and see only the world, not each other, for many runs at once.
    """

    robots: tuple[RobotSpec, ...]
    step_s: float
    world: World | None = None
    isolated: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Engine-specific options by name."""


class MassProperties(NamedTuple):
    """Mass and inertia of a robot in the engine, with its joints at zero."""

    mass_kg: float
    centre_m: Array
    """(3,) centre of mass in ``base_link``, m."""
    inertia_kg_m2: Array
    """(3, 3) about the centre of mass, along the axes of ``base_link``."""


class JointState(NamedTuple):
    """State of one robot's joints, in the order of :meth:`Engine.joint_names`."""

    position: Array
    """(joints,) rad or m."""
    velocity: Array
    effort: Array
    """(joints,) efforts of the drives, N m or N."""


class View(NamedTuple):
    """A camera's image; rows go down, columns right (OpenCV)."""

    rgb: NDArray[np.uint8] | None
    """(height, width, 3)."""
    depth: NDArray[np.float32] | None
    """(height, width) m along the optical axis; infinite without an object within ``far_m``."""


Gyroscopic = Literal["explicit", "none"]

DriveMode = Literal["file", "position", "velocity", "effort"]
"""Meaning of a joint's target; ``file``: the joint's mode in the robot file. A free joint has no target."""


class Engine(Protocol):
    """A physics engine with N robots in one world, constructed from a :class:`Scene`.

    Raises:
        UserError: On construction, if the engine does not support the scene.
    """

    name: ClassVar[str]
    gyroscopic: ClassVar[Gyroscopic]
    """``explicit``: it adds -w x J w of its present velocity, as most do; ``none``: it omits the term."""
    steps_per_s: ClassVar[float]
    """Default physics rate, Hz."""
    options: ClassVar[tuple[str, ...]]
    """Names of the engine's own options."""

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` with the extra to install if the engine is not installed."""

    def __init__(self, scene: Scene) -> None: ...

    def refresh(self, rows: Array) -> None:
        """Write all bodies' states to ``rows`` (13, N), see :data:`BODY_ROWS`; velocities are the engine's own."""

    def place(self, index: int, body: Array) -> None:
        """Set the state of robot ``index`` to ``body`` (13,), with its joints at rest at zero."""

    def push(self, force: Array, torque: Array) -> None:
        """Set the force (3, N) N, world frame, and torque (3, N) N m, body frame, on each body for the next step.

        They act at the centre of mass, in one step only. The caller may change the arrays after the call.
        """

    def step(self) -> None:
        """Take one physics step."""

    def reset_world(self) -> None:
        """Return movable obstacles to their initial poses, at rest."""

    def move_obstacle(self, name: str, position: Array) -> None:
        """Move a kinematic obstacle to (3,) m at once; it stays there and rays hit it.

        Raises:
            ValueError: There is no such obstacle.
        """

    def obstacle_pose(self, name: str) -> tuple[Array, Array]:
        """Return the pose of a movable obstacle: position (3,) m and orientation (4,) xyzw.

        Raises:
            ValueError: There is no such obstacle.
        """

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set mass and principal moments (3,) of robot ``index``."""

    def mass_properties(self, index: int) -> MassProperties:
        """Return the engine's mass properties, for checks against the robot file."""

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return the driven joints' names in the robot file's order; none for a quadrotor."""

    def joints(self, index: int) -> JointState:
        """Return the joints' state."""

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Set the joints' state (joints,)."""

    def drive(self, index: int, mode: DriveMode, target: Array) -> None:
        """Drive the joints (joints,) towards a target until the next call, with the robot file's gains and limits."""

    def touching(self, index: int) -> bool:
        """Return whether anything touched robot ``index`` in the last step."""

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render a camera (:class:`rlstack.robots.sensing.Camera`) at ``position`` (3,).

        Args:
            position: m, world.
            rotation: (3, 3); its columns are the optical frame's axes (x right, y down, z forward) in the world.
            camera: Size, field of view, near and far.
            wanted: ``rgb``, ``depth`` or both; the other may be None in the result.

        Raises:
            UserError: Rendering is not possible here; the message says what to install or set.
        """

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return the lengths (R,) of rays from ``origins`` (R, 3) along unit ``directions`` (R, 3), m; inf beyond far.

        Rays pass through robot ``index`` itself, and through other robots if robots are isolated.
        """

    def close(self) -> None:
        """Release everything."""


def find_obstacle(known: Mapping[str, int], name: str, what: Literal["can be pushed", "are kinematic"]) -> int:
    """Return the engine's id of an obstacle among ``known`` ids by name; ``what`` describes these in errors.

    Raises:
        ValueError: There is no such obstacle.
    """
    if name not in known:
        raise ValueError(f"'{name}' is not allowed: the obstacles that {what}: {sorted(known)}.")
    return known[name]
