"""Pulse widths of a receiver's channels for body rates and thrust: the inverse of Betaflight's own curves.

Channels are whole microseconds, so each curve is a table of what every width does, and its inverse a search in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.spec import STANDARD_GRAVITY

LOW_US, HIGH_US = 1000, 2000
"""Range of a channel."""
REACH_US = 500
"""Reach of a stick from its middle."""

BETAFLIGHT_RATES, ACTUAL_RATES = 0, 3
RATES_TYPES = ("BETAFLIGHT", "RACEFLIGHT", "KISS", "ACTUAL", "QUICK")
_LARGEST_DEG_S = 1998.0


@dataclass(frozen=True)
class AxisRates:
    """The rates of one axis, in Betaflight's numbers."""

    kind: int
    """Index into :data:`RATES_TYPES`."""
    rc_rate: int
    srate: int
    expo: int
    limit_deg_s: int
    deadband_us: int

    def rate_rad_s(self, offset_us: Array) -> Array:
        """Return the rates, rad/s, of stick offsets, us from the middle."""
        beyond = np.sign(offset_us) * np.maximum(np.abs(offset_us) - self.deadband_us, 0.0)
        stick = beyond / (REACH_US - self.deadband_us)
        curved, size = self.expo / 100.0, np.abs(stick)
        if self.kind == ACTUAL_RATES:
            middle = 10.0 * self.rc_rate
            outer = max(10.0 * self.srate - middle, 0.0)
            rate = stick * middle + outer * size * (stick**5 * curved + stick * (1.0 - curved))
        else:
            slope = self.rc_rate / 100.0
            slope += 14.54 * max(slope - 2.0, 0.0)
            bent = stick * size**3 * curved + stick * (1.0 - curved)
            rate = 200.0 * slope * bent / np.clip(1.0 - size * self.srate / 100.0, 0.01, 1.0)
        limit = min(float(self.limit_deg_s), _LARGEST_DEG_S)
        found: Array = np.radians(np.clip(rate, -limit, limit))
        return found


class RateStick:
    """Stick of one axis.

    Args:
        rates: Its curve.
        sign: -1 where a larger pulse width turns the other way than the body's axis.
    """

    def __init__(self, rates: AxisRates, sign: int) -> None:
        self._sign = sign
        self._table = rates.rate_rad_s(np.arange(-REACH_US, REACH_US + 1, dtype=float))

    @property
    def most_rad_s(self) -> float:
        """Fastest rate."""
        return float(self._table[-1])

    def offset(self, rate_rad_s: float) -> tuple[int, float]:
        """Return the offset, us, whose rate is nearest, and that rate, rad/s about the body's axis."""
        wanted = self._sign * rate_rad_s
        above = min(int(np.searchsorted(self._table, wanted)), len(self._table) - 1)
        below = max(above - 1, 0)
        nearest = above if self._table[above] - wanted < wanted - self._table[below] else below
        return nearest - REACH_US, self._sign * float(self._table[nearest])


class Throttle:
    """Throttle channel for thrust per mass.

    A motor's command, 0 to 1, is the idle and, beyond it, the throttle; a rotor's speed is taken to be that command
    times its top speed, as is about true of brushless motors on a full battery.

    Args:
        robot: The quadrotor, for mass and rotors.
        idle: Motor command at throttle 0.
        low_us: Pulse width up to which the throttle is 0.
        hover: Throttle, 0 to 1, at which the robot hovers, as measured; 0: as the robot file says.
    """

    def __init__(self, robot: Any, idle: float, low_us: int, hover: float = 0.0) -> None:
        self._model, self._mass, self._count = robot.rotor_model, robot.body.mass_kg, len(robot.rotors)
        self._idle, self._low_us, self._scale = idle, low_us, 1.0
        if hover:
            self._scale = (idle + (1.0 - idle) * hover) / self._command(STANDARD_GRAVITY)

    @property
    def hover(self) -> float:
        """Throttle, 0 to 1, for hovering."""
        return (self._command(STANDARD_GRAVITY) - self._idle) / (1.0 - self._idle)

    def _command(self, thrust_m_s2: float) -> float:
        """Return the motors' command for a thrust per mass."""
        each = max(thrust_m_s2, 0.0) * self._mass / self._count
        return self._scale * float(self._model.speed_for_thrust(np.array(each))) / self._model.speed_max_rad_s

    def pulse(self, thrust_m_s2: float) -> tuple[int, float]:
        """Return the pulse width, us, and the thrust per mass, m/s^2, that it gives by the model."""
        throttle = (self._command(thrust_m_s2) - self._idle) / (1.0 - self._idle) if thrust_m_s2 > 0.0 else 0.0
        width = round(self._low_us + min(max(throttle, 0.0), 1.0) * (HIGH_US - self._low_us))
        throttle = (width - self._low_us) / (HIGH_US - self._low_us)
        command = self._idle + (1.0 - self._idle) * throttle
        speed = min(command / self._scale, 1.0) * self._model.speed_max_rad_s
        thrust = float(self._model.thrust(np.array(speed))) * self._count / self._mass
        return width, thrust if math.isfinite(thrust) else 0.0
