"""Scenario: start states, goals and perturbations of N episodes, shared by training and all simulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.paths import Paths

STATE_NAMES = ("position", "orientation", "linear_velocity", "angular_velocity", "rotor_speed")


@dataclass(frozen=True)
class Scenario:
    """N episodes for the batch simulator, or to run one by one in another engine.

    Args:
        state: Start states by name: position (N, 3) m world, orientation (N, 4) xyzw body to world,
            linear_velocity (N, 3) m/s world, angular_velocity (N, 3) rad/s body, rotor_speed (N, rotors) rad/s.
        goal_position: (N, 3) m, world.
        goal_yaw: (N,) rad.
        perturbation: Departures from the robot file.
        labels: (N,) disturbance of each episode, for the report's success by disturbance, such as ``"wind gusts"``.
        path: Paths of moving goals; ``goal_position`` and ``goal_yaw`` are then those of their start.
    """

    state: dict[str, Array]
    goal_position: Array
    goal_yaw: Array
    perturbation: Perturbation
    labels: NDArray[np.str_]
    path: Paths | None = None

    def __len__(self) -> int:
        return len(self.goal_yaw)

    def goal_over(self, time_s: Array) -> Array:
        """Return the reference positions (T, N, 3) m, world, at each of ``time_s`` (T,) s after the start."""
        if self.path is None:
            return np.broadcast_to(self.goal_position, (len(time_s), *self.goal_position.shape))
        return self.path.over(time_s)

    def take(self, index: NDArray[np.integer] | slice) -> Scenario:
        """Return the episodes at ``index``."""
        return Scenario(
            state={name: array[index] for name, array in self.state.items()},
            goal_position=self.goal_position[index],
            goal_yaw=self.goal_yaw[index],
            perturbation=self.perturbation.take(index),
            labels=self.labels[index],
            path=None if self.path is None else self.path.take(index),
        )

    @staticmethod
    def joined(parts: Sequence[Scenario]) -> Scenario:
        """Return the episodes of all parts in order, which have no paths."""
        return Scenario(
            state={name: np.concatenate([part.state[name] for part in parts]) for name in parts[0].state},
            goal_position=np.concatenate([part.goal_position for part in parts]),
            goal_yaw=np.concatenate([part.goal_yaw for part in parts]),
            perturbation=Perturbation.joined([part.perturbation for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
        )

    def shifted(self, offset: Array) -> Scenario:
        """Return the same episodes with start and goal moved by ``offset``, (3,) or (N, 3) m."""
        state = {**self.state, "position": self.state["position"] + offset}
        path = None if self.path is None else self.path.shifted(offset)
        return replace(self, state=state, goal_position=self.goal_position + offset, path=path)
