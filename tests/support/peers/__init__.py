"""The other end of each driver's protocol, for tests: written from public descriptions, independent of the drivers.

A driver ``src/rlstack/hardware/drivers/<name>.py`` has its peer in ``<name>.py`` here, which defines ``PEER``: a class
whose instances are context managers and which is a :class:`Peer`. The conformance suite of drivers
(``tests/hardware/conformance``) runs every driver against its peer. The peer of a driver that is a
:class:`rlstack.interfaces.backend.Located` has a method ``pose``, too: position and orientation.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Protocol

import rlstack.hardware.drivers as drivers
from rlstack.arrays import Array
from rlstack.robots import RobotSpec

DRIVERS = tuple(module.name for module in pkgutil.iter_modules(drivers.__path__) if not module.name.startswith("_"))
"""Names of the drivers that come with rlstack."""


CASES = ("in use", "answers twice", "firmware", "calibration", "joints", "limits", "mass")
"""What is refused before power, by every driver that can know it."""


@dataclass(frozen=True)
class Misfit:
    """What a driver must refuse.

    Args:
        said: What the error says: both values.
        change: Makes the peer such a robot.
        uri: The URI, where it is that which does not fit.
    """

    said: tuple[str, ...]
    change: Callable[[], object] = lambda: None
    uri: str = ""


class Peer(Protocol):
    """A robot's own controller, as far as its protocol shows it: it moves as it is told to, and keeps its own rules."""

    robot: RobotSpec
    """The robot that it is."""
    uri: str
    """Where the driver finds it."""
    powered: bool
    """Whether its actuators are on: torque enabled, motors armed, wheels driven."""

    def misfits(self) -> dict[str, Misfit | str]:
        """Return, for each of :data:`CASES`, how not to fit, or why the protocol cannot tell; it was started."""

    def __enter__(self) -> Peer:
        """Start it, on a port or pseudo-terminal of its own."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""

    def rest(self) -> dict[str, Array]:
        """Return a harmless command that powers the actuators: stay where it is, or do not turn."""

    def lose_link(self) -> None:
        """Answer nothing from now on, and hear nothing."""

    def regain_link(self) -> None:
        """Answer again."""

    def send_noise(self, data: bytes) -> None:
        """Send bytes to the driver that are no frame of the protocol."""


def peer_of(driver: str) -> Peer:
    """Return a driver's peer, not started.

    Raises:
        ModuleNotFoundError: The driver has none: add ``tests/support/peers/<driver>.py``.
    """
    made: Peer = import_module(f"{__name__}.{driver}").PEER()
    return made
