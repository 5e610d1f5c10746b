"""The geometric tracking controller for N quadrotors at once, with feed-forward of the reference's full motion.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010, with the integral
of F. Goodarzi, D. Lee, T. Lee, "Geometric nonlinear PID control of a quadrotor UAV on SE(3)", ECC 2013. Added for real
robots: bounds on the rotor commands, the robot file's drag, a lead for the motors' lag, and feed-forward taken a little
ahead, because thrust and attitude follow with a delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.control.hover import authority
from rlstack.control.reference_trajectory import Reference
from rlstack.control.tracking import TrackingController, TrackingGains, bounded, integrated, widest_tilt
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class LeeRatios:
    """How fast each loop is, as ratios that suit any quadrotor; ``benchmarks/tracking_baselines.py`` tunes them."""

    horizon: float = value(1.25, above=0.0)
    """Motor lead's horizon, in control periods."""
    rate: float = value(1.21, above=0.0)
    """Ratio of the rate loop's time constant to the lag inside it; the ratios below likewise, loop by loop."""
    attitude: float = value(2.19, above=0.0)
    velocity: float = value(1.92, above=0.0)
    position: float = value(2.13, above=0.0)
    integral: float = value(2.24, above=0.0)
    attitude_integral: float = value(4.99, above=0.0)
    lead: float = value(1.11, at_least=0.0)
    """How far ahead acceleration and its derivatives are taken, in lags."""


@dataclass(frozen=True, kw_only=True)
class LeeGains(TrackingGains):
    """Gains per mass and inertia, so that they are rates: k_x / m = position_per_s velocity_per_s, k_v / m =
    velocity_per_s, k_R / J = attitude_per_s2, k_Omega / J = rate_per_s."""

    integral_per_s: float = value(unit="1/s", at_least=0.0)
    """Rate at which the integral absorbs a remaining velocity error."""
    attitude_per_s2: float = value(unit="1/s^2", above=0.0)
    yaw_per_s2: float = value(unit="1/s^2", above=0.0)
    """Angular acceleration per attitude error, for tilt and for heading."""
    attitude_integral_per_s: float = value(unit="1/s", at_least=0.0)
    """Rate at which the attitude's integral absorbs a remaining torque."""

    @staticmethod
    def for_robot(robot: Quadrotor, ratios: LeeRatios | None = None) -> LeeGains:
        """Return gains derived from the robot's motors, rate and limits."""
        r = ratios or LeeRatios()
        period = 1.0 / robot.control_rate_hz
        horizon = r.horizon * period
        lag = horizon + 1.5 * period
        turn, spin = authority(robot)
        rate = min(1.0 / (r.rate * lag), math.sqrt(r.attitude * turn))
        yaw_rate = min(0.5 * rate, math.sqrt(r.attitude * spin))
        velocity = rate / math.sqrt(r.attitude) / r.velocity
        position = velocity / r.position
        return LeeGains(
            horizon_s=horizon,
            lead_s=r.lead * lag,
            position_per_s=position,
            velocity_per_s=velocity,
            integral_per_s=position / r.integral,
            attitude_per_s2=rate * rate / r.attitude,
            rate_per_s=rate,
            yaw_per_s2=yaw_rate * yaw_rate / r.attitude,
            yaw_rate_per_s=yaw_rate,
            attitude_integral_per_s=rate / r.attitude / r.attitude_integral,
            speed_m_s=0.5 * robot.limits.linear_velocity_m_s,
            tilt_rad=widest_tilt(robot),
            integral_m_s2=0.3 * STANDARD_GRAVITY,
            integral_rad_s2=0.3 * turn,
            rate_rad_s=0.5 * robot.limits.angular_velocity_rad_s,
        )


