"""table_pick: pick up the block that a sentence names, and hold it above the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.tasks.catalog.arm_pick_place import PickReward
from rlstack.tasks.core.phrases import Templates, Thing
from rlstack.tasks.manipulator.expert import GraspExpert
from rlstack.tasks.manipulator.table_task import TableTask

PICK = Templates(
    train=("pick up {thing}", "lift {thing}", "grab {thing}", "take {thing}"),
    held_out=("please pick up {thing}", "lift up {thing}", "i want you to grab {thing}", "{thing}, pick it up"),
    words={},
)


@dataclass(frozen=True, kw_only=True)
class TablePickTask(TableTask):
    """Pick up the named block, and hold it above the table."""

    tolerance_m: float = value(0.04, unit="m", above=0.0)
    """How far below the goal's height the block may be."""
    lift_m: float = value(0.1, unit="m", above=0.0)
    """Height that the block is lifted by."""
    reward: PickReward = field(default_factory=PickReward)

    axes = ("x", "y", "z", "yaw", "gripper")
    least_joints = 6
    start_opening = 1.0
    templates = PICK
    lengths = (*TableTask.lengths, "lift_m")
    guessed = 0.4

    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[None, str, str]:
        """Return a sentence for the first block, and one for another block."""
        which = int(rng.integers(1, len(blocks)))
        said = self.describe(rng, blocks, 0), self.describe(rng, blocks, which)
        normal, other = (self.templates.sentence(rng, self.words, {"thing": thing}, {}) for thing in said)
        return None, normal, other

    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the blocks' positions (N, M, 3) m, and the goals (N, 3) m above the first ones."""
        position = self.scattered(rng, half)
        return position, position[:, 0] + np.array([0.0, 0.0, self.lift_m])

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the block (N, 3) m is high enough."""
        return np.asarray(achieved[..., 2] > desired[..., 2] - self.tolerance_m)

    def expert(self) -> GraspExpert:
        """Return the scripted expert."""
        return GraspExpert(self.block.half_m[1])


TASK = TablePickTask
