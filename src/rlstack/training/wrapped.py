"""An environment that another one stands in front of; everything that is not said otherwise is passed on."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlstack.tasks.core.goals import GoalStep, ScriptedEnvironment
from rlstack.tasks.core.pipeline import TermInfo
from rlstack.tasks.core.rollout import Window


class Wrapped:
    """See :class:`rlstack.tasks.core.goals.ScriptedEnvironment`.

    Args:
        inner: What stands behind.
    """

    def __init__(self, inner: ScriptedEnvironment) -> None:
        self.inner = inner
        self.task: Any = inner.task
        self.pipeline: Any = inner.pipeline
        self.count, self.critic_size = inner.count, inner.critic_size
        self.device, self.generator = inner.device, inner.generator

    def set_progress(self, done: float) -> None:
        """Turn the curriculum to the share ``done`` of the training steps."""
        self.inner.set_progress(done)

    def reset_all(self) -> None:
        """Start every robot anew, spread over the episode so that they do not end together."""
        self.inner.reset_all()

    def restart(self, index: Tensor) -> None:
        """Start the robots at ``index`` anew."""
        self.inner.restart(index)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations."""
        return self.inner.observe()

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions)."""
        return self.inner.step(action)

    def achieved_goal(self) -> Tensor:
        """Return (N, goal) what is achieved now."""
        return self.inner.achieved_goal()

    def desired_goal(self) -> Tensor:
        """Return (N, goal) what is to be achieved."""
        return self.inner.desired_goal()

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the reward (n,) of steps that led to ``achieved`` (n, goal) if the goal was ``desired``."""
        return self.inner.reward_of(achieved, desired)

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (n, columns) as they would be with the goal ``desired``."""
        return self.inner.relabelled(observation, achieved, desired)

    def expert_action(self) -> Tensor:
        """Return what the expert would do now, (N, actions)."""
        return self.inner.expert_action()

    def window(self, steps: int, steepest: float) -> Window:
        """Return the task's window."""
        return self.inner.window(steps, steepest)

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: whose episode is over, of those that are not ``lost``."""
        return self.inner.ended(lost)

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return self.inner.critic_table()

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return self.inner.term_names()

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs."""
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self.inner.load_state_dict(state)
