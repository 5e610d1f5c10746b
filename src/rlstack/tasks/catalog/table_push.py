"""table_push: push the block that a sentence names, in the direction that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.tasks.catalog.arm_push import PushExpert, PushReward
from rlstack.tasks.core.phrases import Templates, Thing
from rlstack.tasks.core.scatter import scatter
from rlstack.tasks.manipulator.table_task import TableTask
from rlstack.tasks.manipulator.table_trials import from_segment

WAYS = {"left": (0.0, 1.0), "right": (0.0, -1.0), "away": (1.0, 0.0), "back": (-1.0, 0.0)}
"""Directions as the arm sees them: x and y in ``base_link``."""

_CORNER = 1.75
"""Distance from a tile's centre to its side, turned as blocks may be, as a multiple of a cube's half length."""
_FINGERS_M, _HAND_M = 0.028, 0.048
"""m beyond that: to the tool behind a block, and to another block's centre beside the hand's way."""
_FUNNEL = (0.29, 0.57)
"""Distances from the tool's place behind a block where it is down, and where it begins to go down, as shares of that
place's distance from the block."""
_LOW, _DOWN = 0.1, 0.6
"""Height of a push above the lowest of the workspace, and further height from which it may begin, as multiples of a
cube's half length: late commands carry a tool that is higher over a tile."""
_NEAR, _PAST_M = (0.1, 0.7), 0.01
"""Where a push ends, and within which none begins, as shares of the tolerance; and how far past the goal it aims. A
policy that sees is not sure of the goal, and ends a push earlier than the expert."""
_PACE, _TOUCH = 0.3, 0.2
"""Share of the full speed at which it pushes; and distance from a block's centre within which the tool is no longer
behind it, as a share of that of the place behind it."""


PUSH = Templates(
    train=(
        "push {thing} {way}",
        "move {thing} {way}",
        "slide {thing} {way}",
        "push {thing} a bit {way}",
        "{thing} should go {way}",
    ),
    held_out=(
        "please push {thing} {way}",
        "{way}, push {thing}",
        "shove {thing} {way}",
        "i want {thing} to move {way}",
        "take {thing} and push it {way} now",
    ),
    words={
        "way": {
            "left": (("left", "to the left"), ("over to the left", "left a little")),
            "right": (("right", "to the right"), ("over to the right", "right a little")),
            "away": (("away", "forward"), ("far away", "away from you")),
            "back": (("back", "backward"), ("back a little", "back again")),
        }
    },
)


@dataclass(frozen=True)
class PushRoom:
    """Room that pushes of the first blocks need.

    Args:
        way: (N, 3) directions.
        push_m: Distance of the pushes.
        beyond_m: Distance that they may go further.
        behind_m: Distance from a block's centre to the tool behind it.
        beside_m: Least distance of another block's centre from the way of tool and block.
        low, high: (2,) m, corners of the tool's workspace.
    """

    way: Array
    push_m: float
    beyond_m: float
    behind_m: float
    beside_m: float
    low: Array
    high: Array

    @classmethod
    def of(cls, task: TableTask, ways: Sequence[str], push_m: float) -> PushRoom:
        """Return the room for pushes in N directions of :data:`WAYS`."""
        low, high = (np.array(corner)[:2] for corner in task.workspace.corners)
        way = np.array([(*WAYS[name], 0.0) for name in ways]).reshape(len(ways), 3)
        corner = _CORNER * task.block.half_m[1]
        return cls(way, push_m, task.tolerance_m, behind(task), corner + _HAND_M, low, high)

    def allowed(self, index: NDArray[np.intp], tried: Array) -> NDArray[np.bool_]:
        """Return (n,) whether blocks (n, M, 3) m leave it, in the trials at indices (n,)."""
        first, along = tried[:, 0], self.way[index]
        last = first + (self.push_m + self.beyond_m) * along
        room = from_segment(tried[:, 1:], first - self.behind_m * along, last) >= self.beside_m
        ends = np.stack([first - (self.behind_m + 0.01) * along, last], axis=1)[..., :2]
        return np.asarray(room.all(axis=1) & ((ends > self.low) & (ends < self.high)).all(axis=(1, 2)))


def behind(task: TableTask) -> float:
    """Return the distance from a block's centre to the tool behind it, m."""
    return _CORNER * task.block.half_m[1] + _FINGERS_M


def push_expert(task: TableTask) -> PushExpert:
    """Return a task's scripted expert of pushes, which goes down by degrees."""
    half_m = task.block.half_m[1]
    low_m, far_m = task.workspace.z_m[0] + _LOW * half_m, behind(task)
    funnel_m = (_FUNNEL[0] * far_m, _FUNNEL[1] * far_m)
    down_m, touch_m = low_m + _DOWN * half_m, _TOUCH * far_m
    return PushExpert(task.tolerance_m, far_m, low_m, funnel_m, _NEAR, _PAST_M, down_m, _PACE, touch_m)


@dataclass(frozen=True, kw_only=True)
class TablePushTask(TableTask):
    """Push the named block over the table in the named direction, with the fingers closed."""

    tolerance_m: float = value(0.03, unit="m", above=0.0)
    push_m: float = value(0.065, unit="m", above=0.0)
    """Distance from a block to its goal."""
    reward: PushReward = field(default_factory=PushReward)

    axes = ("x", "y", "z")
    templates = PUSH
    hand = True
    down_m = 0.04
    lengths = (*TableTask.lengths, "push_m")

    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[str, str, str]:
        """Return the direction, a sentence for it and the first block, and one for another direction and block."""
        way, other = rng.choice(list(WAYS), 2, replace=False).tolist()
        which = int(rng.integers(1, len(blocks)))
        said = self.describe(rng, blocks, 0), self.describe(rng, blocks, which)
        normal, swapped = (
            self.templates.sentence(rng, self.words, {"thing": thing}, {"way": asked})
            for thing, asked in zip(said, (way, other))
        )
        return way, normal, swapped

    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the blocks' positions (N, M, 3) m and the goals (N, 3) m, with room on the pushed block's way."""
        count, blocks = half.shape[:2]
        room = PushRoom.of(self, asked, self.push_m)
        position = scatter(
            lambda index: self.places.draw(rng, len(index) * blocks).reshape(-1, blocks, 3),
            room.allowed,
            count,
            self.apart_m,
        )
        position[..., 2] = half[..., 2]
        return position, position[:, 0] + self.push_m * room.way

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the block (N, 3) m is at its goal (N, 3) m, seen from above."""
        return np.asarray(np.linalg.norm((achieved - desired)[..., :2], axis=-1) < self.tolerance_m)

    def expert(self) -> PushExpert:
        """Return the scripted expert."""
        return push_expert(self)


TASK = TablePushTask
