"""Episodes that a task's scripted expert gives, or that were recorded, kept on disk to learn from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from rlstack.data.replay.spec import read_spec
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.errors import UserError
from rlstack.tasks.goals import ScriptedEnvironment
from rlstack.tasks.learning import LearningEnvironment
from rlstack.training.experience import Experience, Rows, each, rows_of
from rlstack.training.recorded import recorded

DEMONSTRATIONS = "demonstrations"
"""Folder of a run that holds the demonstrations it learns from."""

_TRIES = 20
"""Episodes of all robots in which the demonstrations must be had, for each that is wanted."""

Episode = list[Rows]
"""Its first observation, then what each step was and led to; see :class:`rlstack.training.experience.Experience`."""


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
    environment: ScriptedEnvironment, folder: Path | None, wanted: int, dataset: str = "", seed: int = 0
) -> Experience:
    """Return demonstrations as they are kept in a run's folder; those that are there already are used again.

    Args:
        environment: Whose.
        folder: The run's; None: a temporary one.
        wanted: Episodes.
        dataset: Folder of a dataset to take them from, its first ones; empty: the task's scripted expert gives them.
        seed: Of what is drawn from them.

    Raises:
        UserError: The expert seldom succeeds, or the dataset does not fit the task or holds fewer.
    """
    where = None if folder is None else folder / DEMONSTRATIONS
    if where is not None and (where / SPEC_FILE).is_file():  # a dataset that they came from may be gone by now
        kept = Experience(environment, read_spec(where / SPEC_FILE).capacity, where, seed, lanes=1)
        missing = wanted - len(kept.buffer.episodes())
        found = _episodes(environment, wanted, dataset)[-missing:] if missing > 0 else []
    else:
        found = _episodes(environment, wanted, dataset)
        steps = sum(max(len(episode), environment.task.steps + 1) for episode in found)
        kept = Experience(environment, max(1000, steps), where, seed, lanes=1)
    for episode in found:
        kept.add_episode(episode)
    return kept


def _episodes(environment: ScriptedEnvironment, wanted: int, dataset: str) -> list[Episode]:
    return recorded(Path(dataset), environment, wanted) if dataset else demonstrated(environment, wanted)


def demonstrated(environment: ScriptedEnvironment, wanted: int) -> list[Episode]:
    """Return that many successful episodes of the task's scripted expert; then the robots start anew.

    Raises:
        UserError: It seldom succeeds.
    """
    found: list[Episode] = []
    if wanted <= 0:
        return found
    tried = 0
    environment.restart(torch.arange(environment.count))
    seen = environment.observe()[0]
    going: list[Episode] = [[first] for first in each(_begun(environment, seen))]
    while len(found) < wanted and tried < _TRIES * max(environment.count, wanted):
        action = environment.expert_action()
        result = environment.step(action)
        for robot, step in enumerate(each(rows_of(action, result))):
            going[robot].append(step)
        for robot in result.done.nonzero().flatten().tolist():
            tried += 1
            if bool(result.success[robot]):
                found.append(going[robot])
            going[robot] = [each(_begun(environment, result.actor))[robot]]
    if len(found) < wanted:
        raise UserError(
            f"The scripted expert succeeded in {len(found)} of {tried} episodes, and {wanted} demonstrations are"
            " asked for: ask for fewer, or make the task easier."
        )
    environment.reset_all()
    return found[:wanted]


def _begun(environment: ScriptedEnvironment, seen: Tensor) -> Rows:
    return {"observation": seen.numpy().copy(), "achieved": environment.achieved_goal().numpy().copy()}
