"""Quadrotors in gym-pybullet-drones (PyBullet): its CtrlAviary and its Crazyflie, CF2X, commanded by rotor speeds.

Its conventions: position, velocity and rates in the world (PyBullet's rates are not the body's), quaternions xyzw,
rotor speeds in rpm, rotors as links of the URDF, turning -, +, -, + about the body's z axis. Motors have no lag.
All drones are in one world, each above a place of its own, in steps of 1/300 s (a multiple of the control period;
its default is 1/240). Its inertia is 3.6 times that of the policy's robot, its torque constant 4.2 times, gravity 9.8.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pybullet
from flights import OURS, Array, into_body, main
from gym_pybullet_drones.envs.CtrlAviary import CtrlAviary
from gym_pybullet_drones.utils.enums import DroneModel, Physics

RPM = 60.0 / (2.0 * np.pi)
FREQ_HZ, APART_M, GRAVITY = 300, 20.0, 9.80665
LAGGING, AIR = "theirs with our lag", "theirs with our lag and its air"
"""Its vehicle with motors that lag as our Crazyflie's; and that with its models of ground effect and drag."""


class GymPybulletDrones:
    """N drones in one CtrlAviary."""

    def __init__(self, parameters: str, job: Mapping[str, Any], rate_hz: float) -> None:
        count, robot = len(job["starts"]["position"]), job["robot"]
        across = int(np.ceil(np.sqrt(count)))
        self._place = np.array([[k // across * APART_M, k % across * APART_M, 0.0] for k in range(count)])
        with contextlib.redirect_stdout(io.StringIO()):
            self._aviary = CtrlAviary(
                drone_model=DroneModel.CF2X,
                num_drones=count,
                initial_xyzs=self._place + np.array([0.0, 0.0, 1.0]),
                physics=Physics.PYB_GND_DRAG_DW if parameters == AIR else Physics.PYB,
                pyb_freq=FREQ_HZ,
                ctrl_freq=FREQ_HZ,
                user_debug_gui=False,
            )
        self._client, self._drones = self._aviary.getPyBulletClient(), self._aviary.getDroneIds()
        self._ours, self._steps = parameters == OURS, round(FREQ_HZ / rate_hz)
        lagging = parameters in (OURS, LAGGING, AIR)
        self._lag_s = (robot["rise_time_constant_s"], robot["fall_time_constant_s"]) if lagging else None
        if self._ours:
            self._change(robot)
        links = [pybullet.getDynamicsInfo(self._drones[0], k, physicsClientId=self._client) for k in range(4)]
        self.rotor_position = np.array([link[3] for link in links])
        self.rotor_yaw_sign = np.array([-1.0, 1.0, -1.0, 1.0])
        self.speed_range = 0.0, self._aviary.MAX_RPM / RPM
        self.thrust = np.array([0.0, 0.0, self._aviary.KF * RPM**2])

    def _change(self, robot: Mapping[str, Any]) -> None:
        """Give the drones the numbers of the policy's robot."""
        aviary = self._aviary
        aviary.KF = robot["thrust_coefficients"][2] / RPM**2
        aviary.KM = aviary.KF * robot["torque_per_thrust_m"]
        aviary.MAX_RPM = robot["speed_max_rad_s"] * RPM
        self._drag = np.array(robot["linear_drag_n_s_per_m"])
        pybullet.setGravity(0.0, 0.0, -GRAVITY, physicsClientId=self._client)
        for drone in self._drones:
            pybullet.changeDynamics(
                drone,
                -1,
                mass=robot["mass_kg"],
                localInertiaDiagonal=robot["inertia_kg_m2"],
                linearDamping=0.0,
                angularDamping=0.0,
                physicsClientId=self._client,
            )

    def reset(self, starts: Mapping[str, Array]) -> None:
        """See :class:`flights.Vehicles`."""
        self._speed = np.clip(starts["rotor_speed"], *self.speed_range)
        self._force, self._torque = starts["force_n"], starts["torque_n_m"]
        for k, drone in enumerate(self._drones):
            q, rates = starts["orientation"][k], starts["angular_velocity"][k]
            back = np.append(-q[:3], q[3])
            pybullet.resetBasePositionAndOrientation(
                drone, starts["position"][k] + self._place[k], q, physicsClientId=self._client
            )
            pybullet.resetBaseVelocity(
                drone, starts["linear_velocity"][k], into_body(back, rates), physicsClientId=self._client
            )
        self._aviary._updateAndStoreKinematicInformation()

    def state(self) -> tuple[Array, Array, Array, Array]:
        """See :class:`flights.Vehicles`."""
        aviary = self._aviary
        q = aviary.quat.copy()
        return aviary.pos - self._place, q, aviary.vel.copy(), into_body(q, aviary.ang_v)

    def turning(self) -> Array:
        """See :class:`flights.Vehicles`."""
        return np.array(self._speed, dtype=float)

    def step(self, speed: Array) -> None:
        """See :class:`flights.Vehicles`."""
        for _ in range(self._steps):
            if self._lag_s is None:
                self._speed = speed
            else:
                rise, fall = (1.0 - np.exp(-1.0 / (FREQ_HZ * lag_s)) for lag_s in self._lag_s)
                self._speed = self._speed + np.where(speed > self._speed, rise, fall) * (speed - self._speed)
            if self._ours:
                self._push()
            self._aviary.step(self._speed * RPM)

    def _push(self) -> None:
        """Apply drag and disturbances, in the body."""
        aviary = self._aviary
        force = into_body(aviary.quat, self._force) - self._drag * into_body(aviary.quat, aviary.vel)
        for k, drone in enumerate(self._drones):
            # the fifth link is the centre of mass
            pybullet.applyExternalForce(
                drone, 4, force[k].tolist(), [0.0, 0.0, 0.0], pybullet.LINK_FRAME, physicsClientId=self._client
            )
            pybullet.applyExternalTorque(
                drone, 4, self._torque[k].tolist(), pybullet.LINK_FRAME, physicsClientId=self._client
            )


if __name__ == "__main__":
    main(GymPybulletDrones, lambda: {"pybullet": version("pybullet")})
