"""What a physics engine must offer: rigid bodies and joints in one world. All else is shared by every engine.

An engine integrates what it is given and knows nothing of rotors, commands, noise or topics: those are in
:mod:`rlstack.sim.simulation`, written once.
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
"""Rows of a body's state: position 0:3 m, orientation 3:7 xyzw, linear velocity 7:10 m/s, all in the world, and
angular velocity 10:13 rad/s in the body."""


@dataclass(frozen=True)
class Scene:
    """What an engine is to build.

    Args:
        robots: N robots, in the order of every array.
        world: Where they are; None: a floor at z = 0 and nothing else.
        step_s: Physics step, s.
        isolated: The robots cannot touch or see each other, only the world: many flights at once.
    """

    robots: tuple[RobotSpec, ...]
    step_s: float
    world: World | None = None
    isolated: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Of one engine alone, by name."""


class MassProperties(NamedTuple):
    """Mass and inertia of a robot as the engine holds them, its joints at zero."""

    mass_kg: float
    centre_m: Array
    """(3,) of mass, in ``base_link``."""
    inertia_kg_m2: Array
    """(3, 3) about the centre of mass, along the axes of ``base_link``."""


class JointState(NamedTuple):
    """Of one robot's joints in the order of :meth:`Engine.joint_names`."""

    position: Array
    """(joints,) rad or m."""
    velocity: Array
    effort: Array
    """(joints,) N m or N that the drives apply."""


class View(NamedTuple):
    """What a camera sees. Rows go down, columns right (OpenCV)."""

    rgb: NDArray[np.uint8] | None
    """(height, width, 3)."""
    depth: NDArray[np.float32] | None
    """(height, width) m along the optical axis; infinite where there is nothing within ``far_m``."""


Gyroscopic = Literal["explicit", "none"]

DriveMode = Literal["file", "position", "velocity", "effort"]
"""What a joint's target is: ``file``: what the robot file's mode of that joint says; a free joint has no target."""


class Engine(Protocol):
    """One physics engine with N robots in one world. Built by being constructed with a :class:`Scene`.

    Raises:
        UserError: On construction, where the scene is one that it cannot hold.
    """

    name: ClassVar[str]
    gyroscopic: ClassVar[Gyroscopic]
    """``explicit``: it adds -w x J w of the velocity it holds, as most do; ``none``: it leaves the term out."""
    steps_per_s: ClassVar[float]
    """The physics rate it is used at unless told otherwise, Hz."""
    options: ClassVar[tuple[str, ...]]
    """Names of its own options; a scene has no others."""

    @classmethod
    def require(cls) -> None:
        """Raise ``UserError`` where the engine is not installed; it says which extra to install."""

    def __init__(self, scene: Scene) -> None: ...

    def refresh(self, rows: Array) -> None:
        """Write all bodies' states into ``rows`` (13, N), see :data:`BODY_ROWS`; velocities are those it holds."""

    def place(self, index: int, body: Array) -> None:
        """Put robot ``index`` into the state ``body`` (13,), its joints to rest at their zero."""

    def push(self, force: Array, torque: Array) -> None:
        """Take the force (3, N) N in the world and torque (3, N) N m in the body that act on each body in next step.

        They act at the centre of mass, and in one step only. Arrays may change after the call.
        """

    def step(self) -> None:
        """Let one physics step pass."""

    def reset_world(self) -> None:
        """Put what is no robot and can be pushed back where it began, at rest."""

    def move_obstacle(self, name: str, position: Array) -> None:
        """Put a kinematic obstacle of the world at (3,) m, at once; it stays there, and rays meet it there.

        Raises:
            ValueError: There is none of this name.
        """

    def obstacle_pose(self, name: str) -> tuple[Array, Array]:
        """Return where an obstacle is that can be pushed: position (3,) m and orientation (4,) xyzw.

        Raises:
            ValueError: There is none of this name.
        """

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Give robot ``index``'s body another mass and other principal moments (3,)."""

    def mass_properties(self, index: int) -> MassProperties:
        """Return what the engine holds, for checks against the robot file."""

    def joint_names(self, index: int) -> tuple[str, ...]:
        """Return the driven joints' names in the robot file's order; none for a quadrotor."""

    def joints(self, index: int) -> JointState:
        """Return the joints' state."""

    def place_joints(self, index: int, position: Array, velocity: Array) -> None:
        """Put the joints (joints,) into a state."""

    def drive(self, index: int, mode: DriveMode, target: Array) -> None:
        """Drive the joints (joints,) towards a target until the next call, with the robot file's gains and limits."""

    def touching(self, index: int) -> bool:
        """Return whether anything touched robot ``index`` in the last step."""

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render what a camera (:class:`rlstack.robots.sensing.Camera`) at ``position`` (3,) sees.

        Args:
            position: m, world.
            rotation: (3, 3); its columns are the optical frame's axes (x right, y down, z forward) in the world.
            camera: Size, field of view, near and far.
            wanted: ``rgb``, ``depth`` or both; what is not wanted may be None.

        Raises:
            UserError: There is no way to render here; it says what to install or set.
        """

    def cast(self, index: int, origins: Array, directions: Array, far_m: float) -> Array:
        """Return how far (R,) rays from ``origins`` (R, 3) along unit ``directions`` (R, 3) go, m; infinite beyond far.

        Robot ``index`` itself is not hit, nor are others where robots are isolated.
        """

    def close(self) -> None:
        """Release everything."""


def find_obstacle(known: Mapping[str, int], name: str, what: Literal["can be pushed", "are kinematic"]) -> int:
    """Return what an engine holds for an obstacle.

    Args:
        known: By name, those that are meant.
        name: Of one.
        what: The obstacles that are meant, for errors.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in known:
        raise ValueError(f"'{name}' is not allowed: the obstacles that {what}: {sorted(known)}.")
    return known[name]
