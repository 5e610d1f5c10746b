"""Batch environments of tasks without goals, for algorithms that store each step with its outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.tasks.core.batch_environment import BatchEnvironment
from rlstack.tasks.core.learning_environment import GoalEnvironment, GoalStep, LearningEnvironment
from rlstack.training.environment_wrappers import EnvironmentWrapper

_NO_GOALS = "This task has no goals: set hindsight to 0."


class OutcomeEnvironment(EnvironmentWrapper):
    """Steps a :class:`.BatchEnvironment`, and tells what was observed before ended episodes restarted.

    It is a :class:`rlstack.tasks.core.learning_environment.GoalEnvironment` whose goals are empty.

    Args:
        inner: The environment; from now on it restarts no robot by itself.
    """

    def __init__(self, inner: BatchEnvironment) -> None:
        super().__init__(inner)
        inner.autoreset, self.autoreset = False, True

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), and reset the robots whose episode has ended."""
        result, none = self.inner.step(action), self.achieved_goal()
        arrived = result.done & ~result.timed_out & self.inner.arrived()
        after, actor, critic = result.actor.clone(), result.actor, result.critic
        again = result.done.nonzero().squeeze(-1)
        if self.autoreset and len(again):
            before = result.critic.clone()
            self.inner.restart(again)
            ended = result.done.unsqueeze(-1)
            # the others' observations, whose noise is new too, stay those that are stored
            seen, known = self.inner.observe()
            actor, critic = torch.where(ended, seen, after), torch.where(ended, known, before)
        return GoalStep(
            actor=actor,
            critic=critic,
            reward=result.reward.clone(),
            done=result.done,
            timed_out=result.timed_out,
            terms=result.terms,
            next_actor=after,
            achieved=none,
            desired=none,
            success=arrived,
        )

    def achieved_goal(self) -> Tensor:
        """Return (N, 1) zeros."""
        return torch.zeros(self.inner.count, 1)

    def desired_goal(self) -> Tensor:
        """Return (N, 1) zeros."""
        return self.achieved_goal()

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Raise ``UserError``: there are no goals."""
        raise UserError(_NO_GOALS)

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Raise ``UserError``: there are no goals."""
        raise UserError(_NO_GOALS)


def with_outcomes(environment: LearningEnvironment) -> GoalEnvironment | None:
    """Return the environment as one that tells its steps' outcomes; None: it cannot.

    Raises:
        UserError: Its robots are simulated on a GPU.
    """
    if isinstance(environment, GoalEnvironment):
        return environment
    if not isinstance(environment, BatchEnvironment):
        return None
    if environment.device.type != "cpu":
        raise UserError(f"device: {environment.device} is not allowed: stored steps are on the CPU: --device cpu.")
    wrapped: GoalEnvironment = OutcomeEnvironment(environment)
    return wrapped
