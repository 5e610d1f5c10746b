"""What a learning algorithm needs of a task: N copies of it, whatever kind of robot they are; and goals, if any."""

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
    """What one step gave; observations belong to the states after automatic resets.

    The environment writes into the arrays of floats again in the step after the next: copy what must last longer.
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
    through the simulator goes through a :meth:`rollout`, and calls :meth:`restart` between rollouts.
    """

    task: Any
    """Its configuration; ``task.rate_hz`` is the control rate."""
    pipeline: Pipeline
    """Makes the actor's observation."""
    count: int
    """N."""
    critic_size: int
    """Columns of the critic's observation: the actor's, then what the actor cannot see."""
    device: torch.device
    generator: torch.Generator
    autoreset: bool
    """Whether :meth:`step` restarts the robots whose episode has ended; True unless it is set otherwise."""

    def seed(self, seed: int) -> None:
        """Seed every generator anew; after :meth:`restart` of all robots, the same seed gives the same episodes."""

    def set_progress(self, done: float) -> None:
        """Turn the curriculum to the share ``done`` of the training steps."""

    def reset_all(self) -> None:
        """Start every robot anew, spread over the episode so that they do not end together."""

    def restart(self, index: Tensor) -> None:
        """Start the robots at ``index`` anew."""

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present."""

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""

    def rollout(self, steps: int, steepest: float) -> DifferentiableRollout:
        """Return a rollout over the robots, for tasks whose simulator has gradients."""

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: whose episode is over, of those that are not ``lost``."""

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order, ``lost`` last."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""


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
