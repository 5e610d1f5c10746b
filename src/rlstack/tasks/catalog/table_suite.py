"""table_suite: push, pick up or stack, whichever a sentence says: one policy for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import in_order, value
from rlstack.tasks.catalog.arm_pick_place import PickReward
from rlstack.tasks.catalog.arm_stack import StackExpert
from rlstack.tasks.catalog.table_pick import PICK
from rlstack.tasks.catalog.table_push import PUSH, WAYS, PushRoom, push_expert
from rlstack.tasks.catalog.table_stack import STACK, on_top, stack_sentence
from rlstack.tasks.core.phrases import Templates, Thing
from rlstack.tasks.core.scatter import scatter
from rlstack.tasks.manipulator.expert import Expert, GraspExpert
from rlstack.tasks.manipulator.table_task import TableRandomisation, TableTask
from rlstack.tasks.manipulator.trials import Range, Starts

Kind = Literal["push", "pick", "stack"]


class SuiteExpert:
    """Does as the expert of each trial's kind, which the goal's height above the object's place tells.

    Args:
        task: The task.
    """

    def __init__(self, task: TableSuiteTask) -> None:
        half_m = task.block.half_m[1]
        self._task = task
        self._experts: dict[Kind, Expert] = {
            "push": push_expert(task),
            "pick": GraspExpert(half_m, by_degrees=True),
            "stack": StackExpert(half_m, by_degrees=True),
        }

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        kinds = self._task.kinds_of(seen["goal_position"])
        chosen = np.zeros((len(kinds), pipeline.action_size))
        for kind, expert in self._experts.items():
            chosen = np.where((kinds == kind)[:, None], expert.act(seen, pipeline), chosen)
        return chosen


@dataclass(frozen=True, kw_only=True)
class SuiteRandomisation(TableRandomisation):
    """Randomisation of training beyond that of trials, drawn for each episode; none by default."""

    kinds: tuple[Kind, ...] = ()
    """What sentences ask for in training, of the task's own kinds, such as [push, pick, stack, stack], in which stacks
    come twice as often; empty: as in trials."""


@dataclass(frozen=True, kw_only=True)
class TableSuiteTask(TableTask):
    """Push, pick up or stack the named block, as the sentence says.

    A block that is stacked counts once it stands in its place on the other one, even if the hand is still there.
    """

    episode_s: float = value(6.0, unit="s", above=0.0)
    kinds: tuple[Kind, ...] = ("push", "pick", "stack")
    """What sentences ask for."""
    openings: Range = value((0.0, 1.0), at_least=0.0, at_most=1.0)
    """Start opening of the gripper, a share of its range. Were it always open, closed fingers would mean a push or
    a block between them, and a policy that grasped past one would go on as if it had it."""
    tolerance_m: float = value(0.03, unit="m", above=0.0)
    """Horizontal distance from the goal within which a pushed block is there."""
    push_m: float = value(0.065, unit="m", above=0.0)
    lift_m: float = value(0.12, unit="m", above=0.0)
    lift_tolerance_m: float = value(0.05, unit="m", above=0.0)
    """How far below the goal's height a lifted block may be."""
    stack_tolerance_m: float = value(0.018, unit="m", above=0.0)
    """Horizontal distance from the goal within which a stacked block is there."""
    upright_m: float = value(0.006, unit="m", above=0.0)
    """Height error beyond which a block is not on the other one."""
    reward: PickReward = field(default_factory=PickReward)
    randomisation: SuiteRandomisation = field(default_factory=SuiteRandomisation)

    axes = ("x", "y", "z", "yaw", "gripper")
    least_joints = 6
    start_opening = 1.0
    templates = Templates(
        train=(*PUSH.train, *PICK.train, *STACK.train),
        held_out=(*PUSH.held_out, *PICK.held_out, *STACK.held_out),
        words=PUSH.words,
    )
    named = 2
    hand = True
    down_m = 0.04
    lengths = (*TableTask.lengths, "push_m", "lift_m", "lift_tolerance_m", "stack_tolerance_m")
    guessed = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        in_order(self, "openings")
        if not self.kinds:
            raise ValueError("kinds: an empty list is not allowed: name some of push, pick and stack.")

    def practised(self) -> Self:
        """Return the task as training draws its scenes: what is learned more slowly may come more often."""
        kinds = tuple(kind for kind in self.randomisation.kinds if kind in self.kinds)
        return replace(super().practised(), kinds=kinds or self.kinds)

    def draw_starts(self, robot: Manipulator, rng: np.random.Generator, count: int) -> Starts:
        """Draw the arms' start poses, with the gripper at random openings."""
        starts, arm = super().draw_starts(robot, rng, count), len(robot.joints)
        lower, joints = np.array([drive.lower for drive in robot.drives[arm:]]), starts.joints.copy()
        joints[:, arm:] = lower + rng.uniform(*self.openings, (count, 1)) * (joints[:, arm:] - lower)
        return replace(starts, joints=joints)

    def kinds_of(self, goal: Array) -> NDArray[np.str_]:
        """Return (...) what goals (..., 3) m are of: on the table's surface, on a block, or in the air."""
        in_air = goal[..., 2] > 3.0 * self.block.half_m[1] + self.upright_m
        return np.where(in_air, "pick", np.where(goal[..., 2] > 0.0, "stack", "push"))

    def names_two(self, goal: Array) -> NDArray[np.bool_]:
        """Return (N,) whether sentences with goals (N, 3) m name a second block, as those that stack do."""
        return np.asarray(self.kinds_of(goal) == "stack")

    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[tuple[Kind, str], str, str]:
        """Return the kind and the direction, a sentence, and one that asks another thing of another block."""
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        way, other_way = rng.choice(list(WAYS), 2, replace=False).tolist()
        which = int(rng.integers(1, len(blocks)))
        other = self.kinds[int(rng.integers(len(self.kinds)))]
        said = self._say(rng, blocks, kind, 0, 1, way), self._say(rng, blocks, other, which, 0, other_way)
        return (kind, way), *said

    def _say(
        self, rng: np.random.Generator, blocks: Sequence[Thing], kind: Kind, which: int, lower: int, way: str
    ) -> str:
        if kind == "stack":
            return stack_sentence(self, rng, blocks, which, lower)
        thing = self.describe(rng, blocks, which)
        if kind == "pick":
            return PICK.sentence(rng, self.words, {"thing": thing}, {})
        return PUSH.sentence(rng, self.words, {"thing": thing}, {"way": way})

    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the blocks' positions (N, M, 3) m and the goals (N, 3) m, with room on a pushed block's way."""
        count, blocks = half.shape[:2]
        kinds = np.array([kind for kind, _ in asked])
        room = PushRoom.of(self, [way for _, way in asked], self.push_m)

        def allowed(index: NDArray[np.intp], tried: Array) -> NDArray[np.bool_]:
            return np.asarray(room.allowed(index, tried) | (kinds[index] != "push"))

        position = scatter(
            lambda index: self.places.draw(rng, len(index) * blocks).reshape(-1, blocks, 3),
            allowed,
            count,
            self.apart_m,
        )
        position[..., 2] = half[..., 2]
        goals = {
            "push": position[:, 0] * np.array([1.0, 1.0, 0.0]) + self.push_m * room.way,
            "pick": position[:, 0] + np.array([0.0, 0.0, self.lift_m]),
            "stack": on_top(position, half),
        }
        return position, sum(np.where((kinds == kind)[:, None], goal, 0.0) for kind, goal in goals.items())  # type: ignore[return-value]

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (...) whether blocks (..., 3) m are at their goals (..., 3) m."""
        kinds, off = self.kinds_of(desired), achieved - desired
        level = np.linalg.norm(off[..., :2], axis=-1)
        stacked = (level < self.stack_tolerance_m) & (np.abs(off[..., 2]) < self.upright_m)
        lifted = off[..., 2] > -self.lift_tolerance_m
        return np.where(kinds == "pick", lifted, np.where(kinds == "stack", stacked, level < self.tolerance_m))

    def expert(self) -> SuiteExpert:
        """Return the scripted expert."""
        return SuiteExpert(self)


TASK = TableSuiteTask
