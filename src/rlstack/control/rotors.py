"""From wanted wrenches to rotor speed commands, for N robots at once: allocation, its priorities, and the motor lead.

The same rules as :class:`rlstack.control.mixer.Mixer` and :class:`rlstack.control.motors.MotorModel`, which serve one
robot on its own computer without arrays.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.mixer import Mixer
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY


class RotorBatch:
    """The rotors of N robots of one kind: what they are believed to do and what to tell them.

    Args:
        robot: The robot.
        horizon_s: How soon wanted speeds shall be reached; a command leads by as much as that takes.

    Raises:
        UserError: The rotors cannot turn the body about every axis (as from ``Mixer``).
    """

    def __init__(self, robot: Quadrotor, horizon_s: float) -> None:
        model = robot.rotor_model
        self._model = model
        self._allocation = Mixer(robot).allocation
        self._inverse: Array = np.asarray(np.linalg.inv(self._allocation), dtype=np.float64)
        self._rise_s, self._fall_s = model.rise_time_constant_s, model.fall_time_constant_s
        self._rise, self._fall = -math.expm1(-horizon_s / self._rise_s), -math.expm1(-horizon_s / self._fall_s)
        self.speed: Array = np.zeros((1, len(robot.rotors)))
        """(N, rotors) rad/s, the speeds that are believed."""
        self._command = self.speed

    def reset(self, count: int, speed: float) -> None:
        """Believe that all rotors of ``count`` robots turn at ``speed`` rad/s, as commanded."""
        self.speed = np.full((count, self._allocation.shape[1]), speed)
        self._command = self.speed

    def follow(self, dt: float) -> None:
        """Let ``dt`` s pass under the last command."""
        rise, fall = -math.expm1(-dt / self._rise_s), -math.expm1(-dt / self._fall_s)
        gap = self._command - self.speed
        self.speed = self.speed + gap * np.where(gap > 0.0, rise, fall)

    def command(self, wrench: Array) -> Array:
        """Return rotor speeds (N, rotors) in rad/s, within limits, for wrenches (N, 4) in N and N m."""
        model = self._model
        low = self.speed + (model.speed_min_rad_s - self.speed) * self._fall
        high = self.speed + (model.speed_max_rad_s - self.speed) * self._rise
        bounds: list[Array] = [np.asarray(model.thrust(speed), dtype=np.float64) for speed in (self.speed, low, high)]
        wanted = model.speed_for_thrust(mix(self._allocation, self._inverse, wrench, *bounds))
        gap = wanted - self.speed
        led = self.speed + gap / np.where(gap > 0.0, self._rise, self._fall)
        self._command = np.clip(led, model.speed_min_rad_s, model.speed_max_rad_s)
        return self._command


def mix(allocation: Array, inverse: Array, wanted: Array, now: Array, low: Array, high: Array) -> Array:
    """Return rotor thrusts (N, 4) in N by the rules of ``Mixer.mix``: roll and pitch first, then thrust, then yaw.

    Args:
        allocation: (4, 4), wrench = allocation @ thrusts.
        inverse: (4, 4), of it.
        wanted: (N, 4) wrenches in N and N m.
        now: (N, 4) N, present thrusts, inside the bounds.
        low: (N, 4) N, least that each rotor can reach in time.
        high: (N, 4) N, largest.
    """
    change = wanted - now @ allocation.T
    lift, yaw = inverse[:, 0], inverse[:, 3]
    turn = change[:, 1:3] @ inverse[:, 1:3].T
    floor, ceiling, each = (low - now) / lift, (high - now) / lift, turn / lift
    # The roll and pitch change shrinks until one common lift suits every pair of rotors.
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


def feasible(acceleration: Array, tilt_rad: float, top_m_s2: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return the thrust per mass that comes nearest to accelerations, and which axes were granted in full.

    Height before place: the level part gets what the tilt limit and the thrust leave.

    Args:
        acceleration: (N, 3) m/s^2, world, without gravity.
        tilt_rad: Largest tilt of the thrust.
        top_m_s2: Largest collective thrust per mass.

    Returns:
        (N, 3) m/s^2, world, with gravity balanced; (N, 3) bool.
    """
    wanted_up = STANDARD_GRAVITY + acceleration[:, 2]
    up = np.clip(wanted_up, 0.3 * STANDARD_GRAVITY, 0.9 * top_m_s2)
    level = np.minimum(up * math.tan(tilt_rad), np.sqrt(np.maximum(top_m_s2**2 - up * up, 0.0)))
    size = np.hypot(acceleration[:, 0], acceleration[:, 1])
    share = np.minimum(1.0, level / np.maximum(size, 1e-9))
    thrust = np.column_stack((acceleration[:, :2] * share[:, None], up))
    granted = np.column_stack((share == 1.0, share == 1.0, up == wanted_up))
    return thrust, granted


def bounded(vector: Array, largest: float) -> Array:
    """Return vectors (N, 3) shortened to ``largest``."""
    size = np.linalg.norm(vector, axis=1, keepdims=True)
    return np.asarray(vector * np.minimum(1.0, largest / np.maximum(size, 1e-12)))


def integrated(integral: Array, growth: Array, asked: Array, most: float, granted: NDArray[np.bool_] | bool) -> Array:
    """Return an integral (N, 3) one step on, without winding up.

    It stands still on an axis that saturates, and while the error asks for more than the integral may ever give:
    that is a manoeuvre, not something that pushes.

    Args:
        integral: (N, 3) so far.
        growth: (N, 3) in this step.
        asked: (N, 3) what the proportional part asks for.
        most: Bound of the integral, per axis.
        granted: (N, 3) which axes are not saturated.
    """
    return np.where(granted & (np.abs(asked) < most), np.clip(integral + growth, -most, most), integral)


def cross(one: Array, other: Array) -> Array:
    """Return the cross products (N, 3); for few rows many times as fast as numpy's own."""
    x, y, z = one.T
    u, v, w = other.T
    return np.column_stack((y * w - z * v, z * u - x * w, x * v - y * u))
