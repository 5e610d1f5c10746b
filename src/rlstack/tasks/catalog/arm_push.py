"""arm_push: push a box over the table to a goal, with the fingers closed."""

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
from rlstack.tasks.manipulator.rewards import ArmReward
from rlstack.tasks.manipulator.task import OBJECT_INPUTS, ArmTask
from rlstack.tasks.manipulator.trials import ArmTrials, ObjectRange, Region, Starts, draw_objects

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term


_HIGH = 0.11
"""m, height of the tool when passing over the box."""
_BOBBING = 0.05
"""m, height of the tool below which it may still be pushing."""


class PushExpert:
    """Move over the box, lower behind it, and push straight to the goal.

    Args:
        tolerance_m: The task's tolerance; the expert pushes to half of it.
        behind_m: Distance from the box's centre to the tool behind it: half a box and half the closed fingers.
        low_m: Height of the tool when pushing.
        funnel_m: Distances from the place behind the box within which the tool goes down, and at which it begins to;
            None: at once, within 12 mm. A policy that is not sure of the place learns a funnel more easily than a step.
        near: Distances from the goal, as shares of the tolerance, at which a push ends, and within which none begins.
        past_m: How far past the goal it aims. A push that slows down at its end teaches a policy to stop early.
        down_m: Height of the tool below which it pushes.
        pace: Share of the full speed at which it pushes. At full speed a push is over within two or three chunks of a
            plan, and where it ends is left to chance.
        touch_m: Distance from the box's centre within which the tool is no longer behind it, less than at which it
            touches the smallest box.
    """

    def __init__(
        self,
        tolerance_m: float,
        behind_m: float = 0.055,
        low_m: float = 0.025,
        funnel_m: tuple[float, float] | None = None,
        near: tuple[float, float] = (0.5, 0.8),
        past_m: float = 0.0,
        down_m: float = _BOBBING,
        pace: float = 1.0,
        touch_m: float = 0.02,
    ) -> None:
        self._tolerance_m, self._behind_m, self._low_m = tolerance_m, behind_m, low_m
        self._funnel_m, self._near, self._past_m, self._down_m = funnel_m, near, past_m, down_m
        self._pace, self._touch_m = pace, touch_m

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
        behind = (along < -self._touch_m) & (np.abs(aside) < 0.02)
        # a push goes on to the middle of the goal, also if the tool bobs, but another one does not begin just beside it
        ends, begins = self._near
        there = distance[:, 0] < np.where(behind & (height < _BOBBING), ends, begins) * self._tolerance_m
        ready = thing - way * self._behind_m
        # on its way down the tool may lag aside, and must not turn back
        over = np.linalg.norm(tool - ready, axis=1) < np.where(height < _HIGH - 0.02, 0.02, 0.012)
        pushing = behind & (height < self._down_m) & ~there
        low = over | pushing
        # target slightly ahead through the box, with a correction against lateral slip
        through = tool + way * np.minimum(0.03, distance + self._past_m) - across * (1.2 * aside)[:, None]
        place = np.where(pushing[:, None], through, ready)
        z = np.where(low & ~there, self._low_m, _HIGH)
        if self._funnel_m is not None:
            inner, outer = self._funnel_m
            share = np.clip((np.linalg.norm(tool - ready, axis=1) - inner) / (outer - inner), 0.0, 1.0)
            z = np.where(pushing, self._low_m, self._low_m + share * (_HIGH - self._low_m))
            z = np.where(there, _HIGH, z)
        rising = height < z - 0.02
        place = np.where((rising | there)[:, None], tool, place)
        closed = -np.ones(len(place))
        pace = np.where(pushing, self._pace, 1.0)
        return toward(seen, pipeline, np.concatenate([place, z[:, None]], axis=1), grip=closed, pace=pace)


@dataclass(frozen=True, kw_only=True)
class PushReward(ArmReward):
    """Weights per second."""

    distance: float = value(-4.0)
    reaching: float = value(-1.0)
    at_goal: float = value(1.0)


@dataclass(frozen=True, kw_only=True)
class PushTask(ArmTask):
    """Push a box over the table to a place, with the fingers closed."""

    tolerance_m: float = value(0.03, unit="m", above=0.0)
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.6), y_m=(-0.2, 0.2), z_m=(0.08, 0.2)))
    goals: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Start region of the box."""
    apart_m: float = value(0.06, unit="m", at_least=0.0)
    """Least distance from the box to its goal."""
    box: ObjectRange = field(default_factory=ObjectRange)
    reward: PushReward = field(default_factory=PushReward)

    inputs = OBJECT_INPUTS
    moved = "object_position"
    on_table = True
    least_joints = 5

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        trials = draw_objects(self.box, self.places, self.goals, self.apart_m, rng, starts)
        trials.goal[:, 2] = trials.half[:, 2]
        return trials

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the box (N, 3) m is at its goal (N, 3) m, seen from above."""
        return np.asarray(np.linalg.norm((achieved - desired)[..., :2], axis=-1) < self.tolerance_m)

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        late = [observations.CloseUp(observations.target_object_offset(), self.step_dm)] if self.past_actions else []
        return [
            *observations.tool_terms(self.workspace.middle),
            *late,
            observations.object_offset(),
            observations.ObjectVelocity(self.rate_hz),
            observations.ObjectYaw(),
            observations.GoalOffset(self.moved),
        ]

    def expert(self) -> PushExpert:
        """Return the scripted expert."""
        return PushExpert(self.tolerance_m)


TASK = PushTask
