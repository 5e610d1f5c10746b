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
from rlstack.control.hover import LONGEST_STEP_S, authority
from rlstack.control.lee import bounded, feasible, integrated, widest_tilt
from rlstack.control.mixer import Mixer
from rlstack.control.reference import Reference
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
class CascadeGains:
    """Gains per mass and inertia."""

    horizon_s: float = value(unit="s", above=0.0)
    """How soon the rotors reach a wanted speed under the motor lead."""
    lead_s: float = value(unit="s", at_least=0.0)
    """How far ahead the reference's acceleration is taken."""
    position_per_s: float = value(unit="1/s", above=0.0)
    """Position P: velocity per position error."""
    velocity_per_s: float = value(unit="1/s", above=0.0)
    velocity_integral_per_s2: float = value(unit="1/s^2", at_least=0.0)
    velocity_derivative: float = value(at_least=0.0)
    """Velocity PID: acceleration per velocity error, its integral and its derivative."""
    attitude_per_s: float = value(unit="1/s", above=0.0)
    yaw_per_s: float = value(unit="1/s", above=0.0)
    """Attitude P: rate per attitude error, for tilt and for heading."""
    rate_per_s: float = value(unit="1/s", above=0.0)
    yaw_rate_per_s: float = value(unit="1/s", above=0.0)
    rate_integral_per_s2: float = value(unit="1/s^2", at_least=0.0)
    rate_derivative: float = value(at_least=0.0)
    """Rate PID: angular acceleration per rate error, its integral, and the rate's own derivative (negative)."""
    derivative_s: float = value(unit="s", above=0.0)
    """Time constant of the low-pass before both derivatives."""
    speed_m_s: float = value(unit="m/s", above=0.0)
    """Largest wanted speed relative to the reference."""
    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.4)
    """Largest wanted tilt."""
    rate_rad_s: float = value(unit="rad/s", above=0.0)
    yaw_rate_rad_s: float = value(unit="rad/s", above=0.0)
    """Largest wanted rates."""
    integral_m_s2: float = value(unit="m/s^2", at_least=0.0)
    integral_rad_s2: float = value(unit="rad/s^2", at_least=0.0)
    """Largest contribution of the integrals, per axis."""

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


class CascadeController:
    """Tracks references; keeps integrals, filtered derivatives and a motor model between calls.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: CascadeGains | None = None) -> None:
        self.robot = robot
        self.gains = gains or CascadeGains.for_robot(robot)
        self.mixer = Mixer(robot, self.gains.horizon_s)
        self._inertia = np.array(robot.body.inertia_kg_m2)
        self.reset()

    def reset(self, count: int = 1) -> None:
        """Reset the state of ``count`` robots and assume that their rotors turn at the hover speed."""
        self._velocity_integral = np.zeros((count, 3))
        self._rate_integral = np.zeros((count, 3))
        self._velocity_change = _Derivative(self.gains.derivative_s)
        self._rate_change = _Derivative(self.gains.derivative_s)
        self.mixer.reset(count, self.robot.hover_speed_rad_s)

    def command(
        self,
        position: Array,
        orientation: Array,
        linear_velocity_world: Array,
        angular_velocity: Array,
        reference: Reference,
        dt: float,
    ) -> Array:
        """Return rotor speeds (N, rotors) in rad/s, within the rotors' limits.

        Args:
            position: (N, 3) m, world.
            orientation: (N, 4) xyzw, body to world, unit.
            linear_velocity_world: (N, 3) m/s, world.
            angular_velocity: (N, 3) rad/s, body.
            reference: The current reference; its acceleration is ``gains.lead_s`` ahead.
            dt: Time since the previous call, s.
        """
        self.mixer.follow(dt)
        dt = min(dt, LONGEST_STEP_S)
        gains = self.gains
        closing = bounded(gains.position_per_s * (reference.position - position), gains.speed_m_s)
        wanted = self._thrust(closing + reference.velocity - linear_velocity_world, reference.acceleration, dt)
        thrust_body = frames.rotate_inverse(orientation, wanted)
        rate = self._wanted_rate(orientation, thrust_body, reference.yaw)
        turning = self._turning(rate - angular_velocity, angular_velocity, dt)
        lift = self.robot.body.mass_kg * np.maximum(thrust_body[:, 2], 0.0)
        return self.mixer.command(np.column_stack((lift, self._inertia * turning)))

    def _thrust(self, short: Array, ahead: Array, dt: float) -> Array:
        """Velocity PID: return the wanted thrust per mass (N, 3) in m/s^2, world."""
        gains = self.gains
        change = self._velocity_change(short, dt)
        wanted = gains.velocity_per_s * short + self._velocity_integral + gains.velocity_derivative * change + ahead
        thrust, granted = feasible(wanted, gains.tilt_rad, self.robot.thrust_to_weight * STANDARD_GRAVITY)
        growth = gains.velocity_integral_per_s2 * dt * short
        pull, most = gains.velocity_per_s * short, gains.integral_m_s2
        self._velocity_integral = integrated(self._velocity_integral, growth, pull, most, granted)
        return thrust

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
        self._rate_integral = integrated(self._rate_integral, growth, proportional, most, True)
        return proportional + self._rate_integral - gains.rate_derivative * self._rate_change(rate, dt)


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
