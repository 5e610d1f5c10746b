"""Teleoperation devices: one module each, found by name.

A device reports the operator's input; other modules turn it into robot commands. A device is selected by ``NAME`` or
``NAME:WHERE``, such as ``keyboard``, ``gamepad:/dev/input/js0`` or ``leader:/dev/ttyACM0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.registry import Registry

SAVE, DISCARD, STOP = "save", "discard", "stop"
"""Episode events: end and save the episode; discard it; stop the session."""


@dataclass(frozen=True)
class TeleopInput:
    """The operator's present input.

    Attributes:
        linear: (3,) share of full speed, -1..1: forward, left, up (``base_link``).
        angular: (3,) share of full speed about the same axes, -1..1.
        gripper: 1 opens, -1 closes, 0 leaves it.
        intervene: Whether the operator is in control; otherwise the other source of commands continues.
        joints: Joint positions of a leader arm, rad, by the robot's joint names; None: not a leader arm.
        events: ``SAVE``, ``DISCARD`` and ``STOP`` since the last reading.
    """

    linear: Array = field(default_factory=lambda: np.zeros(3))
    angular: Array = field(default_factory=lambda: np.zeros(3))
    gripper: float = 0.0
    intervene: bool = True
    joints: Mapping[str, float] | None = None
    events: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether it moves neither the arm nor the gripper."""
        return not (self.linear.any() or self.angular.any() or self.gripper) and self.joints is None


class Device(Protocol):
    """A teleoperation device for one robot."""

    _gripper: float = 0.0
    """The gripper command that stays in force, of devices that derive from this class."""
    live: ClassVar[bool]
    """Whether a human operates it, so that the simulation must run in real time."""
    keys: ClassVar[str]
    """Usage, in a few words or lines."""

    def __init__(self, where: str, robot: Manipulator) -> None:
        """Store the settings; open nothing."""

    def open(self) -> None:
        """Open the device; raise ``UserError`` if it is not connected or a library is missing."""

    def read(self) -> TeleopInput:
        """Return the operator's present input without blocking; raise ``UserError`` if the device was disconnected."""

    def forget(self) -> None:
        """Leave the gripper alone until the next command, for a new episode; optional for devices without state."""
        self._gripper = 0.0

    def close(self) -> None:
        """Release the device, even after an error or if it was never opened."""


DEVICES = Registry("device", "rlstack.hardware.devices", "DEVICE", "rlstack.devices")
"""Teleoperation devices by name; each entry is a class like :class:`Device`."""


def device_called(spec: str, robot: Manipulator) -> Any:
    """Return the device ``NAME`` or ``NAME:WHERE``, unopened.

    Raises:
        UserError: There is no such device (nearest names listed), or the part after its name is invalid.
    """
    name, _, where = spec.partition(":")
    return DEVICES.load(name)(where, robot)


def refuse_where(name: str, where: str) -> None:
    """Refuse a ``WHERE`` part for a device that takes none."""
    if where:
        raise UserError(f"{name}:{where} is not allowed: the device {name} takes nothing after its name.")
