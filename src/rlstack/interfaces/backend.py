"""The interface of every robot, simulated or real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.registry import Registry
from rlstack.robots import RobotSpec

Signals = Mapping[str, Array]
"""Arrays by signal name; :mod:`rlstack.interfaces.signals` gives each name's shape, unit and frame."""


@dataclass(frozen=True)
class Reading:
    """All measurements at one instant.

    Args:
        time_s: Simulated time of the measurement, or for a real robot the system's clock (``time.time``) when it was
            measured, s.
        signals: Arrays by signal name.
    """

    time_s: float
    signals: Signals


@dataclass(frozen=True)
class Capture:
    """One capture of a camera or lidar.

    Args:
        time_s: Simulated or robot time of the capture, s.
        arrays: By kind. A camera's: ``rgb`` (height, width, 3) uint8, and ``depth`` (height, width) float32 m along the
            optical axis. A lidar's: ``ranges`` (rays,), or (rings, rays) where it has several rings, float32 m. Depths
            and ranges follow REP-117: +inf nothing within range, -inf too near to measure, NaN not measured.
    """

    time_s: float
    arrays: Mapping[str, NDArray[Any]]


@runtime_checkable
class Backend(Protocol):
    """One robot, simulated or real: callers treat both alike.

    A mobile robot senses ``position``, ``orientation``, ``linear_velocity``, ``angular_velocity`` and
    possibly ``linear_acceleration``. A quadrotor may sense ``measured_rotor_speed`` and takes the command
    ``rotor_speed``, or ``rates_thrust`` where its robot file has a rate loop; a wheeled base may sense
    ``joint_position`` and ``joint_velocity`` and takes ``twist``; an arm senses them and takes ``joint_target``.
    """

    robot: RobotSpec
    owns_time: bool
    """True for a simulator: time passes only in :meth:`step`."""
    sensed: tuple[str, ...]
    """Signal names that :meth:`read` returns, known before connecting."""
    commanded: tuple[str, ...]
    """Signal names that :meth:`write` takes."""
    captured: tuple[str, ...]
    """Names of the robot file's cameras and lidars that :meth:`capture` takes."""

    def connect(self) -> None:
        """Open the link or build the simulation."""

    def read(self) -> Reading:
        """Return the newest measurement; a driver that has none yet returns no signals."""

    def capture(self, name: str) -> Capture:
        """Return a capture of the camera or lidar ``name``: a simulator's present one, a robot's newest.

        Raises:
            UserError: It is not one of :attr:`captured`, or rendering is not available here.
        """

    def write(self, command: Signals) -> Signals:
        """Send a command and return the one actually sent, after the robot's own limits.

        Raises:
            ValueError: A value is not finite or an array has the wrong shape; nothing was sent.
        """

    def step(self, duration_s: float) -> None:
        """Advance simulated time by ``duration_s`` under the last command (only if it owns time)."""

    def reset(self, state: Signals | None = None) -> None:
        """Reset the robot to rest on the ground, or to ``state`` (simulators only).

        ``state`` holds ``position`` and ``orientation`` (world), ``linear_velocity`` (**world** frame),
        ``angular_velocity`` (body) and ``rotor_speed``, or ``joint_position`` and ``joint_velocity``; missing
        signals are as at rest. Time continues, never backwards.
        """

    def disarm(self) -> None:
        """Stop all actuators now, wherever the robot is."""

    def let_go(self) -> str:
        """Act on commands that have ended without an "off", as where the guard has crashed or sees nothing.

        A robot whose own failsafe holds, lands or levels it is left to that, and disarmed only where it stands on the
        ground; commands that come again in time continue. Any other robot is disarmed.

        Returns:
            What becomes of the robot, such as ``disarmed``.
        """

    def close(self) -> None:
        """Let the robot go (:meth:`let_go`) and release everything; a second call does nothing."""


@runtime_checkable
class Located(Protocol):
    """A backend whose robot does not measure its own position: it takes its pose from motion capture or VIO."""

    def locate(self, time_s: float, position: Array, orientation: Array) -> None:
        """Take a pose of ``base_link``; one that is not finite, no rotation, or out of order is ignored.

        Args:
            time_s: When it was measured, s since the epoch by this machine's clock.
            position: (3,) m, in the frame that becomes ``odom``.
            orientation: (4,) xyzw.
        """


@runtime_checkable
class Announcing(Protocol):
    """A driver that tells when it has measured: the robot node then publishes at once, and not at its next tick."""

    on_reading: Callable[[], None]
    """Called after each new reading, in the driver's thread; the robot node sets it."""


@runtime_checkable
class Monitored(Protocol):
    """A backend that knows how its actuators and its link are, for ``/diagnostics``."""

    def health(self) -> tuple[str, Mapping[str, Any]]:
        """Return a warning, empty if there is none, and figures by name, such as temperatures; at once."""


def nobody_listens() -> None:
    """Do nothing: what ``on_reading`` is at first."""


BACKENDS = Registry("backend", "rlstack.sim.backends", "BACKEND", "rlstack.backends", "rlstack.hardware.drivers")
"""Simulators and drivers of real robots: factories, each called with a RobotSpec and keyword options, that return an
unconnected Backend."""
