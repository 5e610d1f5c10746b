"""What was flown: N episodes as arrays, the same whether they came from the batch simulator or over topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array


@dataclass(frozen=True)
class Episodes:
    """Recorded flights.

    Args:
        backend: Where they were flown, such as ``"batch"`` or ``"mujoco (topics)"``.
        rate_hz: Control and recording rate.
        position: (T, N, 3) m, world.
        orientation: (T, N, 4) xyzw, body to world.
        linear_velocity: (T, N, 3) m/s, world.
        angular_velocity: (T, N, 3) rad/s, body.
        command: (T, N, rotors) rad/s, what went to the rotors at each step.
        goal_position: (T, N, 3) m, world: where the robot ought to be at each sample, the same all along where the
            goal does not move.
        labels: (N,) what disturbed each episode.
        interventions: (N,) how often the guard took over (0 where no guard flew).
        latency_s: Observation-to-command times on the control path, s; empty where none was measured.
        wall_s: How long flying them took.
    """

    backend: str
    rate_hz: float
    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array
    command: Array
    goal_position: Array
    labels: NDArray[np.str_]
    interventions: NDArray[np.int64]
    latency_s: Array
    wall_s: float

    def __len__(self) -> int:
        return self.position.shape[1]

    @property
    def time_s(self) -> Array:
        """(T,) s since the start; sample 0 is the start state."""
        return np.arange(self.position.shape[0]) / self.rate_hz

    @property
    def moving(self) -> bool:
        """Whether any goal moves."""
        return bool((self.goal_position != self.goal_position[:1]).any())

    @property
    def error_m(self) -> Array:
        """(T, N) distance from the goal, m; not finite counts as infinitely far."""
        error = np.linalg.norm(self.position - self.goal_position, axis=-1)
        return np.where(np.isfinite(error), error, np.inf)


def joined(parts: Sequence[Episodes], labels: NDArray[np.str_], wall_s: float) -> Episodes:
    """Return flights side by side, in the order of the parts.

    Args:
        parts: Flown in the same backend at the same rate for as long.
        labels: (N,) of all episodes.
        wall_s: How long flying them took in all.
    """
    arrays = ("position", "orientation", "linear_velocity", "angular_velocity", "command", "goal_position")
    return Episodes(
        backend=parts[0].backend,
        rate_hz=parts[0].rate_hz,
        **{name: np.concatenate([getattr(part, name) for part in parts], axis=1) for name in arrays},
        labels=labels,
        interventions=np.concatenate([part.interventions for part in parts]),
        latency_s=np.concatenate([part.latency_s for part in parts]),
        wall_s=wall_s,
    )
