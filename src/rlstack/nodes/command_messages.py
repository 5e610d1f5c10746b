"""Command messages, refilled for every command: named rotors or body rates, twists of bases, named joints of arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import RotorMessage
from rlstack.interfaces.rates_messages import RatesMessage
from rlstack.interfaces.signals import commanded
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.interfaces.twist_messages import TwistMessage
from rlstack.nodes.parameters import Parameter, ParameterSet

TWIST_TYPE = Parameter(
    "cmd_vel_type",
    "TwistStamped",
    "Message type of cmd_vel; Twist, without a stamp, is for drivers that need it (not in lock step).",
    choices=("TwistStamped", "Twist"),
)
FOLLOWS = "auto"
"""The robot node takes the message type that the publisher of its command topic has."""
ROBOTS_TWIST_TYPE = Parameter(
    TWIST_TYPE.name,
    TWIST_TYPE.default,
    f"{TWIST_TYPE.description.removesuffix('.')}; auto: that of the publisher.",
    choices=(*TWIST_TYPE.choices, FOLLOWS),
)
JOINTS_TYPE = Parameter(
    "cmd_joints_type",
    "JointTrajectory",
    "Message type of cmd/joints; Float64MultiArray, without a stamp, is for some drivers (not in lock step).",
    choices=("JointTrajectory", "Float64MultiArray"),
)


def without_stamps(parameter: Parameter | None, parameters: ParameterSet, *, lock_step: bool = False) -> bool:
    """Return whether a parameter such as :data:`TWIST_TYPE` selects messages without stamps.

    Raises:
        UserError: It does so in lock step.
    """
    if parameter is None or parameters[parameter.name] == parameter.default:
        return False
    if lock_step:
        raise UserError(
            f"{parameter.name}: {parameters[parameter.name]} is not allowed in lock step: it has no stamp that says"
            " what it answers."
        )
    return bool(parameters[parameter.name] != FOLLOWS)


class CommandMessage(Protocol):
    """A message that is refilled for each command."""

    message: Any

    def fill(self, stamp_ns: int, command: Array, /) -> Any:
        """Return the message with a command and the stamp of the observation that it answers."""

    def fill_off(self, stamp_ns: int, /) -> Any:
        """Return the message that stops the robot; None if silence stops it."""


class TwistCommand(TwistMessage):
    """A twist message that can also command a stop."""

    def fill_off(self, stamp_ns: int) -> Any:
        """Return the message that stops a base."""
        return self.fill(stamp_ns, np.zeros(3))


def command_message(
    signal: str, names: Sequence[str] = (), *, plain: bool = False, reach_s: float = 0.0
) -> CommandMessage:
    """Return a message for a commanded signal.

    Args:
        signal: Its name.
        names: Names of its elements, if any.
        plain: Create a twist, or joint targets, without a stamp.
        reach_s: When joints should reach their targets, s after the stamp.

    Raises:
        UserError: There is no such signal, or no message for it.
    """
    wanted = commanded(signal)
    if wanted.topic == topics.RATES_COMMAND:
        return RatesMessage()
    if wanted.topic == topics.TWIST_COMMAND:
        return TwistCommand(plain=plain)
    if wanted.topic == topics.ROTOR_COMMAND:
        return RotorMessage(topics.message_type(wanted.type)(), names)
    if wanted.topic == topics.JOINT_COMMAND:
        return TrajectoryMessage(names, plain=plain, reach_s=reach_s)
    raise UserError(f"No node sends the command '{signal}' ({wanted.type}) yet.")
