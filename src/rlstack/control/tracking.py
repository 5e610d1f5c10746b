"""Tracking control of N quadrotors: what the geometric and the cascaded controller have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.control.hover import LONGEST_STEP_S
from rlstack.control.mixer import Mixer
from rlstack.control.reference_trajectory import Reference
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class TrackingGains:
    """Gains per mass and inertia."""

    horizon_s: float = value(unit="s", above=0.0)
    """How soon the rotors reach a wanted speed under the motor lead."""
    lead_s: float = value(unit="s", at_least=0.0)
    """How far ahead the reference's acceleration, and higher derivatives, are taken."""
    position_per_s: float = value(unit="1/s", above=0.0)
    """Velocity per position error."""
    velocity_per_s: float = value(unit="1/s", above=0.0)
    """Acceleration per velocity error."""
    rate_per_s: float = value(unit="1/s", above=0.0)
    yaw_rate_per_s: float = value(unit="1/s", above=0.0)
    """Angular acceleration per rate error."""
    speed_m_s: float = value(unit="m/s", above=0.0)
    """Largest wanted speed relative to the reference, which bounds the effect of a position error."""
    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.4)
    """Largest wanted tilt."""
    rate_rad_s: float = value(unit="rad/s", above=0.0)
    """Largest wanted rate, or rate that is fed forward."""
    integral_m_s2: float = value(unit="m/s^2", at_least=0.0)
    integral_rad_s2: float = value(unit="rad/s^2", at_least=0.0)
    """Largest acceleration and angular acceleration that the integrals may request, per axis."""


class TrackingController(ABC):
    """Tracks references; keeps integrals and a motor model between calls.

    Args:
        robot: The robot.
        gains: Gains of the controller.
    """

    def __init__(self, robot: Quadrotor, gains: Any) -> None:
        self.robot, self.gains = robot, gains
        self.mixer = Mixer(robot, gains.horizon_s)
        self._inertia = np.array(robot.body.inertia_kg_m2)
        self.reset()

    def reset(self, count: int = 1) -> None:
        """Reset the state of ``count`` robots and assume that their rotors turn at the hover speed."""
        self._velocity_integral = np.zeros((count, 3))
        self._attitude_integral = np.zeros((count, 3))
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
            reference: The current reference; its acceleration and higher derivatives are ``gains.lead_s`` ahead.
            dt: Time since the previous call, s.
        """
        self.mixer.follow(dt)
        closing = bounded(self.gains.position_per_s * (reference.position - position), self.gains.speed_m_s)
        error = closing + reference.velocity - linear_velocity_world
        return self.mixer.command(
            self._wrench(error, orientation, angular_velocity, reference, min(dt, LONGEST_STEP_S))
        )

    @abstractmethod
    def _wrench(self, error: Array, orientation: Array, rate: Array, reference: Reference, dt: float) -> Array:
        """Return the wanted thrust, N, and torques, N m, (N, 4) for velocity errors (N, 3) m/s, world."""

    def _thrust(self, wanted: Array, proportional: Array, growth: Array) -> Array:
        """Return the feasible thrust per mass (N, 3) m/s^2, world, and advance the velocity's integral.

        Args:
            wanted: (N, 3) wanted acceleration.
            proportional: (N, 3) the part of it that is proportional to the velocity error.
            growth: (N, 3) increment of the integral.
        """
        top = self.robot.thrust_to_weight * STANDARD_GRAVITY
        thrust, granted = feasible(wanted, self.gains.tilt_rad, top)
        most = self.gains.integral_m_s2
        self._velocity_integral = integrated(self._velocity_integral, growth, proportional, most, granted)
        return thrust


def widest_tilt(robot: Quadrotor) -> float:
    """Return the largest tilt in rad that a tracking controller may request.

    It leaves a reserve of a tenth of the weight in level flight, and a margin to the guard's limit.
    """
    return min(
        math.acos(min(1.0, 1.1 / robot.thrust_to_weight)) if robot.thrust_to_weight > 1.2 else 0.3,
        0.8 * robot.limits.tilt_rad,
        1.3,
    )


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
