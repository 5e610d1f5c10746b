"""A dry run: everything runs but the actuators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.kind_signals import command_of, shape_of
from rlstack.interfaces.topics import DIAGNOSTICS, quality, type_of
from rlstack.robots import RobotSpec
from rlstack.sim.input_checks import checked_command

WARNING = "DRY RUN: nothing is sent to the actuators"
WOULD_SEND = "would send"
"""Key of the robot node's diagnostics."""


class DryRun:
    """Takes a robot's commands in its backend's place: checks them, and sends none.

    Args:
        robot: The robot.
    """

    def __init__(self, robot: RobotSpec) -> None:
        signal = command_of(robot)
        self._name, self._size = signal.name, int(shape_of(signal, robot)[0])
        self._last: Array | None = None

    def write(self, command: Signals) -> Signals:
        """Return a checked command.

        Raises:
            ValueError: It is not exactly one finite array of the right shape.
        """
        self._last = checked_command(command, self._name, self._size)
        return {self._name: self._last}

    def disarm(self) -> None:
        """Do nothing but note it: nothing is powered, and a pilot who flies by hand goes on flying."""
        self._last = None

    def let_go(self) -> str:
        """Do nothing but note it."""
        self.disarm()
        return "left alone, in a dry run"

    @property
    def text(self) -> str:
        """What would have been sent last, such as ``twist [0.1, 0]``."""
        if self._last is None:
            return "off"
        numbers = ", ".join(f"{number:.3g}" for number in np.round(self._last, 3) + 0.0)
        return f"{self._name} [{numbers}]"


class DryRunWatch:
    """Hears from the robot nodes of a dry run what they would send.

    Args:
        node: A node that subscribes for it.
        spaces: The absolute namespaces of their robots.
    """

    def __init__(self, node: Any, spaces: Sequence[str]) -> None:
        # several robots of one node have namespaces of their own below the node's
        above = [space.rpartition("/")[0] for space in spaces]
        self._names = {f"{space.strip('/')}/robot".lstrip("/") for space in (*spaces, *above)}
        self.text = ""
        """What they would send, by the last diagnostics."""
        kind = type_of(DIAGNOSTICS)
        self._subscription = node.create_subscription(kind, DIAGNOSTICS, self._on_diagnostics, quality("event"))

    def _on_diagnostics(self, message: Any) -> None:
        for status in message.status:
            if status.name in self._names:
                said = [value.value for value in status.values if value.key.endswith(WOULD_SEND)]
                self.text = "; ".join(said)
