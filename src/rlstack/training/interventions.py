"""What was done while somebody intervened, kept apart: each intervention is an episode of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from rlstack.tasks.core.interface import GoalEnvironment, GoalStep
from rlstack.training.experience import Experience, rows_of

INTERVENTIONS = "interventions"
"""Folder of a run that holds them."""


class Interventions:
    """Steps of N robots in which the policy was overruled.

    Args:
        environment: Whose.
        capacity: Steps that are kept.
        folder: The run's; None: a temporary one.
        seed: Of what is drawn.
    """

    def __init__(self, environment: GoalEnvironment, capacity: int, folder: Path | None, seed: int) -> None:
        where = None if folder is None else folder / INTERVENTIONS
        self.steps = Experience(environment, capacity, where, seed)
        self._running = np.zeros(environment.count, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.steps)

    def keep(self, now: Tensor, observation: Tensor, achieved: Tensor, action: Tensor, result: GoalStep) -> None:
        """Keep a step of those robots whose policy was overruled.

        Args:
            now: (N,) bool: whose.
            observation: (N, columns) before the step.
            achieved: (N, goal) before the step.
            action: (N, actions) what was done.
            result: What came of it.
        """
        who, buffer = now.numpy(), self.steps.buffer
        fresh, robots = np.flatnonzero(who & ~self._running), np.flatnonzero(who)
        if len(fresh):
            before = {"observation": observation.numpy()[fresh], "achieved": achieved.numpy()[fresh]}
            buffer.begin_lanes(before, fresh)
        if len(robots):
            rows, spec = rows_of(action, result), buffer.spec
            made = {name: rows[name][robots] for name in spec.transitions}
            buffer.add_lanes(made, {name: rows[name][robots] for name in spec.observations}, robots)
        self._running = who & ~result.done.numpy()
