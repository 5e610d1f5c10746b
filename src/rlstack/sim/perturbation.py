"""Perturbations of simulated robots: parameter errors, disturbances and delay, the same in every engine."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array


@dataclass(frozen=True)
class Perturbation:
    """Departures of N robots from their robot file; every array has the leading axis N.

    Scales multiply the file's values. Gust times count from the last reset.
    """

    mass_scale: Array  # (N,)
    inertia_scale: Array  # (N, 3)
    arm_scale: Array  # (N, 2) of the rotors' x and y
    thrust_scale: Array  # (N, rotors)
    torque_scale: Array  # (N,) of torque per thrust
    time_constant_scale: Array  # (N, 2) of the motors' rise and fall
    drag_scale: Array  # (N,)
    force_n: Array  # (N, 3) world frame, constant over the episode
    torque_n_m: Array  # (N, 3) body frame, constant over the episode
    gust_force_n: Array  # (N, 3) world frame, added while the gust blows
    gust_start_s: Array  # (N,)
    gust_duration_s: Array  # (N,)
    delay_s: Array
    """(N,) time from a command's arrival to its effect on the motors. Engines round it to whole physics steps, 1 ms at
    their default rate; the batch simulator uses the exact value."""

    @staticmethod
    def none(count: int, rotors: int = 4) -> Perturbation:
        """Return ``count`` robots without perturbations."""
        one, zero = np.ones(count), np.zeros(count)
        return Perturbation(
            mass_scale=one,
            inertia_scale=np.ones((count, 3)),
            arm_scale=np.ones((count, 2)),
            thrust_scale=np.ones((count, rotors)),
            torque_scale=one.copy(),
            time_constant_scale=np.ones((count, 2)),
            drag_scale=one.copy(),
            force_n=np.zeros((count, 3)),
            torque_n_m=np.zeros((count, 3)),
            gust_force_n=np.zeros((count, 3)),
            gust_start_s=zero,
            gust_duration_s=zero.copy(),
            delay_s=zero.copy(),
        )

    def __len__(self) -> int:
        return len(self.mass_scale)

    def take(self, index: NDArray[np.integer] | slice) -> Perturbation:
        """Return the robots at ``index``."""
        return Perturbation(**{f.name: getattr(self, f.name)[index] for f in fields(self)})
