"""A model of the motors' lag, so that a controller can ask for more than it wants and get what it wants in time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlstack.kinds.quadrotor.spec import Quadrotor


class MotorModel:
    """First-order lag of each rotor speed, with its own time constants for rising and falling, in plain floats.

    The estimate follows the commands that were sent. An error in it dies out with the motors' own time constant.

    Args:
        robot: The robot.
        horizon_s: How soon a wanted speed shall be reached; the lead of :meth:`command_for`.
    """

    def __init__(self, robot: Quadrotor, horizon_s: float) -> None:
        model = robot.rotor_model
        self._low, self._high = model.speed_min_rad_s, model.speed_max_rad_s
        self._rise_s, self._fall_s = model.rise_time_constant_s, model.fall_time_constant_s
        self._rise, self._fall = -math.expm1(-horizon_s / self._rise_s), -math.expm1(-horizon_s / self._fall_s)
        self._count = len(robot.rotors)
        self.speed: list[float] = [self._low] * self._count
        """Estimated rotor speeds, rad/s."""

    def reset(self, speed: float) -> None:
        """Believe that every rotor turns at ``speed`` rad/s."""
        self.speed = [min(max(speed, self._low), self._high)] * self._count

    def follow(self, command: Sequence[float], dt: float) -> None:
        """Let ``dt`` s pass under a command (rotors,) in rad/s."""
        rise, fall = 1.0 - math.exp(-dt / self._rise_s), 1.0 - math.exp(-dt / self._fall_s)
        self.speed = [s + (c - s) * (rise if c > s else fall) for s, c in zip(self.speed, command)]

    def reachable(self) -> tuple[list[float], list[float]]:
        """Return the least and largest speeds (rotors,) in rad/s that each rotor can have after the horizon."""
        low = [s + (self._low - s) * self._fall for s in self.speed]
        high = [s + (self._high - s) * self._rise for s in self.speed]
        return low, high

    def command_for(self, wanted: Sequence[float]) -> list[float]:
        """Return the command (rotors,) in rad/s, within limits, that reaches ``wanted`` after the horizon."""
        commands = [s + (w - s) / (self._rise if w > s else self._fall) for w, s in zip(wanted, self.speed)]
        return [min(max(c, self._low), self._high) for c in commands]
