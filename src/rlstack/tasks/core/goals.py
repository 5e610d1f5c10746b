"""What a task offers whose steps can be learned from later, and be judged by goals that were not asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from rlstack.tasks.core.interface import LearningEnvironment, StepResult


@dataclass(frozen=True)
class GoalStep(StepResult):
    """What one step gave, with what learning from it later needs."""

    next_actor: Tensor  # (N, columns) observation of the states that the actions led to, before restarts
    achieved: Tensor  # (N, goal) in them
    desired: Tensor  # (N, goal) that the step was judged by
    success: Tensor  # (N,) bool: whether the task is done, by now for long enough


def failed(result: StepResult) -> Tensor:
    """Return (N,) bool: whose episode a step ended for good, without the task being done."""
    ended = result.done & ~result.timed_out
    return ended & ~result.success if isinstance(result, GoalStep) else ended


@runtime_checkable
class GoalEnvironment(LearningEnvironment, Protocol):
    """N copies of such a task."""

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""

    def achieved_goal(self) -> Tensor:
        """Return (N, goal) what is achieved now."""

    def desired_goal(self) -> Tensor:
        """Return (N, goal) what is to be achieved."""

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward (n,) of steps that led to ``achieved`` (n, goal) if the goal was ``desired``."""

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (n, columns), made when ``achieved`` was, as they would be with the goal ``desired``."""


@runtime_checkable
class ScriptedEnvironment(GoalEnvironment, Protocol):
    """N copies of a task that has a scripted expert."""

    def expert_action(self) -> Tensor:
        """Return what the expert would do now, (N, actions)."""
