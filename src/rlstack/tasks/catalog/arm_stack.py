"""arm_stack: put a box on top of another one, release it and retreat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import grasp, grasp_by_degrees, hangs, share_between, toward
from rlstack.tasks.manipulator.rewards import CLEAR_M, ArmReward, placed
from rlstack.tasks.manipulator.task import OBJECT_INPUTS, ArmTask
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials, ObjectRange, Region, Starts, box_of, draw_objects

if TYPE_CHECKING:
    from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.pipeline import Term


LOWER = "lower"
"""Name of the lower box in the scene."""
_LOWER_COLOUR = (0.25, 0.45, 0.8)
_UPRIGHT_M = 0.006
"""Height error beyond which a box is not on the other, but above or beside it, or tipped."""
_OVER, _CLOSE, _SLOWLY, _PRESSED = 0.04, 0.004, 0.006, 0.004
"""m: approach height above the placed position, horizontal tolerance to descend, descent per step, and the target's
final depth below the placed position."""
_LEVEL = (0.01, 0.024)
"""m from the place, horizontally: up to the first a box that comes down by degrees does so for good, from the second on
it is as high as ever. Whoever sees the place knows it to 6 mm, and would wait above it for ever if these were less."""
_LEAVES, _LEFT = (0.01, 0.0145), (0.012, 0.016)
"""m from the place, horizontally, within which a held box is let go of, and within which one stays that was: of hands
that come down at once, and by degrees."""


def stacked(achieved: Array, desired: Array, tolerance_m: float) -> NDArray[np.bool_]:
    """Return (...) whether boxes (..., 3) m stand on others, where they should (..., 3) m, and not above or beside."""
    off = achieved - desired
    level = np.linalg.norm(off[..., :2], axis=-1) < tolerance_m
    return np.asarray(level & (np.abs(off[..., 2]) < _UPRIGHT_M))


class StackExpert:
    """Grasp the upper box; lift; move over the lower one; lower; open; and retreat straight up.

    Args:
        half_m: Half length of the largest boxes.
        by_degrees: Whether hands and boxes come down the nearer they are, as by
            :func:`rlstack.tasks.manipulator.expert.grasp_by_degrees`.
    """

    def __init__(self, half_m: float, by_degrees: bool = False) -> None:
        self._half_m, self._by_degrees = half_m, by_degrees
        self._grasp = grasp_by_degrees if by_degrees else grasp

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        thing, goal, tool = (seen[n] for n in ("object_position", "goal_position", "tool_position"))
        hold = self._grasp(seen, pipeline, self._half_m)
        if self._by_degrees:
            hung = hangs(seen, self._half_m)
            hold = replace(hold, held=hold.held | hung, grip=np.where(hung, -1.0, hold.grip))
        left = goal - thing
        level, height = np.linalg.norm(left[:, :2], axis=1), -left[:, 2]
        there = (level < np.where(hold.held, *(_LEFT if self._by_degrees else _LEAVES))) & (np.abs(height) < 0.005)
        # up beside the lower box, across above it, and slowly down once above the placed position
        held_at, target = tool - thing, seen["target_position"]
        high = height > 0.6 * _OVER
        place = np.where((high | (level < 0.02))[:, None], goal, thing) + held_at
        above = goal[:, 2] + _OVER + held_at[:, 2]
        # use the box's target position, not the measured one: the arm oscillates
        begun = (target[:, 2] < above - 0.003) & (level < 0.012) & (height < 1.2 * _OVER)
        still = np.linalg.norm(seen["tool_velocity"], axis=1) < 0.03
        down = begun | ((level < _CLOSE) & still & high)
        lowest = goal[:, 2] + held_at[:, 2] - _PRESSED
        if self._by_degrees:
            over = goal[:, 2] + held_at[:, 2] + _OVER * share_between(level, *_LEVEL)
            place[:, 2] = np.maximum(np.maximum(target[:, 2] - 2.0 * _SLOWLY, over), lowest)
            place[:, 2] = np.where(level < _LEVEL[0], np.maximum(target[:, 2] - _SLOWLY, lowest), place[:, 2])
            rise = share_between(over - _PRESSED - tool[:, 2], 0.0, 0.5 * _OVER)[:, None]  # up before across
            place[:, :2] = (goal + held_at + rise * (thing - goal))[:, :2]
        else:
            place[:, 2] = np.where(down, np.maximum(target[:, 2] - _SLOWLY, lowest), above)
        place = np.where(hold.held[:, None], place, hold.place)
        up = tool.copy()
        up[:, 2] = goal[:, 2] + CLEAR_M + 0.03
        free = seen["opening"][:, 0] > 0.85
        place = np.where(there[:, None], np.where(free[:, None], up, seen["target_position"]), place)
        grip, turn = np.where(there, 1.0, hold.grip), np.where(there, 0.0, hold.turn)
        return toward(seen, pipeline, place, turn=turn, grip=grip)


@dataclass(frozen=True, kw_only=True)
class StackReward(ArmReward):
    """Weights per second."""

    reaching: float = value(-1.0)
    held: float = value(0.3)
    lifted: float = value(0.5)
    distance: float = value(-4.0)
    at_goal: float = value(4.0)


@dataclass(frozen=True, kw_only=True)
class StackTask(ArmTask):
    """Put a box on top of another one, let go of it and draw back."""

    episode_s: float = value(8.0, unit="s", above=0.0)
    tolerance_m: float = value(0.015, unit="m", above=0.0)
    apart_m: float = value(0.1, unit="m", at_least=0.0)
    """Least start distance between the boxes' centres."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.38, 0.58), y_m=(-0.15, 0.15), z_m=(0.15, 0.25)))
    goals: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Region of the lower box; the goal is on top of it."""
    places: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Start region of the upper box."""
    box: ObjectRange = field(default_factory=ObjectRange)
    """Distribution of the boxes, which are equal."""
    reward: StackReward = field(default_factory=StackReward)

    inputs = OBJECT_INPUTS
    moved = "placed_position"
    on_table = True
    least_joints = 5
    axes = ("x", "y", "z", "yaw", "gripper")
    start_opening = 1.0

    def build(self, spec: Any) -> None:
        """Add both boxes to the scene."""
        from rlstack.sim.arms.scene import Block

        Block().add(spec)
        Block(name=LOWER, rgba=(*_LOWER_COLOUR, 1.0)).add(spec)

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        """Return the lower box."""
        below = trials.goal[number] - np.array([0.0, 0.0, 2.0]) * trials.half[number]
        return (box_of(trials, number, LOWER, below, -float(trials.yaw[number]), _LOWER_COLOUR),)

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        trials = draw_objects(self.box, self.places, self.goals, self.apart_m, rng, starts)
        trials.goal[:, 2] = 3.0 * trials.half[:, 2]
        return trials

    def vary_objects(
        self, worlds: MujocoSimulator, index: NDArray[np.intp], goal: Array, half: Array, mass: Array, friction: Array
    ) -> None:
        """Set both boxes' size, mass and friction."""
        for name in (OBJECT, LOWER):
            worlds.vary(index, name, half, mass, friction)

    def place_objects(self, worlds: MujocoSimulator, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Place both boxes at their starts, the lower one with the opposite yaw."""
        super().place_objects(worlds, index, trials)
        below = trials.goal - np.array([0.0, 0.0, 2.0]) * trials.half
        worlds.place(index, LOWER, below, trials.orientation * np.array([1.0, 1.0, -1.0, 1.0]))

    def achieved(self, tool: Array, thing: Array) -> Array:
        """Return the achieved goal (N, 3) m; see :func:`rlstack.tasks.manipulator.rewards.placed`."""
        return np.asarray(placed(tool, thing))

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the achieved goal (N, 3) m is at the desired one (N, 3) m, within 6 mm in height."""
        return stacked(achieved, desired, self.tolerance_m)

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        return observations.grasp_terms(self.workspace.middle, self.rate_hz, observations.PlacedOffset(self.moved))

    def expert(self) -> StackExpert:
        """Return the scripted expert."""
        return StackExpert(self.box.half_m[1])


TASK = StackTask
