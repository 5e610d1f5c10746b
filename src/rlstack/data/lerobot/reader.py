"""Read a dataset, episode by episode, up to its last complete one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.lerobot import tables
from rlstack.data.lerobot.episodes import Episode, episode_files, find_episodes, words_of
from rlstack.data.lerobot.features import ALWAYS, Feature
from rlstack.data.lerobot.layout import file_at, read_info, read_statistics
from rlstack.data.lerobot.statistics import Colours, Statistics, of_values, together
from rlstack.data.lerobot.videos import read_video
from rlstack.errors import UserError

_LOGGER = logging.getLogger(__name__)

_PICTURES = 64
"""Images of an episode that are decoded at a time for statistics."""


class Dataset:
    """A dataset in the layout LeRobotDataset v3.0, by any writer.

    Only the episodes' locations are in memory; frames are read on demand. An incompletely written or copied dataset has
    its episodes up to the last complete one, also those missing in ``meta/episodes`` whose frames exist.

    Attributes:
        path: Its folder.
        info: Its ``meta/info.json``, with the totals of the complete episodes.
        episodes, tasks, cut_off, disorder: See :class:`rlstack.data.lerobot.episodes.Found`.
    """

    def __init__(self, path: str | Path, *, quiet: bool = False) -> None:
        """Open the dataset in the folder ``path``.

        Args:
            path: Its folder.
            quiet: Do not log a warning about missing parts.

        Raises:
            UserError: It is not a dataset, of another version, or damaged at its beginning.
        """
        self.path = Path(path)
        info = read_info(self.path)
        found = find_episodes(self.path, info)
        self.episodes, self.tasks, self.cut_off = found.episodes, found.tasks, found.cut_off
        self.disorder, self._unlisted = found.disorder, found.unlisted
        frames = sum(episode.length for episode in self.episodes)
        count = len(self.episodes)
        self.info = replace(info, total_episodes=count, total_frames=frames, total_tasks=len(self.tasks))
        if self.cut_off and not quiet:
            _LOGGER.warning(self.cut_off)

    def __len__(self) -> int:
        """Return the number of complete episodes."""
        return len(self.episodes)

    @property
    def robot_type(self) -> str | None:
        """The robot's name, or None if unknown."""
        return self.info.robot_type

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.info.fps

    @property
    def features(self) -> Mapping[str, Feature]:
        """Features of a frame, by name."""
        return self.info.features

    def read(
        self, episode: int, names: Sequence[str] | None = None, start: int = 0, stop: int | None = None
    ) -> dict[str, np.ndarray]:
        """Return frames of an episode.

        Args:
            episode: Its number.
            names: Features to read, also those of :data:`ALWAYS`; None: all of the dataset's. Images take long to
                decode.
            start: First frame.
            stop: The frame after the last; None: the episode's end.

        Returns:
            By name: vectors (frames, elements), single numbers (frames, 1), images uint8 (frames, height, width, 3).

        Raises:
            UserError: There is no such episode or feature, or its file is damaged.
        """
        if not 0 <= episode < len(self.episodes):
            last = len(self.episodes) - 1
            has = f"has the episodes 0 to {last}, but not" if self.episodes else "has no complete episode, so not"
            raise UserError(f"{self.path} {has} {episode}.")
        where = self.episodes[episode]
        every = {**self.features, **ALWAYS}
        wanted = list(self.features if names is None else names)
        for name in wanted:
            if name not in every:
                raise UserError(f"{self.path} has no feature '{name}'. It has: {', '.join(every)}.")
        stop = where.length if stop is None else min(stop, where.length)
        start = max(0, min(start, stop))
        path = self.path / file_at(self.info.data_path, where.place)
        read = tables.read_rows(
            path,
            where.row + start,
            where.row + stop,
            list(dict.fromkeys([*(name for name in wanted if not every[name].is_video), "episode_index"])),
        )
        whose = tables.column_values(read["episode_index"], "episode_index", ALWAYS["episode_index"], str(path))
        if (whose != episode).any():
            raise UserError(f"{path}: episode {episode} is not where meta/episodes says: the dataset is damaged.")
        return {
            name: self._video(where, name, start, stop)
            if every[name].is_video
            else tables.column_values(read[name], name, every[name], str(path))
            for name in wanted
        }

    def words(self, episode: int) -> list[str]:
        """Return the task's description in each frame of an episode."""
        numbers = self.read(episode, ["task_index"])["task_index"][:, 0]
        tasks = {number: words_of(self.tasks, number) for number in set(numbers.tolist())}
        return [tasks[number] for number in numbers.tolist()]

    def _video(self, episode: Episode, name: str, start: int, stop: int) -> np.ndarray:
        found = episode.videos[name]
        path = self.path / file_at(self.info.video_path, found.place, name)
        return read_video(path, self.features[name], self.fps, found.start_s, start, stop)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the frames of one episode after the other, as :meth:`read` returns them."""
        for episode in range(len(self)):
            yield self.read(episode)

    def statistics(self) -> dict[str, Statistics]:
        """Return min, max, mean, std, count and quantiles of each feature over all complete episodes."""
        kept = read_statistics(self.path)
        if kept is not None and _counts(kept) == self.info.total_frames:
            return {name: {k: np.asarray(v) for k, v in found.items()} for name, found in kept.items()}
        return together(tables.row_statistics(self.rows()))

    def rows(self) -> list[dict[str, Any]]:
        """Return each complete episode's row of ``meta/episodes``; a missing one is computed from the frames.

        Raises:
            UserError: These frames are damaged.
        """
        listed: dict[int, dict[str, Any]] = {}
        for path in episode_files(self.path):
            try:
                rows = tables.read_table(path).to_pylist()
            except UserError:
                continue
            for row in rows:
                if row.get("episode_index") not in self._unlisted:
                    listed.setdefault(row["episode_index"], row)
        return [
            listed[episode.index]
            if episode.index in listed
            else tables.episode_row(episode.to_row(self.fps), self._measured(episode))
            for episode in self.episodes
        ]

    def _measured(self, episode: Episode) -> dict[str, Statistics]:
        """Return an episode's statistics from its frames."""
        every = {name: feature for name, feature in {**self.features, **ALWAYS}.items() if feature.dtype != "string"}
        frames = self.read(episode.index, [name for name, feature in every.items() if not feature.is_image])
        found = {name: of_values(values.reshape(len(values), -1)) for name, values in frames.items()}
        for name in (name for name, feature in every.items() if feature.is_image):
            colours = Colours()
            for start in range(0, episode.length, _PICTURES):
                for picture in self.read(episode.index, [name], start, start + _PICTURES)[name]:
                    colours.add(picture)
            found[name] = colours.statistics()
        return found


def _counts(kept: Mapping[str, Any]) -> int | None:
    try:
        return int(kept["index"]["count"][0])
    except (KeyError, TypeError, IndexError, ValueError):
        return None
