"""arm_pick_place: pick up a box from the table and hold it at a goal above the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import toward
from rlstack.tasks.manipulator.grasp import grasp
from rlstack.tasks.manipulator.rewards import RewardTerm, weighted
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import ObjectRange, Region, Starts, Trials, draw_objects

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term


_LIFT_M = 0.01
"""Least height of a goal above the tolerance around a box that lies under it."""


class PickExpert:
    """Move above the box and align with it; lower; close; and move straight to the goal.

    Args:
        half_m: Half length of the largest boxes.
    """

    def __init__(self, half_m: float) -> None:
        self._half_m = half_m

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        hold = grasp(seen, pipeline, self._half_m)
        carried = seen["goal_position"] + (seen["tool_position"] - seen["object_position"])
        place = np.where(hold.held[:, None], carried, hold.place)
        return toward(seen, pipeline, place, turn=hold.turn, grip=hold.grip)


@dataclass(frozen=True, kw_only=True)
class PickReward:
    """Weights per second, for ``rewards: dense``."""

    reaching: float = value(-1.0)
    """Distance from the tool to the box, m."""
    held: float = value(0.3)
    """1 while the fingers hold the box."""
    lifted: float = value(0.5)
    """Height of the held box above the table, as a share of 4 cm."""
    distance: float = value(-2.0)
    """Distance from the box to its goal, m."""
    at_goal: float = value(2.0)
    """1 while the task is done."""


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

    inputs: ClassVar[tuple[str, ...]] = (
        "joint_position",
        "joint_velocity",
        "object_position",
        "object_orientation",
        "goal_position",
    )
    moved = "object_position"
    least_joints = 5
    axes = ("x", "y", "z", "yaw", "gripper")
    start_opening = 1.0

    @property
    def objects(self) -> ObjectRange:
        """Return the distribution of boxes."""
        return self.box

    def place(self, rng: np.random.Generator, starts: Starts) -> Trials:
        """Draw trials for N arms at their starts."""
        trials = draw_objects(self.box, self.places, self.goals, 0.0, rng, starts)
        # some goals of a small arm would be achieved by a box that lies below them
        least = np.minimum(trials.half[:, 2] + self.tolerance_m + _LIFT_M, self.goals.z_m[1])
        trials.goal[:, 2] = np.maximum(trials.goal[:, 2], least)
        return trials

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import terms

        return terms.taking(self.workspace.middle, self.rate_hz, terms.GoalOffset(self.moved))

    def dense(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the reward."""
        return weighted(self.reward, lifted=lambda s: s.held.astype(float) * np.clip(s.lifted / 0.04, 0.0, 1.0))

    def expert(self) -> PickExpert:
        """Return the scripted expert."""
        return PickExpert(self.box.half_m[1])


TASK = PickPlaceTask
