"""A set of demonstrations for one robot and policy: opened, and some of them copied into another dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from rlstack.data.lerobot import Dataset, DatasetWriter, Feature, check_fits
from rlstack.errors import UserError

ACTION = "action"
"""The feature that holds what was done, in every LeRobot dataset."""


class Demonstrations:
    """Demonstrations of a dataset that fit the robot, rate, cameras and features that someone learns with.

    Attributes:
        dataset: Where they are.
    """

    def __init__(self, path: str | Path, robot_type: str | None, fps: float, features: Mapping[str, Feature]) -> None:
        """Open the dataset in the folder ``path`` for learning from it.

        Args:
            path: Its folder; it may hold more than is needed.
            robot_type: The robot's name.
            fps: The rate at which the policy acts, Hz.
            features: What the policy needs of each frame, ``action`` among them.

        Raises:
            UserError: It is no dataset, or of another robot, rate, camera or feature; names which.
        """
        if ACTION not in features:
            raise UserError(f"A demonstration needs the feature '{ACTION}': what was done.")
        self.dataset = Dataset(path)
        held = (self.dataset.robot_type, self.dataset.fps, self.dataset.features)
        check_fits(held, (robot_type, fps, features), str(path))
        self._features = tuple(features)

    def __len__(self) -> int:
        """Return how many demonstrations there are."""
        return len(self.dataset)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield one demonstration after the other: by feature, (frames, ...)."""
        for episode in range(len(self)):
            yield self[episode]

    def __getitem__(self, episode: int) -> dict[str, np.ndarray]:
        """Return a demonstration: what the policy needs of each frame, by feature (frames, ...)."""
        return self.dataset.read(episode, self._features)


def check_other(path: str | Path, read: str | Path) -> None:
    """Raise ``UserError`` if the folder ``path``, to write into, is that of the dataset that is being read."""
    if Path(path).resolve() == Path(read).resolve():
        raise UserError(f"{path} is the dataset that is being read: give another folder.")


def copy_episodes(dataset: Dataset, path: str | Path, episodes: Iterable[int]) -> int:
    """Write some episodes of a dataset, with all their features, into the dataset in the folder ``path``.

    Args:
        dataset: Where they are.
        path: A new dataset, or one that these fit.
        episodes: Their numbers.

    Returns:
        How many were written.

    Raises:
        UserError: It is the same folder, or a dataset that these do not fit.
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
