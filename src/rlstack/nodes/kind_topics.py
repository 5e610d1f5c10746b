"""How a kind of robot is commanded and shown on topics: the base class of the part ``topics``, found by the kind."""

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
"""Makes the message of a topic from a stamp, ns, and what was sensed."""


SeenClock = Callable[[int], "tuple[float, float] | None"]
"""Returns the time and the seconds of a stamp, ns, on the node's clock; None before there is one."""


class GuardSenses:
    """Subscribes to nothing; a kind whose guard needs a scan or a goal adds that.

    Args:
        node: The guard node.
        guard: The guard.
        clock: The node's clock.
        take: Called with the guard's decision on what came.
        lock_step: The guard takes in what comes without answering it.
    """

    def __init__(
        self, node: Any, guard: Any, clock: SeenClock, take: Callable[[Decision], None], lock_step: bool
    ) -> None:
        self.counts: dict[str, int] = {}
        """Figures for diagnostics."""

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether something that goes with the observation of ``stamp_ns`` is still on its way (lock step)."""
        return False

    def forget(self) -> None:
        """Begin another episode."""


class KindTopics(ABC):
    """One robot on topics.

    Args:
        robot: The robot.
        parameters: Of the robot node.

    Raises:
        UserError: A parameter does not apply to robots of this kind.
    """

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """What the kind adds to the robot node's parameters."""
    GUARD_PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """What the kind adds to the guard node's parameters: fields of its guard's configuration, and options."""
    GUARD_SENSES: ClassVar[type[GuardSenses]] = GuardSenses
    """What the kind's guard subscribes to besides observations and commands."""
    COMMAND_TYPE: ClassVar[Parameter | None] = None
    """The parameter, of robot node and guard node, that chooses the message type of commands; None: there is one."""
    TELEOPERATED: ClassVar[bool] = False
    """Whether the teleoperation nodes know how to lead such a robot by its tool."""

    observed: str
    """The topic whose stamps commands answer. It is published last of all sensed topics, at the control rate."""
    command_topic: str
    command_type: Any
    """The message's class."""
    timeout_s: float | None = None
    """Age from which a command stops the robot; None: by the node's ``command_timeout_periods``."""

    @abstractmethod
    def __init__(self, robot: Any, parameters: ParameterSet) -> None: ...

    @abstractmethod
    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return a serialized command's stamp, ns, and signals; no stamp: now, no signals: off.

        Raises:
            ValueError: It makes no sense; a sentence says why.
        """

    @abstractmethod
    def joint_states(self) -> tuple[str, Filler]:
        """Return the signal that a robot with ``joint_states`` senses, and what fills the message."""

    def moves(self, command: Signals) -> bool:
        """Return whether a robot under this command needs another one soon."""
        return True

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return where ``base_link`` is in ``odom``: position (3,) m and orientation (4,) xyzw."""
        return sensed["position"], sensed["orientation"]

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return positions of joints by name, as in the robot file."""
        return {}

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return speeds by name, rad/s, of rotors and other turning parts whose position is not sensed."""
        return {}

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return the state in which a simulated robot starts at a height; None: on the ground at its place.

        Raises:
            UserError: It cannot start in the air.
        """
        if height_m:
            raise UserError(f"start_height_m: {height_m} is not allowed for {backend.robot.name}: leave it out.")
        return None


def kind_topics(robot: RobotSpec) -> type[KindTopics]:
    """Return the topics of a robot's kind.

    Raises:
        UserError: The kind has none.
    """
    found: type[KindTopics] = find_kind(robot.kind).load("topics")
    return found


def all_kind_topics() -> dict[str, type[KindTopics]]:
    """Return the topics of all kinds that have them, by the kind's name."""
    kinds = (find_kind(name) for name in kind_names())
    return {kind.name: kind.load("topics") for kind in kinds if kind.has("topics")}


def teleoperated(robot: RobotSpec, how: str = "-p robot:=panda") -> Any:
    """Return a robot that can be led by hand; raise ``UserError`` for others, with ``how`` an arm is given."""
    if not kind_topics(robot).TELEOPERATED:
        raise UserError(f"{robot.name} is a {robot.kind}, and only arms are led by hand: {how}.")
    return robot


def simulated_pose(backend: Backend) -> tuple[Array, Array] | None:
    """Return where a simulation has its robot, as :meth:`KindTopics.pose`; None: it is no simulation."""
    from rlstack.sim.robot import SimulatedRobot  # a guard, which reads the parameters here, needs no simulator

    if not isinstance(backend, SimulatedRobot):
        return None
    motion = backend.simulation.motion(backend.index)
    return motion["position"], motion["orientation"]


def simulated_start_m(backend: Backend) -> Array | None:
    """Return a simulated robot's starting place (3,), m; None: it is no simulation."""
    from rlstack.sim.robot import SimulatedRobot

    return np.asarray(backend.simulation.starts_m[backend.index]) if isinstance(backend, SimulatedRobot) else None
