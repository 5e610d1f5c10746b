"""arm_pick_place: pick up a box from the table and hold it at a goal above the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import GraspExpert
from rlstack.tasks.manipulator.rewards import ArmReward, RewardTerm, weighted
from rlstack.tasks.manipulator.task import OBJECT_INPUTS, ArmTask
from rlstack.tasks.manipulator.trials import ArmTrials, ObjectRange, Region, Starts, draw_objects

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term


_LIFT_M = 0.01
"""Least height of a goal above the tolerance around a box that lies under it."""


@dataclass(frozen=True, kw_only=True)
class PickReward(ArmReward):
    """Weights per second."""

    reaching: float = value(-1.0)
    held: float = value(0.3)
    lifted: float = value(0.5)
    distance: float = value(-2.0)
    at_goal: float = value(2.0)


@dataclass(frozen=True, kw_only=True)
class PickPlaceTask(ArmTask):
    """Take a box from the table and hold it at a place above it."""

    tolerance_m: float = value(0.025, unit="m", above=0.0)
    starts: Region = field(default_factory=lambda: Region(x_m=(0.38, 0.58), y_m=(-0.15, 0.15), z_m=(0.1, 0.25)))
    goals: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2), z_m=(0.06, 0.25)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Start region of the box."""
    box: ObjectRange = field(default_factory=ObjectRange)
    reward: PickReward = field(default_factory=PickReward)

    inputs: ClassVar[tuple[str, ...]] = OBJECT_INPUTS
    moved = "object_position"
    least_joints = 5
    axes = ("x", "y", "z", "yaw", "gripper")
    start_opening = 1.0

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        trials = draw_objects(self.box, self.places, self.goals, 0.0, rng, starts)
        # some goals of a small arm would be achieved by a box that lies below them
        least = np.minimum(trials.half[:, 2] + self.tolerance_m + _LIFT_M, self.goals.z_m[1])
        trials.goal[:, 2] = np.maximum(trials.goal[:, 2], least)
        return trials

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        goal = observations.GoalOffset(self.moved)
        terms = observations.grasp_terms(self.workspace.middle, self.rate_hz, goal)
        if self.past_actions:
            further = observations.TargetGoalOffset(self.moved), observations.target_object_offset()
            terms += [observations.CloseUp(term, self.step_dm) for term in further]
        return terms

    def dense(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the reward."""
        return weighted(self.reward, lifted=lambda s: s.held.astype(float) * np.clip(s.lifted / 0.04, 0.0, 1.0))

    def expert(self) -> GraspExpert:
        """Return the scripted expert."""
        return GraspExpert(self.box.half_m[1])


TASK = PickPlaceTask
