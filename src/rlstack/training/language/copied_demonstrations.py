"""Demonstrations of LeRobot datasets and ROS 2 bags, copied into a run's folder as chunks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.data.replay import ReplayBuffer
from rlstack.files import write_atomically
from rlstack.tasks.core.pipeline import Tensors
from rlstack.training.bag_demonstrations import BagDemonstrations, bags_in
from rlstack.training.dataset_demonstrations import (
    check_statistics,
    check_values,
    fitting,
    frame_features,
    steps_of_frames,
    successful,
)
from rlstack.training.hindsight_replay import Rows, each, keep_episode
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.demonstrations import FOLDER, ChunkReplay, seen_rows, spec_of

_WEIGHT = re.compile(r"(.+):([-+.\deE]+)")
"""A dataset's folder and its weight."""
_WHOLE = "dataset"
"""File in a replay buffer's folder that says which dataset was copied, once all of it was."""


def parts_of(datasets: Sequence[str]) -> tuple[list[str], list[float]]:
    """Return folders and weights of datasets such as ``runs/a:0.7``; no weights if none has one.

    Raises:
        ValueError: Some have a weight and others none, one is not positive and finite, or a folder comes twice.
    """
    found = [_WEIGHT.fullmatch(one) for one in datasets]
    folders = [str(one.group(1) if one else given) for one, given in zip(found, datasets)]
    try:
        weights = [float(one.group(2)) for one in found if one]
    except ValueError as error:
        raise ValueError(f"dataset: {list(datasets)} is not allowed: a weight is a number, such as 0.7.") from error
    if len(weights) not in (0, len(datasets)):
        bare = next(given for one, given in zip(found, datasets) if not one)
        raise ValueError(f"dataset: {bare} has no weight, and others have: give each one, such as {bare}:0.5, or none.")
    if not all(0.0 < weight < float("inf") for weight in weights):
        raise ValueError(f"dataset: {list(datasets)} is not allowed: weights must be above 0, and finite.")
    if len(set(folders)) < len(folders):
        raise ValueError(f"dataset: {list(datasets)} is not allowed: name each folder once.")
    return folders, weights


def copy_chunks(
    environment: Any, actor: LanguageActor, folder: Path, most: int, datasets: Sequence[str]
) -> ChunkReplay:
    """Copy demonstrations of LeRobot datasets and ROS 2 bags into a run's folder and return them; existing are reused.

    One episode is in memory at a time. Every frame begins a chunk. Labels are 0, since datasets do not hold them.

    Args:
        environment: Environment of the task.
        actor: Gives the layout and the chunk.
        folder: The run's folder.
        most: Largest number of successful demonstrations of each.
        datasets: Folders of datasets, bags or folders of bags, each with or without its weight; see :func:`parts_of`.

    Raises:
        UserError: One is of another robot, rate, camera, task or motion, or has no successful demonstration.
    """
    paths, weights = parts_of(datasets)
    places = [folder / f"{FOLDER}-{number}" for number in range(len(paths))]
    if all((place / _WHOLE).is_file() for place in places):
        return ChunkReplay(places, actor, weights)  # the datasets may be gone by now
    held = [_source(Path(path), environment) for path in paths]  # refuse before copying
    for place, source in zip(places, held):
        _copy(environment, actor, place, source, most)
    return ChunkReplay(places, actor, weights)


class _Episodes:
    """The demonstrations of a LeRobot dataset, as :class:`BagDemonstrations`."""

    def __init__(self, path: Path, environment: Any) -> None:
        self.path = path
        self._dataset, self._names = fitting(path, environment, frame_features(environment))
        self._statistics = self._dataset.statistics()

    def numbers(self, most: int) -> list[int]:
        return successful(self._dataset, most, least=1)

    def length(self, number: int) -> int:
        return self._dataset.episodes[number].length

    def frames(self, number: int) -> dict[str, NDArray[Any]]:
        frames = self._dataset.read(number, self._names)
        check_statistics(frames, self._statistics, self.where(number))
        return frames

    def where(self, number: int) -> str:
        return f"{self.path}, episode {number}"


def _source(path: Path, environment: Any) -> _Episodes | BagDemonstrations:
    return BagDemonstrations(path, environment) if bags_in(path) else _Episodes(path, environment)


def _copy(
    environment: Any, actor: LanguageActor, place: Path, source: _Episodes | BagDemonstrations, most: int
) -> None:
    good = source.numbers(most)
    steps = sum(source.length(number) + 1 for number in good)
    with ReplayBuffer(place, spec_of(environment, actor, steps)) as buffer:
        for number in good[len(buffer.episodes()) :]:
            frames = source.frames(number)
            check_values(frames, environment, source.where(number))
            keep_episode(buffer, _chunks_of(frames, environment, actor))
    write_atomically(place / _WHOLE, f"{source.path}\n")


def _chunks_of(frames: dict[str, NDArray[Any]], environment: Any, actor: LanguageActor) -> list[Rows]:
    """Return an episode's frames as steps, each with the chunk of actions from its frame on."""
    none, nowhere = torch.zeros(1, environment.privileged_size), torch.zeros_like(environment.image_places()[:1])

    def row(number: int, prepared: Tensors, observation: Tensor) -> Rows:
        (seen,) = each(seen_rows(environment, actor.layout, observation, none, nowhere))
        return seen

    first, *steps = steps_of_frames(frames, environment, row)
    actions = np.stack([step["action"] for step in steps])
    ahead = np.arange(len(steps))[:, None] + np.arange(actor.chunk)
    chunks, inside = actions[np.minimum(ahead, len(steps) - 1)], (ahead < len(steps)).astype(np.float32)
    return [first, *({**step, "action": chunks[k], "inside": inside[k]} for k, step in enumerate(steps))]
