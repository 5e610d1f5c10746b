"""Quadrotors in l2f, the simulator of Learning to Fly in Seconds and RAPTOR (C++, RK4 at 100 Hz, no drag).

Its conventions: position and velocity in the world, rates in the body, quaternions wxyz, rotor speeds as fractions 0
to 1 of the top speed, commands -1 to 1 over the same range. It has no rad/s: a policy's rotor speed goes in as its
share of the policy's robot's range. "theirs" is the vehicle that the package has, a Crazyflie with decks of 30.6 g
whose motors speed up in 0.055 s and slow down in 0.25 s; "their family" are vehicles of RAPTOR's training family, a
different one for each flight. It takes no disturbance from outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import l2f
import numpy as np
from flights import FAMILY, OURS, Array, main


class L2f:
    """N vehicles, in the next larger of the vector environments that l2f was compiled with."""

    def __init__(self, parameters: str, job: Mapping[str, Any], rate_hz: float) -> None:
        self._count = len(job["starts"]["position"])
        size = min(n for n in l2f.vector_selector if n >= self._count)
        self._l2f = found = l2f.vector_selector[size]
        self._device, self._rng, self._environments = l2f.Device(), found.VectorRng(), found.VectorEnvironment()
        self._parameters, self._now, self._next = found.VectorParameters(), found.VectorState(), found.VectorState()
        found.initialize_rng(self._device, self._rng, 0)
        found.initialize_environment(self._device, self._environments)
        found.initial_parameters(self._device, self._environments, self._parameters)
        found.initial_state(self._device, self._environments, self._parameters, self._now)
        self._size, robot = size, job["robot"]
        top = robot["speed_max_rad_s"]
        self.speed_range = 0.0, top
        vehicles = [self._numbers(k) for k in range(self._count)]
        for vehicle in vehicles:
            vehicle["integration"]["dt"] = 1.0 / rate_hz
        if parameters == OURS:
            for vehicle in vehicles:
                vehicle["dynamics"].update(of_robot(robot))
        elif parameters == FAMILY:
            for vehicle, numbers in zip(vehicles, job["family"]):
                vehicle["dynamics"].update(numbers)
        for k, vehicle in enumerate(vehicles):
            self._set(k, vehicle)
        used = [vehicle["dynamics"] for vehicle in vehicles]
        self.rotor_position = np.array([one["rotor_positions"] for one in used])
        self.rotor_yaw_sign = np.array([one["rotor_torque_directions"] for one in used])[:, :, 2]
        self.thrust = np.array([one["rotor_thrust_coefficients"][0] for one in used]) / top ** np.arange(3)
        if parameters != FAMILY:  # all are the same
            self.rotor_position, self.rotor_yaw_sign = self.rotor_position[0], self.rotor_yaw_sign[0]
            self.thrust = self.thrust[0]

    def _numbers(self, k: int) -> dict[str, Any]:
        text = l2f.parameters_to_json(self._device, self._environments.environments[k], self._parameters.parameters[k])
        found: dict[str, Any] = json.loads(text)
        return found

    def _set(self, k: int, numbers: Mapping[str, Any]) -> None:
        l2f.parameters_from_json(
            self._device, self._environments.environments[k], json.dumps(numbers), self._parameters.parameters[k]
        )

    def reset(self, starts: Mapping[str, Array]) -> None:
        """See :class:`flights.Vehicles`; forces and torques are left out."""
        self._l2f.initial_state(self._device, self._environments, self._parameters, self._now)
        for k in range(self._count):
            state, (x, y, z, w) = self._now.states[k], starts["orientation"][k]
            state.position = starts["position"][k].astype(np.float32)
            state.orientation = np.array([w, x, y, z], dtype=np.float32)
            state.linear_velocity = starts["linear_velocity"][k].astype(np.float32)
            state.angular_velocity = starts["angular_velocity"][k].astype(np.float32)
            state.rpm = (starts["rotor_speed"][k] / self.speed_range[1]).astype(np.float32)

    def state(self) -> tuple[Array, Array, Array, Array]:
        """See :class:`flights.Vehicles`."""
        states = self._now.states[: self._count]
        names = ("position", "orientation", "linear_velocity", "angular_velocity")
        p, q, v, w = (np.array([getattr(state, name) for state in states], dtype=float) for name in names)
        return p, q[:, [1, 2, 3, 0]], v, w

    def turning(self) -> Array:
        """See :class:`flights.Vehicles`."""
        return np.array([state.rpm for state in self._now.states[: self._count]], dtype=float) * self.speed_range[1]

    def step(self, speed: Array) -> None:
        """See :class:`flights.Vehicles`."""
        action = np.zeros((self._size, 4), dtype=np.float32)
        action[: self._count] = 2.0 * speed / self.speed_range[1] - 1.0
        self._l2f.step(self._device, self._environments, self._parameters, self._now, action, self._next, self._rng)
        self._now.assign(self._next)


def of_robot(robot: Mapping[str, Any]) -> dict[str, Any]:
    """Return l2f's numbers of a robot."""
    top, inertia = robot["speed_max_rad_s"], np.diag(robot["inertia_kg_m2"])
    c0, c1, c2 = robot["thrust_coefficients"]
    rotors = robot["rotors"]
    return {
        "rotor_positions": [rotor["position_m"] for rotor in rotors],
        "rotor_torque_directions": [[0.0, 0.0, float(rotor["yaw_torque_sign"])] for rotor in rotors],
        "rotor_thrust_coefficients": [[c0, c1 * top, c2 * top**2]] * 4,
        "rotor_torque_constants": [robot["torque_per_thrust_m"]] * 4,
        "rotor_time_constants_rising": [robot["rise_time_constant_s"]] * 4,
        "rotor_time_constants_falling": [robot["fall_time_constant_s"]] * 4,
        "mass": robot["mass_kg"],
        "J": inertia.tolist(),
        "J_inv": np.linalg.inv(inertia).tolist(),
    }


if __name__ == "__main__":
    main(L2f, lambda: {"l2f": version("l2f")})
