"""arm_reach: move the tool to a point and stay there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import toward
from rlstack.tasks.manipulator.rewards import ArmReward, RewardTerm, weighted
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import Region

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term


class ReachExpert:
    """Move straight to the goal."""

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        return toward(seen, pipeline, seen["goal_position"])


@dataclass(frozen=True, kw_only=True)
class ReachReward(ArmReward):
    """Weights per second."""

    distance: float = value(-4.0)
    at_goal: float = value(1.0)
    action_change: float = value(-0.05)


@dataclass(frozen=True, kw_only=True)
class ReachTask(ArmTask):
    """Bring the tool to a point and stay there."""

    episode_s: float = value(3.0, unit="s", above=0.0)
    ends: bool = False
    starts: Region = field(default_factory=lambda: Region(x_m=(0.3, 0.65), y_m=(-0.3, 0.3), z_m=(0.1, 0.45)))
    goals: Region = field(default_factory=lambda: Region(x_m=(0.3, 0.65), y_m=(-0.3, 0.3), z_m=(0.05, 0.5)))
    reward: ReachReward = field(default_factory=ReachReward)

    least_joints = 5

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        tool, goal = observations.tool_terms(self.workspace.middle), observations.GoalOffset(self.moved)
        if not self.past_actions:
            return [*tool, goal]
        left = observations.TargetGoalOffset(self.moved)
        return [*tool, *(observations.CloseUp(one, self.step_dm) for one in (goal, left))]

    def dense(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the reward."""
        return weighted(self.reward, at_goal=lambda s: np.exp(-s.distance / 0.01))

    def expert(self) -> ReachExpert:
        """Return the scripted expert."""
        return ReachExpert()


TASK = ReachTask
