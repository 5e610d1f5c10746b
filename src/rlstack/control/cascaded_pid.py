"""A cascaded PID controller for N quadrotors at once: the baseline that autopilots fly.

As in PX4 and ArduPilot: position P -> velocity PID -> attitude P -> rate PID, each loop's output being the next one's
setpoint; the reference's velocity and acceleration are fed forward where they enter. The attitude loop rotates the
shortest way to the wanted thrust direction and gives heading a lower priority (D. Brescianini, R. D'Andrea, TCST 2020;
PX4 does so too). For a fair comparison it has the motor lead and the feed-forward ahead in time of
:mod:`rlstack.control.lee`.
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

SHORTEST_STEP_S = 1e-6
"""Calls closer together than this do not update the derivatives."""


@dataclass(frozen=True, kw_only=True)
class CascadeRatios:
    """How fast each loop is, as ratios that suit any quadrotor; ``benchmarks/tracking_baselines.py`` tunes them."""

    horizon: float = value(1.64, above=0.0)
    """Motor lead's horizon, in control periods."""
    rate: float = value(1.32, above=0.0)
    """Ratio of the rate loop's time constant to the lag inside it; the ratios below likewise, loop by loop."""
    attitude: float = value(1.92, above=0.0)
    velocity: float = value(1.71, above=0.0)
    position: float = value(2.48, above=0.0)
    velocity_integral: float = value(4.08, above=0.0)
    rate_integral: float = value(4.26, above=0.0)
    velocity_derivative: float = value(0.04, at_least=0.0)
    """Wanted acceleration per m/s^2 of the velocity error's derivative."""
    rate_derivative: float = value(0.119, at_least=0.0)
    """Opposing angular acceleration per rad/s^2 of measured angular acceleration."""
    lead: float = value(0.808, at_least=0.0)
    """How far ahead the acceleration is taken, in time constants of the attitude loop."""


@dataclass(frozen=True, kw_only=True)
class CascadeGains(TrackingGains):
    """Gains per mass and inertia."""

    velocity_integral_per_s2: float = value(unit="1/s^2", at_least=0.0)
    velocity_derivative: float = value(at_least=0.0)
    """Velocity PID: acceleration per integral and derivative of the velocity error."""
    attitude_per_s: float = value(unit="1/s", above=0.0)
    yaw_per_s: float = value(unit="1/s", above=0.0)
    """Attitude P: rate per attitude error, for tilt and for heading."""
    rate_integral_per_s2: float = value(unit="1/s^2", at_least=0.0)
    rate_derivative: float = value(at_least=0.0)
    """Rate PID: angular acceleration per integral of the rate error, and per derivative of the rate (negative)."""
    derivative_s: float = value(unit="s", above=0.0)
    """Time constant of the low-pass before both derivatives."""
    yaw_rate_rad_s: float = value(unit="rad/s", above=0.0)
    """Largest wanted yaw rate."""

    @staticmethod
    def for_robot(robot: Quadrotor, ratios: CascadeRatios | None = None) -> CascadeGains:
        """Return gains derived from the robot's motors, rate and limits."""
        r = ratios or CascadeRatios()
        period = 1.0 / robot.control_rate_hz
        horizon = r.horizon * period
        turn, spin = authority(robot)
        rate = min(1.0 / (r.rate * (horizon + 1.5 * period)), math.sqrt(r.attitude * turn))
        yaw_rate = min(0.5 * rate, math.sqrt(r.attitude * spin))
        attitude = rate / r.attitude
        velocity = math.sqrt(attitude * rate) / r.velocity
        position = velocity / r.position
        fastest = 0.5 * robot.limits.angular_velocity_rad_s
        return CascadeGains(
            horizon_s=horizon,
            lead_s=r.lead / attitude,
            position_per_s=position,
            velocity_per_s=velocity,
            velocity_integral_per_s2=velocity * position / r.velocity_integral,
            velocity_derivative=r.velocity_derivative,
            attitude_per_s=attitude,
            yaw_per_s=yaw_rate / r.attitude,
            rate_per_s=rate,
            yaw_rate_per_s=yaw_rate,
            rate_integral_per_s2=rate * attitude / r.rate_integral,
            rate_derivative=r.rate_derivative,
            derivative_s=2.0 * period,
            speed_m_s=0.5 * robot.limits.linear_velocity_m_s,
            tilt_rad=widest_tilt(robot),
            rate_rad_s=min(fastest, math.sqrt(turn)),
            yaw_rate_rad_s=min(fastest, math.sqrt(0.5 * spin)),
            integral_m_s2=0.3 * STANDARD_GRAVITY,
            integral_rad_s2=0.3 * turn,
        )


