"""Topics of a kind of robot: the base class of its part ``topics``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.guard import Decision
from rlstack.interfaces.backend import Backend, Signals
from rlstack.kinds import find_kind, kind_names
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import RobotSpec

Filler = Callable[[int, Signals], Any]
"""Creates a topic's message from a stamp, ns, and sensed signals."""


SeenClock = Callable[[int], "tuple[float, float] | None"]
"""Returns the time and the seconds of a stamp, ns, on the node's clock; None before the first stamp."""


class GuardSenses:
    """A guard's extra subscriptions, none by default; a kind whose guard needs scans or goals overrides this.

    Args:
        node: The guard node.
        guard: The guard.
        clock: The node's clock.
        take: Called with the guard's decision on a message.
        lock_step: The guard processes messages without answering them.
    """

    def __init__(
        self, node: Any, guard: Any, clock: SeenClock, take: Callable[[Decision], None], lock_step: bool
    ) -> None:
        self.counts: dict[str, int] = {}
        """Figures for diagnostics."""

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a message that belongs to the observation of ``stamp_ns`` is still in transit (lock step)."""
        return False

    def forget(self) -> None:
        """Start another episode."""


class KindTopics(ABC):
    """One robot on topics.

    Args:
        robot: The robot.
        parameters: Those of the robot node.

    Raises:
        UserError: A parameter does not apply to robots of this kind.
    """

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters that the kind adds to the robot node."""
    GUARD_PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters that the kind adds to the guard node: fields of its guard's configuration, and options."""
    GUARD_SENSES: ClassVar[type[GuardSenses]] = GuardSenses
    """Class of the guard's subscriptions besides observations and commands."""
    COMMAND_TYPE: ClassVar[Parameter | None] = None
    """The parameter, of robot node and guard node, that selects the message type of commands; None: only one exists."""
    TELEOPERATED: ClassVar[bool] = False
    """Whether the teleoperation nodes can guide the robot by its tool."""

    observed: str
    """The topic whose stamps commands answer. It is published last of all sensed topics, at the control rate."""
    command_topic: str
    command_type: Any
    """The message class."""
    timeout_s: float | None = None
    """Age at which a command stops the robot; None: the node's ``command_timeout_periods``."""

    @abstractmethod
    def __init__(self, robot: Any, parameters: ParameterSet) -> None: ...

    @abstractmethod
    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return a serialized command's stamp, ns, and signals; no stamp means now, no signals mean off.

        Raises:
            ValueError: The command is invalid; the text says why.
        """

    @abstractmethod
    def joint_states(self) -> tuple[str, Filler]:
        """Return the signal that a robot with ``joint_states`` senses, and the function that fills the message."""

    def moves(self, command: Signals) -> bool:
        """Return whether a robot under this command needs another one soon."""
        return True

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return the pose of ``base_link`` in ``odom``: position (3,) m and orientation (4,) xyzw."""
        return sensed["position"], sensed["orientation"]

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return positions of joints by name, as in the robot file."""
        return {}

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return speeds by name, rad/s, of rotors and other spinning parts whose position is not sensed."""
        return {}

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return a simulated robot's start state at a height; None: on the ground at its place.

        Raises:
            UserError: It cannot start in the air.
        """
        if height_m:
            raise UserError(f"start_height_m: {height_m} is not allowed for {backend.robot.name}: leave it out.")
        return None


def kind_topics(robot: RobotSpec) -> type[KindTopics]:
    """Return the topics of a robot's kind.

    Raises:
        UserError: The kind lacks them.
    """
    found: type[KindTopics] = find_kind(robot.kind).load("topics")
    return found


def all_kind_topics() -> dict[str, type[KindTopics]]:
    """Return the topics of all kinds that have them, by the kind's name."""
    kinds = (find_kind(name) for name in kind_names())
    return {kind.name: kind.load("topics") for kind in kinds if kind.has("topics")}


def teleoperated(robot: RobotSpec, how: str = "-p robot:=panda") -> Any:
    """Return a robot that can be guided by hand; otherwise raise ``UserError``, with ``how`` to pass an arm."""
    if not kind_topics(robot).TELEOPERATED:
        raise UserError(f"{robot.name} is a {robot.kind}, but only arms can be guided by hand: {how}.")
    return robot


def simulated_pose(backend: Backend) -> tuple[Array, Array] | None:
    """Return a robot's simulated pose, as :meth:`KindTopics.pose`; None if it is not simulated."""
    from rlstack.sim.robot import SimulatedRobot  # a guard, which reads the parameters here, needs no simulator

    if not isinstance(backend, SimulatedRobot):
        return None
    motion = backend.simulation.motion(backend.index)
    return motion["position"], motion["orientation"]


def simulated_start_m(backend: Backend) -> Array | None:
    """Return a simulated robot's starting place (3,), m; None if it is not simulated."""
    from rlstack.sim.robot import SimulatedRobot

    return np.asarray(backend.simulation.starts_m[backend.index]) if isinstance(backend, SimulatedRobot) else None
