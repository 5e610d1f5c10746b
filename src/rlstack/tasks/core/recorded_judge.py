"""The rewards of steps that were taken elsewhere: by a recorded robot, in surroundings that are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rlstack.tasks.core.step import FusedStep

Signals = Mapping[str, Tensor]
"""By name (moments, width), SI, as a policy senses them."""


@dataclass(frozen=True)
class Judgement:
    """What N recorded steps were worth.

    Args:
        reward: (N,).
        lost: (N,) bool: the step ended so that the task is lost, as by a collision.
        arrived: (N,) bool: it completed the task.
    """

    reward: Tensor
    lost: Tensor
    arrived: Tensor


class RecordedJudge(ABC):
    """Judges the steps between successive moments of a recording by the reward that training has.

    Args:
        step: The task's step; its reward is evaluated, its dynamics are not.
    """

    motion: tuple[str, ...] = ("position", "orientation", "linear_velocity", "angular_velocity")
    """Signals from which the states follow, besides what the policy senses."""

    def __init__(self, step: FusedStep) -> None:
        self.step = step

    @abstractmethod
    def states(self, signals: Signals, period_s: float) -> Tensor:
        """Return the state rows (rows, moments) of moments that are ``period_s`` apart."""

    @abstractmethod
    def surroundings(self, states: Tensor, signals: Signals) -> dict[str, Tensor]:
        """Return those of the step's inputs (rows, N) that its reward reads, besides state and memory."""

    def arrived(self, states: Tensor, signals: Signals) -> Tensor:
        """Return (N,) bool: robots that have completed the task; none by default."""
        return torch.zeros(states.shape[1], dtype=torch.bool)

    def __call__(self, signals: Signals, memory: list[dict[str, Tensor]], action: Tensor, period_s: float) -> Judgement:
        """Judge N steps.

        Args:
            signals: Of N + 1 moments.
            memory: The pipeline's memory at each of them, and ``last_action``, with a batch of 1.
            action: (N, actions).
            period_s: Time between two moments, s.
        """
        count, step = len(action), self.step
        states = self.states(signals, period_s)
        before = {name: values[:-1] for name, values in signals.items()}
        after = {name: values[1:] for name, values in signals.items()}
        remembered = torch.cat(
            [torch.cat([moment[name].reshape(-1, 1) for name in step.memory]) for moment in memory], dim=1
        )
        now, then = states[:, :-1].contiguous(), states[:, 1:].contiguous()
        arrays = {name: torch.zeros(rows, count) for name, rows in step.judge.inputs.items()}
        arrays |= {"state": now, "next_state": then, "action": action.T.contiguous(), **self.surroundings(now, before)}
        arrays |= {"memory": remembered[:, :-1].contiguous(), "next_memory": remembered[:, 1:].contiguous()}
        made = {name: torch.zeros(rows, count) for name, rows in step.judge.outputs.items()}
        step.judge({**arrays, **made})
        return Judgement(made["reward"][0], made["lost"][0].bool(), self.arrived(then, after))
