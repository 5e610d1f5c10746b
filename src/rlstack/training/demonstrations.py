"""Episodes that a task's scripted expert gives, or that were recorded, kept on disk to learn from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rlstack.data.replay.spec import read_spec
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.interface import GoalStep, LearningEnvironment, ScriptedEnvironment
from rlstack.training.dataset_demonstrations import recorded
from rlstack.training.hindsight_replay import HindsightReplay, Rows, each, rows_of

DEMONSTRATIONS = "demonstrations"
"""Folder of a run that holds the demonstrations it learns from."""

_TRIES = 20
"""Episodes of all robots in which the demonstrations must be had, for each that is wanted."""

Episode = list[Rows]
"""Its first observation, then what each step was and led to; :mod:`rlstack.training.hindsight_replay` keeps it."""


@dataclass(frozen=True, kw_only=True)
class DemonstrationSettings:
    """Which demonstrations an algorithm learns from."""

    demonstrations: int = value(20, at_least=1)
    """Episodes, successful ones, that are learned from."""
    dataset: str = ""
    """Folder of a dataset in the LeRobot layout that holds them; empty: the task's scripted expert gives them."""


def scripted(environment: LearningEnvironment, algorithm: str) -> ScriptedEnvironment:
    """Return the environment as one that has an expert.

    Raises:
        UserError: Its task has none.
    """
    if not isinstance(environment, ScriptedEnvironment):
        raise UserError(
            f"algorithm: {algorithm} is not allowed: {type(environment.task).__name__} has no scripted expert to take"
            " demonstrations from: choose sac."
        )
    return environment


def open_demonstrations(
    environment: ScriptedEnvironment,
    folder: Path | None,
    wanted: int,
    dataset: str = "",
    seed: int = 0,
    earned: bool = True,
) -> HindsightReplay:
    """Return demonstrations as they are kept in a run's folder; those that are there already are used again.

    Args:
        environment: Whose.
        folder: The run's; None: a temporary one.
        wanted: Episodes.
        dataset: Folder of a dataset to take them from, its first that succeeded; empty: the scripted expert gives them.
        seed: Of what is drawn from them.
        earned: Whether what they earned is learned from, and not only what was done.

    Raises:
        UserError: The expert seldom succeeds, the dataset does not fit the task or holds fewer, or nobody knows what
            its steps earned.
    """
    rewards = getattr(environment.task, "rewards", "sparse")
    if dataset and earned and rewards != "sparse":
        raise UserError(
            f"algorithm_settings: dataset: {dataset} is not allowed with task_settings: rewards: {rewards}: what its"
            " steps would have earned by them is not in a dataset. Set rewards to sparse, or leave the dataset out."
        )
    where = None if folder is None else folder / DEMONSTRATIONS
    if where is not None and (where / SPEC_FILE).is_file():  # a dataset that they came from may be gone by now
        kept = HindsightReplay(environment, read_spec(where / SPEC_FILE).capacity, where, seed, lanes=1)
        missing = wanted - len(kept.buffer.episodes())
        found = _episodes(environment, wanted, dataset)[-missing:] if missing > 0 else []
        room = kept.buffer.spec.capacity - len(kept.buffer)
        if sum(map(len, found)) > room:
            kept.close()
            raise UserError(
                f"algorithm_settings: demonstrations: {wanted} do not fit into {where}, which was made for fewer and"
                f" holds {wanted - missing}: begin another run, or take that folder away, and all are made anew."
            )
    else:
        found = _episodes(environment, wanted, dataset)
        capacity = max(1000, sum(max(len(episode), environment.task.steps + 1) for episode in found))
        if where is not None:
            _make(environment, capacity, where, found)
            found = []
        kept = HindsightReplay(environment, capacity, where, seed, lanes=1)
    for episode in found:
        kept.add_episode(episode)
    return kept


def _make(environment: ScriptedEnvironment, capacity: int, where: Path, found: list[Episode]) -> None:
    """Write demonstrations beside their place and move them there: a kill leaves all of them or none, and none cut."""
    beside = where.with_name(f".{where.name}.new")
    for left in (beside, where):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    made = HindsightReplay(environment, capacity, beside, lanes=1)
    for episode in found:
        made.add_episode(episode)
    made.buffer.flush()
    made.close()
    os.replace(beside, where)


def _episodes(environment: ScriptedEnvironment, wanted: int, dataset: str) -> list[Episode]:
    return recorded(Path(dataset), environment, wanted) if dataset else demonstrated(environment, wanted)


def demonstrated(environment: ScriptedEnvironment, wanted: int) -> list[Episode]:
    """Return that many successful episodes of the task's scripted expert; then the robots start anew.

    Raises:
        UserError: It seldom succeeds.
    """
    if wanted <= 0:
        return []

    def step() -> tuple[GoalStep, list[Rows], list[Rows]]:
        action = environment.expert_action()
        result = environment.step(action)
        return result, each(rows_of(action, result)), each(_begun(environment, result.actor))

    environment.restart(torch.arange(environment.count))
    begun = each(_begun(environment, environment.observe()[0]))
    return list(successes(environment, wanted, begun, step))


def successes(
    environment: ScriptedEnvironment,
    wanted: int,
    begun: list[Rows],
    step: Callable[[], tuple[GoalStep, list[Rows], list[Rows]]],
    advice: str = "ask for fewer, or make the task easier",
) -> Iterator[Episode]:
    """Yield that many successful episodes as they end; then the robots start anew.

    Args:
        environment: N robots, whose episodes begin.
        wanted: How many.
        begun: What each sees first.
        step: Lets the expert act once; returns what came of it, and for each robot what its step was and led to, and
            what it sees now, in its next episode if that one has ended.
        advice: What to do where it seldom succeeds.

    Raises:
        UserError: It seldom succeeds.
    """
    tried = found = 0
    going: list[Episode] = [[first] for first in begun]
    while found < wanted and tried < _TRIES * max(environment.count, wanted):
        result, made, after = step()
        for robot, done in enumerate(result.done.tolist()):
            going[robot].append(made[robot])
            if not done:
                continue
            tried += 1
            if found < wanted and bool(result.success[robot]):
                found += 1
                yield going[robot]
            going[robot] = [after[robot]]
    if found < wanted:
        raise UserError(
            f"The scripted expert succeeded in {found} of {tried} episodes, and {wanted} demonstrations are"
            f" asked for: {advice}."
        )
    environment.reset_all()


def _begun(environment: ScriptedEnvironment, seen: Tensor) -> Rows:
    return {"observation": seen.numpy().copy(), "achieved": environment.achieved_goal().numpy().copy()}
