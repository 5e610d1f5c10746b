"""Perturbations of simulated robots: parameter errors, disturbances and delay, the same in every engine."""

from __future__ import annotations

from collections.abc import Sequence
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
    rate_lag_scale: Array  # (N,) of the rate loop's lags
    rate_rejection_scale: Array  # (N,) share of disturbing torques that the rate loop cancels
    delay_s: Array
    """(N,) time from a command's arrival to its effect on the motors. Engines round it to whole physics steps, 1 ms at
    their default rate; the batch simulator uses the exact value."""

    @staticmethod
    def none(count: int, rotors: int = 4) -> Perturbation:
        """Return ``count`` robots without perturbations."""
        shapes = {"inertia_scale": (3,), "arm_scale": (2,), "thrust_scale": (rotors,), "time_constant_scale": (2,)}
        shapes.update(dict.fromkeys(("force_n", "torque_n_m", "gust_force_n"), (3,)))
        names = [field.name for field in fields(Perturbation)]
        arrays = {name: np.zeros((count, *shapes.get(name, ()))) for name in names}
        return Perturbation(**{name: arrays[name] + name.endswith("_scale") for name in names})

    def __len__(self) -> int:
        return len(self.mass_scale)

    @staticmethod
    def joined(parts: Sequence[Perturbation]) -> Perturbation:
        """Return the robots of all parts in order."""
        names = [field.name for field in fields(Perturbation)]
        return Perturbation(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def take(self, index: NDArray[np.integer] | slice) -> Perturbation:
        """Return the robots at ``index``."""
        return Perturbation(**{f.name: getattr(self, f.name)[index] for f in fields(self)})