class CascadeController(TrackingController):
    """The cascade; keeps filtered derivatives as well.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: CascadeGains | None = None) -> None:
        super().__init__(robot, gains or CascadeGains.for_robot(robot))

    def reset(self, count: int = 1) -> None:
        """Reset the state of ``count`` robots and assume that their rotors turn at the hover speed."""
        super().reset(count)
        self._velocity_change = _Derivative(self.gains.derivative_s)
        self._rate_change = _Derivative(self.gains.derivative_s)

    def _wrench(self, error: Array, orientation: Array, rate: Array, reference: Reference, dt: float) -> Array:
        """Velocity PID, then the loops inside it."""
        gains, pull = self.gains, self.gains.velocity_per_s * error
        change = gains.velocity_derivative * self._velocity_change(error, dt)
        acceleration = pull + self._velocity_integral + change + reference.acceleration
        wanted = self._thrust(acceleration, pull, gains.velocity_integral_per_s2 * dt * error)
        thrust_body = frames.rotate_inverse(orientation, wanted)
        wanted_rate = self._wanted_rate(orientation, thrust_body, reference.yaw)
        turning = self._turning(wanted_rate - rate, rate, dt)
        lift = self.robot.body.mass_kg * np.maximum(thrust_body[:, 2], 0.0)
        return np.column_stack((lift, self._inertia * turning))

    def _wanted_rate(self, orientation: Array, thrust_body: Array, yaw: Array) -> Array:
        """Attitude P: return wanted rates (N, 3) in rad/s, body."""
        gains = self.gains
        across = np.hypot(thrust_body[:, 0], thrust_body[:, 1])
        angle = np.arctan2(across, thrust_body[:, 2])
        # Rotate body z onto the wanted direction, about z x direction.
        share = np.where(across > 1e-9, angle / np.maximum(across, 1e-9), 0.0)
        tilt = np.column_stack((-thrust_body[:, 1] * share, thrust_body[:, 0] * share, np.zeros_like(angle)))
        # The heading of a body on its side is undefined: its error fades with the tilt.
        upright = np.maximum(np.cos(frames.tilt(orientation)), 0.0)
        heading = frames.wrap_angle(yaw - frames.yaw(orientation)) * upright
        rate = bounded(gains.attitude_per_s * tilt, gains.rate_rad_s)
        rate[:, 2] = np.clip(gains.yaw_per_s * heading, -gains.yaw_rate_rad_s, gains.yaw_rate_rad_s)
        return rate

    def _turning(self, error: Array, rate: Array, dt: float) -> Array:
        """Rate PID: return wanted angular accelerations (N, 3) in rad/s^2, body."""
        gains = self.gains
        proportional = error * [gains.rate_per_s, gains.rate_per_s, gains.yaw_rate_per_s]
        most = gains.integral_rad_s2
        growth = gains.rate_integral_per_s2 * dt * error
        self._attitude_integral = integrated(self._attitude_integral, growth, proportional, most, True)
        return proportional + self._attitude_integral - gains.rate_derivative * self._rate_change(rate, dt)


class _Derivative:
    """A low-passed derivative; zero at the first call."""

    def __init__(self, time_constant_s: float) -> None:
        self._time_constant_s = time_constant_s
        self._last: Array | None = None
        self._value: Array | float = 0.0

    def __call__(self, now: Array, dt: float) -> Array:
        if self._last is not None and dt > SHORTEST_STEP_S:
            share = -math.expm1(-dt / self._time_constant_s)
            self._value = self._value + share * ((now - self._last) / dt - self._value)
        self._last = now
        return np.broadcast_to(self._value, now.shape)
