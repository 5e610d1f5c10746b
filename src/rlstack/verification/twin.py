"""Two forms of one policy in the same trials: how far their commands differ, and how often each succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.policies.inference import Policy
from rlstack.robots import RobotSpec
from rlstack.tasks.core.trained_task import trained_task
from rlstack.verification.training_evaluation import Evaluator

_SEED = 20_000
"""Seed of the trials, which training does not use to choose a policy."""


@dataclass(frozen=True)
class Compared:
    """What a comparison found.

    Args:
        episodes: Number of trials.
        inputs: Number of inputs that both answered, from the same recurrent state.
        changed: Number of those with another command: a planned action that is due is the same for both.
        success: Success rates of the policy and its twin, each in trials of its own.
        largest: (elements,) largest difference of a command, in its unit.
        mean: (elements,) mean difference of the commands that changed.
    """

    episodes: int
    inputs: int
    changed: int
    success: tuple[float, float]
    largest: Array
    mean: Array


def compare_twins(policy: Policy, twin: Policy, robot: RobotSpec, episodes: int) -> Compared:
    """Run a policy, whose inputs its twin answers as well, and then the twin in the same trials of their task.

    Args:
        policy: It acts in the trials that give the inputs.
        twin: With the same contract.
        robot: The robot of both.
        episodes: Number of trials.

    Raises:
        UserError: Their task is unknown or its simulator is not installed.
    """
    evaluator = Evaluator(trained_task(policy.contract, str(policy.path)), robot, episodes, _SEED)
    shadowed = _Shadowed(policy, twin)
    first = evaluator.evaluate(shadowed).success
    second = evaluator.evaluate(twin).success
    differences = np.concatenate(shadowed.differences)
    changed = differences[differences.any(axis=-1)]
    if not len(changed):
        changed = np.zeros_like(differences[:1])
    return Compared(
        episodes, len(differences), len(changed), (first, second), changed.max(axis=0), changed.mean(axis=0)
    )


class _Shadowed:
    """A policy whose twin answers the same inputs from the same recurrent state: what differs does not add up."""

    def __init__(self, policy: Policy, twin: Policy) -> None:
        self._policy, self._twin = policy, twin
        self.contract, self.path = policy.contract, policy.path
        self.differences: list[Array] = []

    def reset(self, batch: int = 1) -> None:
        self._policy.reset(batch)
        self._twin.reset(batch)

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        for state, value in self._policy.state.items():
            self._twin.state[state][:] = value
        command, other = self._policy.step(inputs), self._twin.step(inputs)
        name = self.contract.outputs[0].name
        self.differences.append(np.abs(command[name] - other[name]))
        return command
