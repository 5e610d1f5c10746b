"""Everything that pushes a quadrotor except gravity and contact, for engines that take a force and a torque."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import Quadrotor
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.rotors import RotorGroup

Array = NDArray[np.float64]


class ExternalWrench:
    """Sum of rotors, drag, constant disturbance and gust on one robot, at its centre of mass.

    Args:
        robot: Whose drag.
        rotors: Its rotors.
    """

    def __init__(self, robot: Quadrotor, rotors: RotorGroup) -> None:
        self._rotors = rotors
        self._file_drag = np.array(robot.body.linear_drag_n_s_per_m)
        self.perturb(Perturbation.none(1, len(robot.rotors)))

    def perturb(self, perturbation: Perturbation) -> None:
        """Take drag and disturbances out of a perturbation of one robot."""
        self._drag = self._file_drag * float(perturbation.drag_scale[0])
        self._force = np.array(perturbation.force_n[0], dtype=float)
        self._torque = np.array(perturbation.torque_n_m[0], dtype=float)
        self._in_gust = self._force + perturbation.gust_force_n[0]
        self._gust_start = float(perturbation.gust_start_s[0])
        self._gust_end = self._gust_start + float(perturbation.gust_duration_s[0])

    def at(
        self, rotor_speed: Array, rotation: Array, velocity: Array, angular_velocity: Array, elapsed_s: float
    ) -> tuple[Array, Array]:
        """Return the force (3,) in N in the **world** frame and the torque (3,) in N m in the **body** frame.

        Args:
            rotor_speed: (rotors,) rad/s.
            rotation: (3, 3) whose columns are the body axes in the world.
            velocity: (3,) m/s, world.
            angular_velocity: (3,) rad/s, body.
            elapsed_s: Since the last reset, s, for the gust.
        """
        thrust, torque = self._rotors.wrench(rotor_speed, angular_velocity)
        force = self._drag * (velocity @ rotation)
        np.negative(force, out=force)
        force[2] += thrust
        steady = self._in_gust if self._gust_start <= elapsed_s < self._gust_end else self._force
        return rotation @ force + steady, torque + self._torque
