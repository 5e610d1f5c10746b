"""The fine-step reference quadrotor: one robot, float64, plain equations, RK4; independent of rlstack's simulators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY

Array = NDArray[np.float64]


class ReferenceQuadrotor:
    """A rigid body with four lagging rotors.

    Args:
        robot: The robot.
        step_s: RK4 step; 1e-3 for closed loops, 1e-4 as a reference for other integrators.
        gyroscopic: Count the rotors' spin momentum (needs ``spin_inertia_kg_m2``).
        floor_m: Height of a floor that the origin cannot pass; it is inelastic and rough (a touch stops all motion
            but the upward). None: no floor.

    ``state`` holds position (3,) m and linear_velocity (3,) m/s in the world, orientation (4,) xyzw body to world,
    angular_velocity (3,) rad/s in the body, rotor_speed (rotors,) rad/s; assign to its entries to start elsewhere.
    """

    def __init__(
        self, robot: Quadrotor, step_s: float = 1e-3, gyroscopic: bool = False, floor_m: float | None = None
    ) -> None:
        self.robot, self.step_s, self.gyroscopic, self.floor_m = robot, step_s, gyroscopic, floor_m
        self._inertia = np.array(robot.body.inertia_kg_m2)
        self._drag = np.array(robot.body.linear_drag_n_s_per_m)
        self._signs = robot.yaw_torque_signs
        self._levers = np.cross(robot.rotor_positions, [0.0, 0.0, 1.0])  # torque on the body per newton of each rotor
        self._levers[:, 2] += self._signs * robot.rotor_model.torque_per_thrust_m
        self.time_s = 0.0
        self.state: dict[str, Array] = {
            "position": np.zeros(3),
            "orientation": np.array([0.0, 0.0, 0.0, 1.0]),
            "linear_velocity": np.zeros(3),
            "angular_velocity": np.zeros(3),
            "rotor_speed": np.zeros(len(robot.rotors)),
        }

    def step(
        self,
        rotor_speed_command: Sequence[float] | Array,
        duration_s: float,
        force: Sequence[float] = (0.0, 0.0, 0.0),
        torque: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> dict[str, Array]:
        """Hold a command for ``duration_s`` and return the state.

        Args:
            rotor_speed_command: (rotors,) rad/s; clipped to what the rotors can do.
            duration_s: Split into equal steps of at most ``step_s``.
            force: (3,) N, world frame, constant.
            torque: (3,) N m, body frame, constant.
        """
        model = self.robot.rotor_model
        command = np.clip(np.asarray(rotor_speed_command, dtype=float), model.speed_min_rad_s, model.speed_max_rad_s)
        outside = (np.asarray(force, dtype=float), np.asarray(torque, dtype=float))
        count = max(1, int(np.ceil(duration_s / self.step_s - 1e-9)))
        h = duration_s / count
        names = list(self.state)
        for _ in range(count):
            y = [self.state[name] for name in names]
            k1 = self._derivative(y, command, *outside)
            k2 = self._derivative([a + 0.5 * h * b for a, b in zip(y, k1)], command, *outside)
            k3 = self._derivative([a + 0.5 * h * b for a, b in zip(y, k2)], command, *outside)
            k4 = self._derivative([a + h * b for a, b in zip(y, k3)], command, *outside)
            new = [a + h / 6.0 * (p + 2.0 * q + 2.0 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4)]
            self.state = dict(zip(names, new))
            self.state["orientation"] = self.state["orientation"] / np.linalg.norm(self.state["orientation"])
            if self.floor_m is not None and self.state["position"][2] <= self.floor_m:
                self.state["position"][2] = self.floor_m
                self.state["linear_velocity"] = np.array([0.0, 0.0, max(0.0, self.state["linear_velocity"][2])])
                self.state["angular_velocity"] = np.zeros(3)
        self.time_s += duration_s
        return self.state

    def _derivative(self, y: list[Array], command: Array, force: Array, torque: Array) -> list[Array]:
        _, orientation, velocity, rate, speed = y
        body, model = self.robot.body, self.robot.rotor_model
        rotation = _matrix(orientation)

        c0, c1, c2 = model.thrust_coefficients
        thrust = self.robot.thrust_factors * (c0 + c1 * speed + c2 * speed**2)
        body_force = np.array([0.0, 0.0, thrust.sum()]) - self._drag * (rotation.T @ velocity)
        acceleration = (rotation @ body_force + force) / body.mass_kg - np.array([0.0, 0.0, STANDARD_GRAVITY])

        lag = np.where(command > speed, model.rise_time_constant_s, model.fall_time_constant_s)
        speed_rate = (command - speed) / lag

        momentum = self._inertia * rate
        total_torque = thrust @ self._levers + torque
        if self.gyroscopic:
            # A rotor that pushes the body's yaw to + turns clockwise seen from above: its spin is along -z.
            spin = -self._signs * model.spin_inertia_kg_m2
            momentum = momentum + np.array([0.0, 0.0, (spin * speed).sum()])
            total_torque = total_torque - np.array([0.0, 0.0, (spin * speed_rate).sum()])
        rate_rate = (total_torque - _cross(rate, momentum)) / self._inertia

        x, y_, z, w = orientation
        p, q, r = rate
        orientation_rate = 0.5 * np.array(
            [w * p + y_ * r - z * q, w * q + z * p - x * r, w * r + x * q - y_ * p, -x * p - y_ * q - z * r]
        )
        return [velocity, orientation_rate, acceleration, rate_rate, speed_rate]


def _matrix(quaternion: Array) -> Array:
    x, y, z, w = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _cross(a: Array, b: Array) -> Array:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
