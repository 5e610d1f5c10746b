"""Control allocation for N quadrotors: from wrenches to rotor speeds, with priorities and motor-lag compensation."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation


class Mixer:
    """The rotors of N robots with one robot file: their estimated speeds, and the commands that produce a wrench.

    Motors are first-order lags with separate time constants for rising and falling. The estimate follows the commands
    sent; an error in it decays with the motors' time constant.

    Args:
        robot: A robot with 4 rotors.
        horizon_s: Time in which the rotors reach the wanted speeds; commands lead accordingly.

    Raises:
        UserError: See :func:`rlstack.kinds.quadrotor.spec_allocation.inverse_allocation`.
    """

    def __init__(self, robot: Quadrotor, horizon_s: float) -> None:
        self._model = model = robot.rotor_model
        self._allocation, self._inverse = allocation(robot), inverse_allocation(robot)
        self.factors: Array = robot.thrust_factors
        """(rotors,) Each rotor's thrust over the rotor model's."""
        self._rise_s, self._fall_s = model.rise_time_constant_s, model.fall_time_constant_s
        self._rise, self._fall = -math.expm1(-horizon_s / self._rise_s), -math.expm1(-horizon_s / self._fall_s)
        self.reset(1, model.speed_min_rad_s)

    def reset(self, count: int, speed: float) -> None:
        """Assume that all rotors of ``count`` robots turn at ``speed`` rad/s, as commanded."""
        self.speed: Array = np.full((count, self._allocation.shape[1]), speed)
        """(N, rotors) rad/s, the estimated speeds."""
        self.sent: Array = self.speed
        """(N, rotors) rad/s, the command that the motors follow."""

    def follow(self, dt: float) -> None:
        """Advance the motor model by ``dt`` s under the last command."""
        rise, fall = -math.expm1(-dt / self._rise_s), -math.expm1(-dt / self._fall_s)
        gap = self.sent - self.speed
        self.speed = self.speed + gap * np.where(gap > 0.0, rise, fall)

    def command(self, wrench: Array) -> Array:
        """Return rotor speeds (N, rotors) in rad/s, within limits, for wrenches (N, 4) in N and N m."""
        model = self._model
        low = self.speed + (model.speed_min_rad_s - self.speed) * self._fall
        high = self.speed + (model.speed_max_rad_s - self.speed) * self._rise
        bounds: list[Array] = [self.factors * model.thrust(speed) for speed in (self.speed, low, high)]
        each = mix(self._allocation, self._inverse, wrench, *bounds)
        return self.lead(np.asarray(model.speed_for_thrust(each / self.factors)))

    def lead(self, wanted: Array) -> Array:
        """Return commands (N, rotors) in rad/s, within limits, that reach ``wanted`` speeds after the horizon."""
        gap = wanted - self.speed
        led = self.speed + gap / np.where(gap > 0.0, self._rise, self._fall)
        self.sent = np.clip(led, self._model.speed_min_rad_s, self._model.speed_max_rad_s)
        return self.sent


def mix(allocation: Array, inverse: Array, wanted: Array, now: Array, low: Array, high: Array) -> Array:
    """Return rotor thrusts (N, 4) in N, inside the bounds and as near to the wanted wrench as the priorities allow.

    When the rotors saturate, roll and pitch torque come first, then thrust, then yaw torque: a quadrotor can recover as
    long as it controls its thrust direction.

    Args:
        allocation: (4, 4), wrench = allocation @ thrusts.
        inverse: (4, 4), its inverse.
        wanted: (N, 4) wrenches in N and N m.
        now: (N, 4) N, present thrusts, inside the bounds; the starting point when the wrench is out of reach.
        low: (N, 4) N, least that each rotor can reach in time.
        high: (N, 4) N, largest.
    """
    change = wanted - now @ allocation.T
    lift, yaw = inverse[:, 0], inverse[:, 3]
    turn = change[:, 1:3] @ inverse[:, 1:3].T
    floor, ceiling, each = (low - now) / lift, (high - now) / lift, turn / lift
    # Every rotor allows a range of common lift; the roll and pitch change shrinks until the ranges of all pairs meet.
    spread = each[:, None, :] - each[:, :, None]
    room = ceiling[:, None, :] - floor[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where(spread > 0.0, room / spread, 1.0)
    share = np.clip(shares.min(axis=(1, 2)), 0.0, 1.0)[:, None]
    least, most = (floor - share * each).max(axis=1), (ceiling - share * each).min(axis=1)
    common = np.minimum(np.maximum(change[:, 0], least), most)
    thrusts = now + share * turn + common[:, None] * lift
    step = change[:, 3:] * yaw
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where(step > 0.0, (high - thrusts) / step, np.where(step < 0.0, (low - thrusts) / step, 1.0))
    share = np.clip(shares.min(axis=1), 0.0, 1.0)[:, None]
    return np.asarray(np.clip(thrusts + share * step, low, high))
