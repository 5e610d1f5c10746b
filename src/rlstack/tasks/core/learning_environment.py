"""Interfaces between learning algorithms and vectorised tasks, with or without goals, for any kind of robot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from rlstack.tasks.core.pipeline import Pipeline, TermInfo

if TYPE_CHECKING:
    from rlstack.tasks.core.rollout import DifferentiableRollout


@dataclass(frozen=True)
class StepResult:
    """Result of one step; observations are of the states after automatic resets.

    The environment overwrites the float arrays in the step after the next: copy what must last longer.
    """

    actor: Tensor  # (N, pipeline.size)
    critic: Tensor  # (N, critic_size)
    reward: Tensor  # (N,)
    done: Tensor  # (N,) bool
    timed_out: Tensor  # (N,) bool: ended by time, not lost
    terms: dict[str, Tensor]  # weighted reward terms, (N,) each


class LearningEnvironment(Protocol):
    """N copies of a task, made by ``task.environment(robot, pipeline, count, device, seed)``.

    An algorithm that learns from samples calls :meth:`step`, which resets robots by itself. One that differentiates
    through the simulator uses :meth:`rollout`, and calls :meth:`restart` between rollouts.
    """

    task: Any
    """Its configuration; ``task.rate_hz`` is the control rate."""
    pipeline: Pipeline
    """Makes the actor's observation."""
    count: int
    """N."""
    critic_size: int
    """Columns of the critic's observation: the actor's, then the privileged ones."""
    device: torch.device
    generator: torch.Generator
    autoreset: bool
    """Whether :meth:`step` resets the robots whose episode has ended; True by default."""

    def seed(self, seed: int) -> None:
        """Reseed every generator; after :meth:`restart` of all robots, the same seed gives the same episodes."""

    def set_progress(self, done: float) -> None:
        """Set the curriculum to the share ``done`` of the training steps."""

    def reset_all(self) -> None:
        """Reset every robot, staggered over the episode so that they do not end together."""

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``."""

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present."""

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""

    def rollout(self, steps: int, steepest: float) -> DifferentiableRollout:
        """Return a rollout over the robots, for tasks whose simulator has gradients."""

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order, ``lost`` last."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""


@dataclass(frozen=True)
class GoalStep(StepResult):
    """Result of one step, with the values that off-policy and hindsight learning store."""

    next_actor: Tensor  # (N, columns) observation of the states that the actions led to, before restarts
    achieved: Tensor  # (N, goal) achieved in those states
    desired: Tensor  # (N, goal) that the reward was computed for
    success: Tensor  # (N,) bool: whether the task has been done for long enough


def failed(result: StepResult) -> Tensor:
    """Return (N,) bool: robots whose episode ended before its time limit without success."""
    ended = result.done & ~result.timed_out
    return ended & ~result.success if isinstance(result, GoalStep) else ended


@runtime_checkable
class GoalEnvironment(LearningEnvironment, Protocol):
    """N copies of a task with goals."""

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""

    def achieved_goal(self) -> Tensor:
        """Return the achieved goals (N, goal)."""

    def desired_goal(self) -> Tensor:
        """Return the desired goals (N, goal)."""

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward (n,) of steps that led to ``achieved`` (n, goal), for the goal ``desired``."""

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (n, columns) of the states with ``achieved``, relabelled for the goal ``desired``."""


@runtime_checkable
class ScriptedEnvironment(GoalEnvironment, Protocol):
    """N copies of a task that has a scripted expert."""

    def expert_action(self) -> Tensor:
        """Return the expert's actions (N, actions)."""
