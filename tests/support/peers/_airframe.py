"""A quadrotor's body under a rate loop, for peers of autopilots: ENU and FLU, in real time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlstack.arrays import Array

G = 9.80665
STEP_S = 0.002


class Airframe:
    """A rigid body whose rates and thrust follow their set-points; the ground is at 0.

    Args:
        robot: A quadrotor, for its mass and the lag of its motors.
        rate_lag_s: Time constant of the rate loop.
    """

    def __init__(self, robot: Any, rate_lag_s: float) -> None:
        model = robot.rotor_model
        self.top = robot.thrust_to_weight * G
        self._thrust_lag_s = max(model.rise_time_constant_s, STEP_S)
        self._rate_lag_s = rate_lag_s
        self._drag = [d / robot.body.mass_kg for d in robot.body.linear_drag_n_s_per_m]
        self.position = [0.0, 0.0, 0.0]
        self.velocity = [0.0, 0.0, 0.0]
        self.q = [0.0, 0.0, 0.0, 1.0]  # xyzw, FLU in ENU
        self.rates = [0.0, 0.0, 0.0]
        self.thrust = 0.0  # per mass, m/s^2
        self.force = [0.0, 0.0, G]  # what an accelerometer measures, FLU
        self.wanted_rates: list[float] = [0.0, 0.0, 0.0]
        self.wanted_thrust = 0.0
        self.motors = False
        self._left_s = 0.0

    @property
    def on_ground(self) -> bool:
        return self.position[2] <= 0.0 and self.velocity[2] <= 0.0

    @property
    def up(self) -> float:
        """Cosine of the tilt."""
        x, y, _, _ = self.q
        return 1.0 - 2.0 * (x * x + y * y)

    def advance(self, seconds: float) -> None:
        self._left_s = min(self._left_s + seconds, 0.5)
        while self._left_s >= STEP_S:
            self._left_s -= STEP_S
            self._step()

    def hold(self, climb_m_s: float) -> None:
        """Fly level by itself, climbing or sinking, and brake."""
        down = self.into_body([0.0, 0.0, 1.0])
        brake = self.into_body([-0.15 * v for v in (*self.velocity[:2], 0.0)])
        want = [down[0] + brake[0], down[1] + brake[1], down[2]]
        self.wanted_rates = [-5.0 * want[1], 5.0 * want[0], 0.0]
        self.wanted_thrust = max(0.0, G + 2.0 * (climb_m_s - self.velocity[2])) / max(self.up, 0.5)

    def into_world(self, v: list[float]) -> list[float]:
        return _rotate(self.q, v)

    def into_body(self, v: list[float]) -> list[float]:
        x, y, z, w = self.q
        return _rotate([-x, -y, -z, w], v)

    def matrix(self) -> Array:
        """Columns are the body's axes in the world."""
        return np.array([self.into_world(axis) for axis in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])]).T

    def _step(self) -> None:
        dt = STEP_S
        rates = self.wanted_rates if self.motors else [0.0, 0.0, 0.0]
        thrust = min(max(self.wanted_thrust, 0.0), self.top) if self.motors else 0.0
        self.thrust += (thrust - self.thrust) * dt / max(self._thrust_lag_s, dt)
        if self.motors:
            self.rates = [r + (want - r) * dt / self._rate_lag_s for r, want in zip(self.rates, rates)]
        moving = self.into_body(self.velocity)
        self.force = [-self._drag[0] * moving[0], -self._drag[1] * moving[1], self.thrust - self._drag[2] * moving[2]]
        world = self.into_world(self.force)
        acceleration = [world[0], world[1], world[2] - G]
        if self.position[2] <= 0.0 and acceleration[2] <= 0.0 and self.velocity[2] <= 0.0:
            self.position[2], self.velocity, self.rates = 0.0, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
            heading = math.atan2(
                2 * (self.q[0] * self.q[1] + self.q[2] * self.q[3]), 1 - 2 * (self.q[1] ** 2 + self.q[2] ** 2)
            )
            if self.up > 0.0:
                self.q = [0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2)]
            self.force = self.into_body([0.0, 0.0, G])
            return
        self.velocity = [v + a * dt for v, a in zip(self.velocity, acceleration)]
        self.position = [p + v * dt for p, v in zip(self.position, self.velocity)]
        x, y, z, w = self.q
        p, q, r = (rate * dt / 2 for rate in self.rates)
        turned = [
            x + w * p + y * r - z * q,
            y + w * q + z * p - x * r,
            z + w * r + x * q - y * p,
            w - x * p - y * q - z * r,
        ]
        size = math.sqrt(sum(c * c for c in turned))
        self.q = [c / size for c in turned]


def _rotate(q: list[float], v: list[float]) -> list[float]:
    x, y, z, w = q
    a, b, c = v
    i, j, k = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return [a + w * i + y * k - z * j, b + w * j + z * i - x * k, c + w * k + x * j - y * i]
