"""table_stack: put the block that a sentence names on another one, release it and retreat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.tasks.catalog.arm_stack import StackExpert, StackReward, stacked
from rlstack.tasks.core.phrases import Templates, Thing
from rlstack.tasks.manipulator.rewards import placed
from rlstack.tasks.manipulator.table_task import TableTask

STACK = Templates(
    train=("put {thing} on {other}", "stack {thing} on {other}", "place {thing} on top of {other}"),
    held_out=("please put {thing} on top of {other}", "set {thing} on {other}", "take {thing} and put it on {other}"),
    words={},
)


@dataclass(frozen=True, kw_only=True)
class TableStackTask(TableTask):
    """Put the named block on the other named one, let go of it and draw back."""

    episode_s: float = value(7.0, unit="s", above=0.0)
    tolerance_m: float = value(0.018, unit="m", above=0.0)
    reward: StackReward = field(default_factory=StackReward)

    axes = ("x", "y", "z", "yaw", "gripper")
    least_joints = 6
    start_opening = 1.0
    moved = "placed_position"
    templates = STACK
    named = 2
    guessed = 0.2

    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[None, str, str]:
        """Return a sentence for the first block on the second one, and one for other blocks."""
        first, second = rng.permutation(len(blocks))[:2].tolist()
        if (first, second) == (0, 1):
            first, second = 1, 0
        normal, other = (stack_sentence(self, rng, blocks, *pair) for pair in ((0, 1), (first, second)))
        return None, normal, other

    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the blocks' positions (N, M, 3) m, and the goals (N, 3) m on the second ones."""
        position = self.scattered(rng, half)
        return position, on_top(position, half)

    def achieved(self, tool: Array, thing: Array) -> Array:
        """Return the achieved goal (N, 3) m; see :func:`rlstack.tasks.manipulator.rewards.placed`."""
        return np.asarray(placed(tool, thing))

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the achieved goal (N, 3) m is at the desired one (N, 3) m, within 6 mm in height."""
        return stacked(achieved, desired, self.tolerance_m)

    def expert(self) -> StackExpert:
        """Return the scripted expert."""
        return StackExpert(self.block.half_m[1])


def stack_sentence(
    task: TableTask, rng: np.random.Generator, blocks: Sequence[Thing], upper: int, lower: int, templates: Any = STACK
) -> str:
    """Return a sentence that puts one of the blocks on another one."""
    things = {place: task.describe(rng, blocks, which) for place, which in (("thing", upper), ("other", lower))}
    sentence: str = templates.sentence(rng, task.words, things, {})
    return sentence


def on_top(position: Array, half: Array) -> Array:
    """Return where the first blocks are (N, 3) m when they stand on the second ones, of blocks (N, M, 3) m."""
    goal = position[:, 1].copy()
    goal[:, 2] = 2.0 * half[:, 1, 2] + half[:, 0, 2]
    return goal


TASK = TableStackTask
