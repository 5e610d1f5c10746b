"""What a human leads an arm with: one module each, found by its name.

A device says what a hand does now; what that means for a robot is decided elsewhere. Opened by ``NAME`` or
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
"""What a hand can say beside moving: the episode is good and over; it is not to be kept; that was all."""


@dataclass(frozen=True)
class TeleopInput:
    """What a hand does now.

    Attributes:
        linear: (3,) -1..1 of full speed: forward, to the left, up (``base_link``).
        angular: (3,) -1..1 of full speed about the same axes.
        gripper: 1 opens, -1 closes, 0 leaves it.
        intervene: Whether the hand leads; else whatever else commands the arm goes on.
        joints: Where a leader arm's joints are, rad, by the robot's names; None: it is no leader arm.
        said: Words since the last reading: ``SAVE``, ``DISCARD``, ``STOP``.
    """

    linear: Array = field(default_factory=lambda: np.zeros(3))
    angular: Array = field(default_factory=lambda: np.zeros(3))
    gripper: float = 0.0
    intervene: bool = True
    joints: Mapping[str, float] | None = None
    said: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether it neither moves nor grips."""
        return not (self.linear.any() or self.angular.any() or self.gripper) and self.joints is None


class Device(Protocol):
    """A device; made with what stands after its name, and the robot that it leads."""

    live: ClassVar[bool]
    """Whether a human is at it, so that time must pass as fast as it does."""
    keys: ClassVar[str]
    """How it is used, in a few words or lines."""

    def __init__(self, where: str, robot: Manipulator) -> None:
        """Remember what to open; open nothing."""

    def open(self) -> None:
        """Start; raise ``UserError`` if it is not there or what it needs is not installed."""

    def read(self) -> TeleopInput:
        """Return what the hand does now, at once.

        Raises:
            UserError: The device is gone.
        """

    def forget(self) -> None:
        """Forget what the gripper was told: another episode begins. Who remembers nothing may leave it out."""

    def close(self) -> None:
        """Let go of it, whatever happened; also where it was never opened."""


DEVICES = Registry("device", "rlstack.hardware.devices", "DEVICE", "rlstack.devices")
"""Each entry is a class like :class:`Device`."""


def device_called(spec: str, robot: Manipulator) -> Any:
    """Return the device ``NAME`` or ``NAME:WHERE``, not opened yet.

    Raises:
        UserError: There is no such device (nearest names listed), or what stands after its name is not allowed.
    """
    name, _, where = spec.partition(":")
    return DEVICES.load(name)(where, robot)


def refuse_where(name: str, where: str) -> None:
    """Refuse anything after the name of a device that takes nothing there."""
    if where:
        raise UserError(f"{name}:{where} is not allowed: the device {name} takes nothing after its name.")
