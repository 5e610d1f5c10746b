"""What each kind of robot takes and shows on the robot node's topics: one module each, found by the robot's kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rlstack.arrays import Array
from rlstack.interfaces.backend import Backend, Signals
from rlstack.kinds import find_kind
from rlstack.nodes.parameters import ParameterSet
from rlstack.robots import RobotSpec

Filler = Callable[[int, Signals], Any]
"""Makes the message of a topic from a stamp, ns, and what was sensed."""


class Kind(Protocol):
    """One robot, as its kind is commanded and shown; made with the robot and the node's parameters.

    Raises:
        UserError: Its kind has no use for a parameter.
    """

    observed: str
    """The topic whose stamps commands answer: of what it senses, it goes out last and at the control rate at least."""
    command_topic: str
    command_type: Any
    """The message's class."""
    timeout_s: float | None
    """Age from which a command stops the robot; None: by the node's ``command_timeout_periods``."""

    def __init__(self, robot: Any, parameters: ParameterSet) -> None: ...

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return a serialized command's stamp, ns, and signals; no stamp: now, no signals: off.

        Raises:
            ValueError: It makes no sense; a sentence says why.
        """

    def moves(self, command: Signals) -> bool:
        """Return whether a robot under this command needs another one soon."""

    def joint_states(self) -> tuple[str, Filler]:
        """Return the signal that a robot with ``joint_states`` senses, and what fills the message."""

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return where ``base_link`` is in ``odom``: position (3,) m and orientation (4,) xyzw."""

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return positions of joints by name, as in the robot file."""

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return speeds of turning parts by name, rad/s, whose position nothing senses."""

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return the state in which a simulated robot starts at a height; None: on the ground at its place.

        Raises:
            UserError: It cannot start in the air.
        """


def kind_of(robot: RobotSpec) -> type[Kind]:
    """Return what makes a robot's commands and joints.

    Raises:
        UserError: There are no topics for such a robot.
    """
    found: type[Kind] = find_kind(robot.kind).load("topics")
    return found
