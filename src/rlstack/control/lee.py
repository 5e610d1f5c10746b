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

from rlstack.arrays import Array, Mask
from rlstack.control.hover import LONGEST_STEP_S, authority
from rlstack.control.mixer import Mixer
from rlstack.control.reference import Reference
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
class LeeGains:
    """Gains per mass and inertia, so that they are rates: k_x / m = position_per_s velocity_per_s, k_v / m =
    velocity_per_s, k_R / J = attitude_per_s2, k_Omega / J = rate_per_s."""

    horizon_s: float = value(unit="s", above=0.0)
    """How soon the rotors reach a wanted speed under the motor lead."""
    lead_s: float = value(unit="s", at_least=0.0)
    """How far ahead the reference's acceleration, jerk and snap are taken."""
    position_per_s: float = value(unit="1/s", above=0.0)
    velocity_per_s: float = value(unit="1/s", above=0.0)
    integral_per_s: float = value(unit="1/s", at_least=0.0)
    attitude_per_s2: float = value(unit="1/s^2", above=0.0)
    rate_per_s: float = value(unit="1/s", above=0.0)
    yaw_per_s2: float = value(unit="1/s^2", above=0.0)
    yaw_rate_per_s: float = value(unit="1/s", above=0.0)
    attitude_integral_per_s: float = value(unit="1/s", at_least=0.0)
    """Rate at which the attitude's integral absorbs a remaining torque."""
    speed_m_s: float = value(unit="m/s", above=0.0)
    """Largest wanted speed relative to the reference, which bounds the effect of a position error."""
    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.4)
    """Largest wanted tilt."""
    integral_m_s2: float = value(unit="m/s^2", at_least=0.0)
    """Largest acceleration that the integral may request, per axis."""
    integral_rad_s2: float = value(unit="rad/s^2", at_least=0.0)
    """Largest angular acceleration that the attitude's integral may request, per axis."""
    rate_rad_s: float = value(unit="rad/s", above=0.0)
    """Largest rate that is fed forward."""

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


def widest_tilt(robot: Quadrotor) -> float:
    """Return the largest tilt in rad that a tracking controller may request.

    It leaves a reserve of a tenth of the weight in level flight, and a margin to the guard's limit.
    """
    return min(
        math.acos(min(1.0, 1.1 / robot.thrust_to_weight)) if robot.thrust_to_weight > 1.2 else 0.3,
        0.8 * robot.limits.tilt_rad,
        1.3,
    )


class LeeController:
    """Tracks references; keeps an integral and a motor model between calls.

    Args:
        robot: The robot.
        gains: Gains; derived from the robot if None.
    """

    def __init__(self, robot: Quadrotor, gains: LeeGains | None = None) -> None:
        self.robot = robot
        self.gains = gains or LeeGains.for_robot(robot)
        self.mixer = Mixer(robot, self.gains.horizon_s)
        self._mass = robot.body.mass_kg
        self._inertia = np.array(robot.body.inertia_kg_m2)
        self._drag = np.array(robot.body.linear_drag_n_s_per_m) / self._mass
        g = self.gains
        self._attitude = np.array([g.attitude_per_s2, g.attitude_per_s2, g.yaw_per_s2])
        self._rate = np.array([g.rate_per_s, g.rate_per_s, g.yaw_rate_per_s])
        self.reset()

    def reset(self, count: int = 1) -> None:
        """Reset the state of ``count`` robots and assume that their rotors turn at the hover speed."""
        self._integral = np.zeros((count, 3))
        self._turn_integral = np.zeros((count, 3))
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
            reference: The current reference; its higher derivatives are ``gains.lead_s`` ahead.
            dt: Time since the previous call, s.
        """
        self.mixer.follow(dt)
        dt = min(dt, LONGEST_STEP_S)
        gains, body = self.gains, frames.to_matrix(orientation)
        closing = bounded(gains.position_per_s * (reference.position - position), gains.speed_m_s)
        short = closing + reference.velocity - linear_velocity_world
        drag = np.einsum("nij,j,nkj,nk->ni", body, self._drag, body, reference.velocity)
        ahead = reference.acceleration + drag
        wanted, granted = feasible(
            gains.velocity_per_s * short + self._integral + ahead,
            gains.tilt_rad,
            self.robot.thrust_to_weight * STANDARD_GRAVITY,
        )
        pull, most = gains.velocity_per_s * short, gains.integral_m_s2
        self._integral = integrated(self._integral, gains.integral_per_s * dt * pull, pull, most, granted)

        thrust = self._mass * np.maximum(_dot(wanted, body[:, :, 2]), 0.0)
        target = _attitude(_unit(wanted), reference.yaw)
        rate, turning = self._rates_ahead(ahead, reference)
        torque = self._torque(body, target, angular_velocity, rate, turning, dt)
        return self.mixer.command(np.column_stack((thrust, torque)))

    def _torque(self, body: Array, target: Array, rate: Array, rate_ahead: Array, turning: Array, dt: float) -> Array:
        relative = np.einsum("nji,njk->nik", body, target)  # R^T R_d
        skew = 0.5 * (np.swapaxes(relative, 1, 2) - relative)
        error = np.column_stack((skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]))
        wanted = np.einsum("nij,nj->ni", relative, rate_ahead)
        ahead = np.einsum("nij,nj->ni", relative, turning) - cross(rate, wanted)
        back = -self._attitude * error - self._rate * (rate - wanted)
        most = self.gains.integral_rad_s2
        self._turn_integral = integrated(
            self._turn_integral, self.gains.attitude_integral_per_s * dt * back, back, most, True
        )
        return self._inertia * (back + self._turn_integral + ahead) + cross(rate, self._inertia * rate)

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


def feasible(acceleration: Array, tilt_rad: float, top_m_s2: float) -> tuple[Array, Mask]:
    """Return the feasible thrust per mass nearest to accelerations, and which axes are unsaturated.

    Height comes first: the horizontal part gets what the tilt limit and the thrust leave.

    Args:
        acceleration: (N, 3) m/s^2, world, without gravity.
        tilt_rad: Largest tilt of the thrust.
        top_m_s2: Largest collective thrust per mass.

    Returns:
        (N, 3) m/s^2, world, gravity compensated; (N, 3) bool.
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
    """Return vectors (N, 3) clipped to length ``largest``."""
    size = np.linalg.norm(vector, axis=1, keepdims=True)
    return np.asarray(vector * np.minimum(1.0, largest / np.maximum(size, 1e-12)))


def integrated(integral: Array, growth: Array, asked: Array, most: float, granted: Mask | bool) -> Array:
    """Return an integral (N, 3) after one step, with anti-windup.

    It is held on a saturated axis, and while the proportional part exceeds the integral's bound: that is a manoeuvre,
    not a disturbance.

    Args:
        integral: (N, 3) current value.
        growth: (N, 3) increment of this step.
        asked: (N, 3) the proportional part.
        most: Bound of the integral, per axis.
        granted: (N, 3) which axes are unsaturated.
    """
    return np.where(granted & (np.abs(asked) < most), np.clip(integral + growth, -most, most), integral)


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