class LeeController(TrackingController):
    """The geometric tracking controller.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: LeeGains | None = None) -> None:
        super().__init__(robot, g := gains or LeeGains.for_robot(robot))
        self._mass = robot.body.mass_kg
        self._drag = np.array(robot.body.linear_drag_n_s_per_m) / self._mass
        self._attitude = np.array([g.attitude_per_s2, g.attitude_per_s2, g.yaw_per_s2])
        self._rate = np.array([g.rate_per_s, g.rate_per_s, g.yaw_rate_per_s])

    def _wrench(self, error: Array, orientation: Array, rate: Array, reference: Reference, dt: float) -> Array:
        body, pull = frames.to_matrix(orientation), self.gains.velocity_per_s * error
        drag = np.einsum("nij,j,nkj,nk->ni", body, self._drag, body, reference.velocity)
        ahead = reference.acceleration + drag
        wanted = self._thrust(pull + self._velocity_integral + ahead, pull, self.gains.integral_per_s * dt * pull)
        thrust = self._mass * np.maximum(_dot(wanted, body[:, :, 2]), 0.0)
        target = _attitude(_unit(wanted), reference.yaw)
        rate_ahead, turning = self._rates_ahead(ahead, reference)
        return np.column_stack((thrust, self._torque(body, target, rate, rate_ahead, turning, dt)))

    def _torque(self, body: Array, target: Array, rate: Array, rate_ahead: Array, turning: Array, dt: float) -> Array:
        relative = np.einsum("nji,njk->nik", body, target)  # R^T R_d
        skew = 0.5 * (np.swapaxes(relative, 1, 2) - relative)
        error = np.column_stack((skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]))
        wanted = np.einsum("nij,nj->ni", relative, rate_ahead)
        ahead = np.einsum("nij,nj->ni", relative, turning) - cross(rate, wanted)
        back = -self._attitude * error - self._rate * (rate - wanted)
        most = self.gains.integral_rad_s2
        self._attitude_integral = integrated(
            self._attitude_integral, self.gains.attitude_integral_per_s * dt * back, back, most, True
        )
        return self._inertia * (back + self._attitude_integral + ahead) + cross(rate, self._inertia * rate)

    def _rates_ahead(self, acceleration: Array, reference: Reference) -> tuple[Array, Array]:
        """Return body rates and angular accelerations (N, 3) of the attitude that follows from the reference alone."""
        force = acceleration + np.array([0.0, 0.0, STANDARD_GRAVITY])
        force[:, 2] = np.maximum(force[:, 2], 0.2 * STANDARD_GRAVITY)
        up, up1, up2 = _unit_derivatives(force, reference.jerk, reference.snap)
        ahead = np.column_stack((np.cos(reference.yaw), np.sin(reference.yaw), np.zeros(len(up))))
        left, left1, left2 = _unit_derivatives(*(cross(u, ahead) for u in (up, up1, up2)))
        forward = cross(left, up)
        forward1 = cross(left1, up) + cross(left, up1)
        forward2 = cross(left2, up) + 2.0 * cross(left1, up1) + cross(left, up2)
        rate = np.column_stack([_dot(up, left1), _dot(forward, up1), _dot(left, forward1)])
        turning = np.column_stack(
            [
                _dot(up1, left1) + _dot(up, left2),
                _dot(forward1, up1) + _dot(forward, up2),
                _dot(left1, forward1) + _dot(left, forward2),
            ]
        )
        most = self.gains.rate_rad_s
        return bounded(rate, most), bounded(turning, most * self.gains.rate_per_s)


def cross(one: Array, other: Array) -> Array:
    """Return the cross products (N, 3); for few rows many times faster than numpy's own."""
    x, y, z = one.T
    u, v, w = other.T
    return np.column_stack((y * w - z * v, z * u - x * w, x * v - y * u))


def _attitude(up: Array, yaw: Array) -> Array:
    """Return rotation matrices (N, 3, 3) with the body's z axis along ``up`` (N, 3) and headings near ``yaw`` (N,)."""
    left = _unit(cross(up, np.column_stack((np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)))))
    return np.stack((cross(left, up), left, up), axis=2)


def _dot(one: Array, other: Array) -> Array:
    return np.asarray(np.einsum("ni,ni->n", one, other))


def _unit(vector: Array) -> Array:
    return np.asarray(vector / np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-9))


def _unit_derivatives(vector: Array, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Return the direction (N, 3) of a vector and its first two time derivatives, from those of the vector."""
    size = np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-9)
    unit = vector / size
    size1 = (unit * first).sum(axis=1, keepdims=True)
    unit1 = (first - unit * size1) / size
    size2 = (unit1 * first + unit * second).sum(axis=1, keepdims=True)
    return unit, unit1, (second - 2.0 * unit1 * size1 - unit * size2) / size
