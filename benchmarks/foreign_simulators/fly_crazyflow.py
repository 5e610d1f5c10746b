"""Quadrotors in crazyflow (learnsyslab, JAX): first-principles dynamics at 500 Hz, commanded by rotor speeds.

Its conventions: position and velocity in the world, rates in the body, quaternions xyzw, rotor speeds and commands in
rpm, thrust and torque polynomials of rpm, rotors and their turning directions in a mixing matrix whose rows are
roll, pitch and yaw torque. Its rotors have other laws for speeding up and down. Its own vehicle here is the Crazyflie
2.x with the 250 mAh battery, ``cf2x_L250``: 33 g, and an inertia of four times that of the policy's robot.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import jax.numpy as jnp
import numpy as np
from crazyflow.control import Control
from crazyflow.dynamics import Dynamics
from crazyflow.sim import Sim
from flights import OURS, Array, main, motor_order

RPM = 60.0 / (2.0 * np.pi)
"""rpm of 1 rad/s."""
FREQ_HZ = 500
DRONE = "cf2x_L250"


class Crazyflow:
    """N worlds with a drone each."""

    def __init__(self, parameters: str, job: Mapping[str, Any], rate_hz: float) -> None:
        count = len(job["starts"]["position"])
        self._sim = Sim(
            n_worlds=count,
            drone=DRONE,
            dynamics=Dynamics.first_principles,
            control=Control.rotor_vel,
            freq=FREQ_HZ,
        )
        self._steps = round(FREQ_HZ / rate_hz)
        self._ours = parameters == OURS
        if self._ours:
            self._change(job["robot"])
        known = self._sim.data.params
        roll, pitch, yaw = np.array(known.mixing_matrix, dtype=float).reshape(-1, 3, 4)[0]
        arm = float(np.ravel(known.L)[0])
        self.rotor_position = np.stack([-pitch * arm, roll * arm, 0.0 * yaw], axis=1)
        self.rotor_yaw_sign = np.sign(yaw)
        k0, k1, k2 = np.array(known.rpm2thrust, dtype=float).reshape(-1, 3)[0]
        self.thrust = np.array([k0, k1 * RPM, k2 * RPM**2])
        self._turns = np.ones(4)
        if self._ours:
            self.speed_range = job["robot"]["speed_min_rad_s"], job["robot"]["speed_max_rad_s"]
            # it has one thrust curve, through 0 here: a motor of less thrust is one that turns slower
            order = motor_order(self.rotor_position, self.rotor_yaw_sign, job["robot"])
            self._turns = np.sqrt([job["robot"]["rotors"][k].get("thrust_factor", 1.0) for k in order])
        else:
            from crazyflow.sim.sim import rotor_vel_limits

            low, high = rotor_vel_limits(Dynamics.first_principles, DRONE)
            self.speed_range = low / RPM, high / RPM

    def _change(self, robot: Mapping[str, Any]) -> None:
        """Give its drones the numbers of the policy's robot."""
        sim = self._sim
        c0, c1, c2 = robot["thrust_coefficients"]
        thrust = np.array([c0, c1 / RPM, c2 / RPM**2])
        inertia = np.diag(robot["inertia_kg_m2"])
        rise, fall = 1.0 / robot["rise_time_constant_s"], 1.0 / robot["fall_time_constant_s"]
        values = {
            "mass": robot["mass_kg"],
            "L": abs(robot["rotors"][0]["position_m"][0]),
            "prop_inertia": 0.0,
            "J": inertia,
            "J_inv": np.linalg.inv(inertia),
            "rpm2thrust": thrust,
            "rpm2torque": thrust * robot["torque_per_thrust_m"],
            "rotor_dyn_coef": np.array([rise, 0.0, fall, 0.0]),
            "drag_matrix": -np.diag(robot["linear_drag_n_s_per_m"]),
        }
        old = sim.data.params
        new = {
            name: jnp.broadcast_to(jnp.asarray(value, dtype=getattr(old, name).dtype), getattr(old, name).shape)
            for name, value in values.items()
        }
        sim.data = sim.data.replace(params=old.replace(**new))
        # its own limits of the rotors are not those of the policy's robot
        del sim.step_pipeline["clip_rotor_vel_cmd"]
        sim._step = sim.build_step_fn()

    def reset(self, starts: Mapping[str, Array]) -> None:
        """See :class:`flights.Vehicles`."""
        old = self._sim.data.states
        given = {
            "pos": starts["position"],
            "quat": starts["orientation"],
            "vel": starts["linear_velocity"],
            "ang_vel": starts["angular_velocity"],
            "rotor_vel": np.clip(starts["rotor_speed"], *self.speed_range) * RPM,
            "force": starts["force_n"],
            "torque": _into_world(starts["orientation"], starts["torque_n_m"]),
        }
        self._torque_body = starts["torque_n_m"]
        new = {name: jnp.asarray(array[:, None], dtype=getattr(old, name).dtype) for name, array in given.items()}
        self._sim.data = self._sim.data.replace(states=old.replace(**new))

    def state(self) -> tuple[Array, Array, Array, Array]:
        """See :class:`flights.Vehicles`."""
        found = self._sim.data.states
        p, q, v, w = (np.array(a, dtype=float)[:, 0] for a in (found.pos, found.quat, found.vel, found.ang_vel))
        return p, q, v, w

    def turning(self) -> Array:
        """See :class:`flights.Vehicles`."""
        return np.array(self._sim.data.states.rotor_vel, dtype=float)[:, 0] / RPM

    def step(self, speed: Array) -> None:
        """See :class:`flights.Vehicles`."""
        sim = self._sim
        if self._ours:  # its disturbing torque is in the world, the task's is the body's
            states = sim.data.states
            turned = np.array(states.quat, dtype=float)[:, 0]
            torque = _into_world(turned, self._torque_body)[:, None]
            torque = jnp.asarray(torque, dtype=states.torque.dtype)
            sim.data = sim.data.replace(states=states.replace(torque=torque))
        sim.rotor_vel_control(jnp.asarray((speed * self._turns)[:, None] * RPM, dtype=jnp.float32))
        sim.step(self._steps)


def _into_world(q: Array, vector: Array) -> Array:
    axis = q[:, :3]
    across = 2.0 * np.cross(axis, vector)
    return np.asarray(vector + q[:, 3:] * across + np.cross(axis, across))


if __name__ == "__main__":
    main(Crazyflow, lambda: {"crazyflow": version("crazyflow"), "jax": version("jax")})
