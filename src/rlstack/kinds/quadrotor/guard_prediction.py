"""Prediction of a quadrotor's state from its last observation and what drives it, for a short time."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.observation import Observation, tilt_and_yaw
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY

_STEP_S = 0.01
_LONGEST_S = 1.0
_TINY_S = 1e-6


class StatePrediction:
    """Integrates the rigid body (no wind, no contact) from when an observation was measured, in steps of up to 10 ms.

    Rotor speeds drive it, rad/s; or, through a rate loop, rates, rad/s, and thrust per mass, m/s^2: (4,) either way.

    Args:
        robot: The robot.
    """

    def __init__(self, robot: Quadrotor) -> None:
        self._model, self._allocation = robot.rotor_model, allocation(robot) * robot.thrust_factors
        self.effectiveness: Array = np.ones(len(robot.rotors))
        """(rotors,) Each rotor's thrust over the file's."""
        self._mass, self._inertia = robot.body.mass_kg, np.array(robot.body.inertia_kg_m2)
        self._drag = np.array(robot.body.linear_drag_n_s_per_m)
        self._from_stamp_s, self._t = -math.inf, 0.0
        self._drove: deque[tuple[float, Array]] = deque()
        loop = robot.rate_loop
        lags = None if loop is None else [loop.time_constant_s, loop.time_constant_s, loop.yaw_time_constant_s]
        self._lags = None if lags is None else np.array(lags)
        self._state: tuple[Array, Array, Array, Array] = (np.zeros(3), np.zeros(4), np.zeros(3), np.zeros(3))

    def start(self, t: float, driving: Array) -> None:
        """Begin with what drives the robot at ``t``."""
        self._drove.clear()
        self.drove(t, driving)

    def drove(self, t: float, driving: Array) -> None:
        """Remember what drove the robot until ``t``, s, monotonic."""
        self._drove.append((t, driving))
        while self._drove[0][0] < t - _LONGEST_S:
            self._drove.popleft()

    def at(self, t: float, newest: Observation, measured_t: float) -> Observation:
        """Return the state at ``t``.

        Args:
            t: s, monotonic; at least that of the call before.
            newest: The newest observation; the prediction begins anew with each.
            measured_t: When it was measured, s, on the clock of ``t``.
        """
        if newest.stamp_s != self._from_stamp_s:
            self._from_stamp_s, self._t = newest.stamp_s, measured_t
            seen = (newest.position, newest.orientation, newest.linear_velocity, newest.angular_velocity)
            position, orientation, velocity, rate = (np.array(part) for part in seen)
            self._state = (position, orientation, velocity, rate)
        self._t = max(self._t, t - _LONGEST_S)
        for until_t, driving in [*self._drove, (t, self._drove[-1][1])]:
            if (left_s := min(until_t, t) - self._t) > _TINY_S:
                wrench = self._wrench(driving) if self._lags is None else driving
                steps = math.ceil(left_s / _STEP_S)
                for _ in range(steps):
                    self._step(left_s / steps, wrench)
                self._t += left_s
        position, orientation, velocity, rate = (part.tolist() for part in self._state)
        tilt_rad, yaw_rad = tilt_and_yaw(orientation)
        return Observation(newest.stamp_s, position, orientation, velocity, rate, tilt_rad, yaw_rad)

    def _wrench(self, speed: Array) -> Array:
        return np.asarray(self._allocation @ (self.effectiveness * self._model.thrust(speed)))

    def _step(self, dt: float, driven: Array) -> None:
        """Advance by ``dt`` s under a wrench, or rates and thrust."""
        position, orientation, velocity, rate = self._state
        if self._lags is None:
            push = driven[0]
            turn = (driven[1:] - np.cross(rate, self._inertia * rate)) / self._inertia
        else:
            push = self._mass * driven[3]
            turn = -np.expm1(-dt / self._lags) * (driven[:3] - rate) / dt
        drag = self._drag * frames.rotate_inverse(orientation, velocity)
        acceleration = frames.rotate(orientation, np.array([0.0, 0.0, push]) - drag) / self._mass
        acceleration[2] -= STANDARD_GRAVITY
        middle = rate + 0.5 * dt * turn
        orientation = frames.multiply(orientation, frames.from_rotation_vector(dt * middle))
        self._state = (
            position + dt * (velocity + 0.5 * dt * acceleration),
            orientation / np.linalg.norm(orientation),
            velocity + dt * acceleration,
            rate + dt * turn,
        )
