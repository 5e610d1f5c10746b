"""Demonstrations for one robot and policy: opening them, and copying episodes into another dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from rlstack.data.lerobot import Dataset, DatasetWriter, Feature, check_fits
from rlstack.errors import UserError

ACTION = "action"
"""The feature that holds the action in every LeRobot dataset."""


class Demonstrations:
    """Demonstrations of a dataset, checked against a learner's robot, rate, cameras and features.

    Attributes:
        dataset: The dataset.
    """

    def __init__(self, path: str | Path, robot_type: str | None, fps: float, features: Mapping[str, Feature]) -> None:
        """Open the dataset in the folder ``path`` for learning.

        Args:
            path: Its folder; it may hold more features than needed.
            robot_type: The robot's name.
            fps: The policy's control rate, Hz.
            features: The features that the policy needs, including ``action``.

        Raises:
            UserError: It is not a dataset, or its robot, rate, cameras or features differ; names which.
        """
        if ACTION not in features:
            raise UserError(f"A demonstration needs the feature '{ACTION}'.")
        self.dataset = Dataset(path)
        held = (self.dataset.robot_type, self.dataset.fps, self.dataset.features)
        check_fits(held, (robot_type, fps, features), str(path))
        self._features = tuple(features)

    def __len__(self) -> int:
        """Return the number of demonstrations."""
        return len(self.dataset)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield each demonstration: by feature, (frames, ...)."""
        for episode in range(len(self)):
            yield self[episode]

    def __getitem__(self, episode: int) -> dict[str, np.ndarray]:
        """Return a demonstration: the features that the policy needs (frames, ...), by name."""
        return self.dataset.read(episode, self._features)


def check_other(path: str | Path, read: str | Path) -> None:
    """Raise ``UserError`` if the output folder ``path`` is the dataset being read."""
    if Path(path).resolve() == Path(read).resolve():
        raise UserError(f"{path} is the dataset being read: give another folder.")


def copy_episodes(dataset: Dataset, path: str | Path, episodes: Iterable[int]) -> int:
    """Copy episodes of a dataset, with all their features, into the dataset in the folder ``path``.

    Args:
        dataset: The source.
        path: A new dataset, or one with the same features.
        episodes: Indices of the episodes.

    Returns:
        Number of episodes written.

    Raises:
        UserError: It is the same folder, or a dataset with other features.
    """
    check_other(path, dataset.path)
    count = 0
    with DatasetWriter(path, dataset.fps, dataset.robot_type, dataset.features) as writer:
        for episode in episodes:
            frames = dataset.read(episode)
            for number in range(dataset.episodes[episode].length):
                writer.add_frame({name: values[number] for name, values in frames.items()})
            writer.end_episode(dataset.words(episode))
            count += 1
    return count
