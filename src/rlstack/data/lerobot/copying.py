"""Copy episodes of a dataset into another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.writer import DatasetWriter
from rlstack.errors import UserError


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
