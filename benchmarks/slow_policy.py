"""What slow inference costs a policy that plans chunks: success in simulation, stepped as a whole and planning ahead.

``python benchmarks/slow_policy.py POLICY``. Inference takes so many milliseconds of simulated time. A policy that is
stepped as a whole answers late and less often: the arm keeps its last target meanwhile. One that plans ahead carries
out the chunk before, as the policy node does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from rlstack.arrays import Array
from rlstack.policies import load_policy
from rlstack.policies.contract import ACTION, PLAN, STATE_PREFIX
from rlstack.policies.inference import Policy
from rlstack.policies.planning import ChunkQueue, halves, steps_ahead
from rlstack.robots import load_robot
from rlstack.tasks.core.trained_task import trained_task
from rlstack.verification.training_evaluation import Evaluator


class Whole:
    """A policy that is stepped as a whole, and does nothing else until it has answered."""

    def __init__(self, policy: Policy, delay: int) -> None:
        self._policy, self._delay = policy, delay
        self.contract, self.path = policy.contract, policy.path

    def reset(self, batch: int = 1) -> None:
        self._policy.reset(batch)
        self._k, self._due = 0, 0
        self._coming: dict[str, Array] = {}
        self._command: dict[str, Array] = {}
        self.late = 0

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        if self._k >= self._due:
            self._command = self._coming
            self._coming, self._due = self._policy.step(inputs), self._k + self._delay
            if not self._delay:
                self._command = self._coming
        self._k += 1
        still = {self.contract.outputs[0].name: np.array(inputs["joint_position"], dtype=float)}
        return self._command or still


class Ahead:
    """A policy that plans ahead, as :class:`rlstack.policies.planning.PlanningPolicy` does."""

    def __init__(self, policy: Policy, delay: int, seconds: float) -> None:
        self._plan, self._act = halves(policy)
        self.contract, self.path = policy.contract, policy.path
        self._delay, self._ahead = delay, steps_ahead(seconds, 1.0 / policy.contract.rate_hz)

    def reset(self, batch: int = 1) -> None:
        self._plan.reset(batch)
        self._act.reset(batch)
        self._queue, self._k = ChunkQueue(self.contract.chunk[0]), 0
        self._made: tuple[int, int, Array] | None = None
        self._batch, self.late = batch, 0

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        self._hand_over()
        if self._made is None and self._queue.left <= self._ahead:
            given = {**inputs, **{STATE_PREFIX + name: value.copy() for name, value in self._act.state.items()}}
            plan = self._plan.step({port.name: given[port.name] for port in self._plan.contract.inputs})[PLAN]
            self._made = (self._k + self._delay, self._queue.taken, np.swapaxes(plan, 0, 1))
            self._hand_over()
        action = self._queue.present
        self._queue.taken += action is not None
        self.late += action is None
        present = np.zeros((self._batch, self.contract.chunk[1])) if action is None else action
        self._k += 1
        given = {**inputs, ACTION: present}
        return self._act.step({port.name: given[port.name] for port in self._act.contract.inputs})

    def _hand_over(self) -> None:
        if self._made is not None and self._k >= self._made[0]:
            self._queue.add(self._made[2], self._made[1])
            self._made = None


@dataclass(frozen=True)
class Options:
    """Success of a policy whose inference is slow."""

    policy: tyro.conf.Positional[Path]
    """A policy file that plans chunks."""
    inference_ms: tuple[float, ...] = (0.0, 50.0, 100.0, 150.0)
    """How long inference takes."""
    trials: int = 100
    """Held-out trials, the same for all."""

    def run(self) -> None:
        """Print the table."""
        policy = load_policy(self.policy)
        robot = load_robot(policy.contract.robot)
        evaluator = Evaluator(trained_task(policy.contract, str(self.policy)), robot, self.trials, 30_000)
        print("| inference | stepped as a whole | planning ahead | steps without a plan |")
        print("| --- | --- | --- | --- |")
        for ms in self.inference_ms:
            delay = math.ceil(1e-3 * ms * policy.contract.rate_hz - 1e-6)
            whole = evaluator.evaluate(Whole(policy, delay)).success
            ahead = Ahead(policy, delay, 1e-3 * ms)
            found = evaluator.evaluate(ahead).success
            share = ahead.late / max(ahead._k, 1)
            print(f"| {ms:g} ms | {100 * whole:.0f}% | {100 * found:.0f}% | {100 * share:.0f}% |", flush=True)


if __name__ == "__main__":
    tyro.cli(Options).run()
