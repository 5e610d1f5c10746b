"""arm_push: push a box over the table to a place, with the fingers closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import toward
from rlstack.tasks.manipulator.rewards import RewardTerm, weighted
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import ObjectRange, Region, Starts, Trials, draw_objects

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term


_LOW, _HIGH = 0.025, 0.11
"""m: heights of the tool that pushes, and that passes over the box."""
_BEHIND = 0.055
"""m from the box's middle to the tool behind it: half of a box, and of the closed fingers."""


class PushExpert:
    """Over the box, down behind it, and straight on to the goal.

    Args:
        tolerance_m: It stops at half of that.
    """

    def __init__(self, tolerance_m: float) -> None:
        self._tolerance_m = tolerance_m

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        thing, goal, tool = (seen[n][:, :2] for n in ("object_position", "goal_position", "tool_position"))
        height = seen["tool_position"][:, 2]
        left = goal - thing
        distance = np.linalg.norm(left, axis=1, keepdims=True)
        way = left / np.maximum(distance, 1e-6)
        across = np.stack([-way[:, 1], way[:, 0]], axis=1)
        away = tool - thing
        along, aside = (away * way).sum(axis=1), (away * across).sum(axis=1)
        behind = (along < -0.02) & (np.abs(aside) < 0.02)
        there = distance[:, 0] < 0.5 * self._tolerance_m
        ready = thing - way * _BEHIND
        over = np.linalg.norm(tool - ready, axis=1) < 0.012
        pushing = behind & (height < 0.05) & ~there
        low = over | pushing
        # on through the box, a little at a time, and against what it slips to the side
        through = tool + way * np.minimum(0.03, distance) - across * (1.2 * aside)[:, None]
        place = np.where(pushing[:, None], through, ready)
        rising = ~low & (height < _HIGH - 0.02)
        place = np.where((rising | there)[:, None], tool, place)
        z = np.where(low & ~there, _LOW, _HIGH)
        return toward(seen, pipeline, np.concatenate([place, z[:, None]], axis=1))


@dataclass(frozen=True, kw_only=True)
class PushReward:
    """Weights, rates a second; they are for ``rewards: dense``."""

    distance: float = value(-4.0)
    """m from the box to its goal."""
    reaching: float = value(-1.0)
    """m from the tool to the box."""
    at_goal: float = value(1.0)
    """Where it is done."""


@dataclass(frozen=True, kw_only=True)
class PushTask(ArmTask):
    """Push a box over the table to a place, with the fingers closed."""

    tolerance_m: float = value(0.03, unit="m", above=0.0)
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.6), y_m=(-0.2, 0.2), z_m=(0.08, 0.2)))
    goals: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Where the box is at the start."""
    apart_m: float = value(0.06, unit="m", at_least=0.0)
    """The goal is at least so far from the box."""
    box: ObjectRange = field(default_factory=ObjectRange)
    reward: PushReward = field(default_factory=PushReward)

    inputs = ("joint_position", "joint_velocity", "object_position", "object_orientation", "goal_position")
    moved = "object_position"
    on_table = True
    least_joints = 5

    @property
    def objects(self) -> ObjectRange:
        """Return what boxes are drawn from."""
        return self.box

    def place(self, rng: np.random.Generator, starts: Starts) -> Trials:
        """Draw what episodes are about, for arms that start at N places."""
        trials = draw_objects(self.box, self.places, self.goals, self.apart_m, rng, starts)
        trials.goal[:, 2] = trials.half[:, 2]
        return trials

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the box (N, 3) m is at its goal (N, 3) m, seen from above."""
        return np.asarray(np.linalg.norm((achieved - desired)[..., :2], axis=-1) < self.tolerance_m)

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import terms

        return [
            terms.ToolPosition(self.workspace.middle),
            terms.ToolVelocity(),
            terms.Lead(),
            terms.ObjectOffset(),
            terms.ObjectVelocity(self.rate_hz),
            terms.ObjectYaw(),
            terms.GoalOffset(self.moved),
        ]

    def dense(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the reward."""
        return weighted(self.reward)

    def expert(self) -> PushExpert:
        """Return a script that does it."""
        return PushExpert(self.tolerance_m)


TASK = PushTask
