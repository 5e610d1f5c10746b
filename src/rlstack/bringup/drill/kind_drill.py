"""Base class of a robot kind's ``drill`` part: its safe answers, its excursions, and what faults do to its messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.drill.answers import Answer
from rlstack.bringup.drill.changes import Edit
from rlstack.bringup.drill.fault import Fault
from rlstack.bringup.robot_group import Point
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of, command_range, element_names
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.kinds import find_kind
from rlstack.nodes.kind_topics import kind_topics
from rlstack.robots import RobotSpec

_SLACK = 1e-6


class KindDrill(ABC):
    """A robot's drill.

    Args:
        robot: The robot.
    """

    ANSWERS: ClassVar[Mapping[str, Answer]] = {}
    """The safe answer by a fault's ``answer``; faults without one here are left out."""
    FAULTS: ClassVar[tuple[Fault, ...]] = ()
    """Faults of this kind only."""
    TOPICS: ClassVar[tuple[str, ...]] = ()
    """Sensor topics of the guard, besides the one that commands answer, through which faults may come."""
    GOAL: ClassVar[Point | None] = None
    """Where the policy is sent, so that it moves when a fault comes; None: the world's or the policy's own."""
    WORLD: ClassVar[str] = ""
    """World of the drill unless another one is given."""
    START_HEIGHT_M: ClassVar[float] = 0.0
    SETTLE_S: ClassVar[tuple[float, float]] = (0.5, 1.0)
    """Shortest and longest time under the policy before a fault, s of the robot."""

    def __init__(self, robot: Any) -> None:
        self.robot = robot
        self.topics = kind = kind_topics(robot)
        parameters: Any = {parameter.name: parameter.default for parameter in kind.PARAMETERS}
        self._topics = kind(robot, parameters)
        guard = find_kind(robot.kind).load("guard")
        self.command = command_of(robot)
        observed = [SENSED[name] for name in guard.OBSERVED]
        names = element_names(robot).get(str(self.command.shape[0]), ())
        self._read = SignalReader(
            topics.message_type(observed[0].type),
            {signal.name: signal.field for signal in observed},
            {signal.name: names for signal in observed if signal.shape == self.command.shape},
        )
        low, high = command_range(robot, self.command.name)
        self._low, self._high = np.array(low), np.array(high)

    @property
    def observed(self) -> str:
        """The topic whose stamps commands answer."""
        return str(self.topics.observed)

    @property
    def robot_timeout_s(self) -> float:
        """Time without a command after which the robot node stops the robot."""
        return float(self._topics.timeout_s or 5.0 / self.robot.control_rate_hz)

    # Edits of messages

    @property
    def command_edits(self) -> Mapping[str, Edit]:
        """Edits of a command: ``nan``, ``beyond`` its range, too ``short``, for a ``foreign`` robot."""
        return {}

    @property
    def observation_edits(self) -> Mapping[str, Edit]:
        """Edits of an observation: a ``jump`` of its place, ``nan``, another ``frame``."""
        return {}

    # What happened

    def observation(self, data: bytes) -> Mapping[str, Array]:
        """Return the signals of an observation."""
        return self._read(data)[1]

    def command_problem(self, data: bytes) -> str:
        """Return what is wrong with a command to the robot: not readable, not finite, beyond its range; or nothing."""
        try:
            _, command = self._topics.read(data)
        except ValueError as error:
            return f"a command to the robot could not be read ({error})"
        if not command:
            return ""
        numbers = command[self.command.name]
        if not np.isfinite(numbers).all():
            return "a command to the robot is not finite"
        margin = _SLACK * (self._high - self._low)
        if (numbers < self._low - margin).any() or (numbers > self._high + margin).any():
            return f"a command to the robot is beyond its range: {np.round(numbers, 3).tolist()}"
        return ""

    @abstractmethod
    def excursion(self, seen: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """Return the worst excursion over observations, the first at the moment of the fault; by name with unit."""

    @abstractmethod
    def path(self, seen: Sequence[Mapping[str, Array]]) -> list[float]:
        """Return the main excursion at each observation, for the chart."""

    PATH: ClassVar[str] = "excursion"
    """Its name with the unit."""

    def limit_problem(self, seen: Sequence[Mapping[str, Array]], config: Any) -> str:
        """Return which limit of the robot was passed while the guard had it in hand, or nothing."""
        return ""

    def other_excursion(self, topic: str, data: Sequence[bytes]) -> dict[str, float]:
        """Return worst figures from the messages of one of :attr:`TOPICS`."""
        return {}


def drill_of(robot: RobotSpec) -> KindDrill:
    """Return the drill of a robot's kind.

    Raises:
        UserError: The kind has none.
    """
    found: KindDrill = find_kind(robot.kind).load("drill")(robot)
    return found


def moved(seen: Sequence[Mapping[str, Array]], name: str = "position") -> list[float]:
    """Return the distance of each observation's position from that of the first, m."""
    start = seen[0][name]
    return [float(np.linalg.norm(one[name] - start)) for one in seen]


def tilt_rad(orientation: Array) -> float:
    """Return the angle between the body's and the world's up axis; ``orientation`` is (4,) xyzw."""
    x, y, z, w = orientation / np.linalg.norm(orientation)
    return float(2.0 * np.arctan2(np.hypot(x, y), np.hypot(z, w)))
