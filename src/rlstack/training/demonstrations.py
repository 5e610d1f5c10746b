"""Demonstrations on disk, from a task's scripted expert or a recorded dataset."""

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
from rlstack.tasks.core.learning_environment import GoalEnvironment, GoalStep, LearningEnvironment, ScriptedEnvironment
from rlstack.training.dataset_demonstrations import recorded
from rlstack.training.hindsight_replay import HindsightReplay, Rows, each, keep_episode, rows_of

DEMONSTRATIONS = "demonstrations"
"""Folder of demonstrations in a run's folder."""

_TRIES = 20
"""Largest number of attempted episodes for each wanted demonstration."""

Episode = list[Rows]
"""First observation, then each step and its result, as stored by :mod:`rlstack.training.hindsight_replay`."""


@dataclass(frozen=True, kw_only=True)
class DemonstrationSettings:
    """Source and number of demonstrations."""

    demonstrations: int = value(20, at_least=1)
    """Number of successful episodes to learn from."""
    dataset: str = ""
    """Folder of a LeRobot dataset that holds them; empty: from the task's scripted expert."""


def scripted(environment: LearningEnvironment, algorithm: str, instead: str = "sac") -> ScriptedEnvironment:
    """Return the environment if it has a scripted expert; ``instead`` is an algorithm that needs none.

    Raises:
        UserError: Its task has none.
    """
    if not isinstance(environment, ScriptedEnvironment):
        raise UserError(
            f"algorithm: {algorithm} is not allowed: {type(environment.task).__name__} has no scripted expert to give"
            f" demonstrations: choose {instead}."
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
    """Return the demonstrations in a run's folder; existing ones are reused.

    Args:
        environment: Environment of the demonstrations.
        folder: The run's folder; None: a temporary one.
        wanted: Number of episodes.
        dataset: Folder of a dataset whose first successful episodes are used; empty: the scripted expert's.
        seed: Seed of sampling.
        earned: Whether rewards are learned from, and not just actions.

    Raises:
        UserError: The expert seldom succeeds, or the dataset does not fit, has fewer, or lacks the task's rewards.
    """
    if dataset and earned:
        _check_rewards(environment, dataset)
    where = None if folder is None else folder / DEMONSTRATIONS
    if where is not None and (where / SPEC_FILE).is_file():  # their dataset may be gone by now
        kept = HindsightReplay(environment, read_spec(where / SPEC_FILE).capacity, where, seed, lanes=1)
        missing = wanted - len(kept.buffer.episodes())
        found = _episodes(environment, wanted, dataset)[-missing:] if missing > 0 else []
        room = kept.buffer.spec.capacity - len(kept.buffer)
        if sum(map(len, found)) > room:
            kept.close()
            raise UserError(
                f"algorithm_settings: demonstrations: {wanted} do not fit into {where}, which was created for fewer and"
                f" holds {wanted - missing}: start another run, or delete that folder to collect all of them again."
            )
    else:
        found = _episodes(environment, wanted, dataset)
        capacity = max(1000, sum(max(len(episode), environment.task.steps + 1) for episode in found))
        if where is not None:
            _make(environment, capacity, where, found)
            found = []
        kept = HindsightReplay(environment, capacity, where, seed, lanes=1)
    for episode in found:
        keep_episode(kept.buffer, episode)
    return kept


def open_recording(
    environment: GoalEnvironment, folder: Path | None, dataset: str, most: int, seed: int = 0
) -> HindsightReplay:
    """Return what a robot's recordings hold, failed episodes too, in a run's folder; what is there is reused.

    Args:
        environment: Environment of the task.
        folder: The run's folder; None: a temporary one.
        dataset: Folder of the dataset.
        most: Largest number of episodes.
        seed: Seed of sampling.

    Raises:
        UserError: The dataset does not fit, or has no episodes.
    """
    where = None if folder is None else folder / DEMONSTRATIONS
    if where is not None and (where / SPEC_FILE).is_file():
        return HindsightReplay(environment, read_spec(where / SPEC_FILE).capacity, where, seed, lanes=1)
    found = [episode for episode in recorded(Path(dataset), environment, most, failures=True) if len(episode) > 1]
    if not found:
        raise UserError(f"{dataset} has no episodes to learn from.")
    capacity = max(1000, sum(map(len, found)))
    if where is not None:
        _make(environment, capacity, where, found)
        return HindsightReplay(environment, capacity, where, seed, lanes=1)
    kept = HindsightReplay(environment, capacity, where, seed, lanes=1)
    for episode in found:
        keep_episode(kept.buffer, episode)
    return kept


def check_recording(environment: LearningEnvironment, dataset: str) -> None:
    """Raise ``UserError`` if no dataset is given, or if it cannot hold the task's rewards."""
    if not dataset:
        raise UserError(
            "algorithm_settings: dataset: give the folder of a dataset that was recorded on the robot, by rlstack demo"
            " record --keep-failures or demo import."
        )
    _check_rewards(environment, dataset)


def _check_rewards(environment: LearningEnvironment, dataset: str) -> None:
    rewards = getattr(environment.task, "rewards", "sparse")
    if rewards != "sparse":
        raise UserError(
            f"algorithm_settings: dataset: {dataset} is not allowed with task_settings: rewards: {rewards}: a"
            " dataset does not hold those rewards. Set rewards to sparse, or leave the dataset out."
        )


def _make(environment: GoalEnvironment, capacity: int, where: Path, found: list[Episode]) -> None:
    """Write demonstrations to a temporary folder and rename it, so that a kill leaves all of them or none."""
    beside = where.with_name(f".{where.name}.new")
    for left in (beside, where):  # left by a killed process
        shutil.rmtree(left, ignore_errors=True)
    made = HindsightReplay(environment, capacity, beside, lanes=1)
    for episode in found:
        keep_episode(made.buffer, episode)
    made.buffer.flush()
    made.close()
    os.replace(beside, where)


def _episodes(environment: ScriptedEnvironment, wanted: int, dataset: str) -> list[Episode]:
    return recorded(Path(dataset), environment, wanted) if dataset else demonstrated(environment, wanted)


def demonstrated(environment: ScriptedEnvironment, wanted: int) -> list[Episode]:
    """Return ``wanted`` successful episodes of the task's scripted expert; see :func:`successes`."""
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
    advice: str = "use fewer, or make the task easier",
) -> Iterator[Episode]:
    """Yield ``wanted`` successful episodes as they end, then reset the robots.

    Args:
        environment: N robots at the start of their episodes.
        wanted: Number of episodes.
        begun: First observation of each robot.
        step: Takes one step of the expert; returns its result, and for each robot the step's row and the row of the
            present observation, which is of the next episode if one has ended.
        advice: Advice in the error.

    Raises:
        UserError: The expert seldom succeeds.
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
            f"The scripted expert succeeded in {found} of {tried} episodes, but {wanted} demonstrations are"
            f" required: {advice}."
        )
    environment.reset_all()


def _begun(environment: ScriptedEnvironment, seen: Tensor) -> Rows:
    return {"observation": seen.numpy().copy(), "achieved": environment.achieved_goal().numpy().copy()}
