"""Reading a dataset, episode by episode; what is cut off at its end is left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.lerobot import tables
from rlstack.data.lerobot.episodes import Episode, episode_files, find_episodes, words_of
from rlstack.data.lerobot.features import ALWAYS, Feature
from rlstack.data.lerobot.films import read_film
from rlstack.data.lerobot.layout import Info, at, film_at, read_info, read_statistics
from rlstack.data.lerobot.statistics import Colours, Statistics, of_values, together
from rlstack.errors import UserError

_LOGGER = logging.getLogger(__name__)

_PICTURES = 64
"""Of an episode, decoded at a time where all are gone through."""


class Dataset:
    """A dataset in the layout LeRobotDataset v3.0, whoever wrote it.

    Only where the episodes are is kept in memory; frames are read when they are asked for. A dataset that was cut off,
    because who wrote or copied it stopped in the middle, has its episodes up to the last that is whole: also those that
    ``meta/episodes`` lost, as long as their frames are there.

    Attributes:
        path: Its folder.
        info: What its ``meta/info.json`` says, with what of it is whole.
        episodes: Those that are whole.
        tasks: What the robot was to do, in words, by number.
        cut_off: What is missing, in sentences; empty if nothing is.
        disorder: Whether ``meta/episodes`` must be written anew before anything is added to it.
    """

    def __init__(self, path: str | Path, *, quiet: bool = False) -> None:
        """Open the dataset in the folder ``path``.

        Args:
            path: Its folder.
            quiet: Do not log a warning of what is missing: whoever opens it tells it.

        Raises:
            UserError: It is none, of another version, or damaged beyond its end.
        """
        self.path = Path(path)
        said = read_info(self.path)
        found = find_episodes(self.path, said)
        self.episodes, self.tasks, self.cut_off = found.episodes, found.tasks, found.cut_off
        self.disorder, self._unlisted = found.disorder, found.unlisted
        frames = sum(episode.length for episode in self.episodes)
        self.info = Info(
            said.robot_type,
            said.fps,
            said.features,
            len(self.episodes),
            frames,
            len(self.tasks),
            said.chunks_size,
            said.data_path,
            said.video_path,
        )
        if self.cut_off and not quiet:
            _LOGGER.warning(self.cut_off)

    def __len__(self) -> int:
        """Return how many whole episodes there are."""
        return len(self.episodes)

    @property
    def robot_type(self) -> str | None:
        """The robot's name, or None if nobody said."""
        return self.info.robot_type

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.info.fps

    @property
    def features(self) -> Mapping[str, Feature]:
        """What each frame holds, by name."""
        return self.info.features

    def read(
        self, episode: int, names: Sequence[str] | None = None, start: int = 0, stop: int | None = None
    ) -> dict[str, np.ndarray]:
        """Return frames of an episode.

        Args:
            episode: Its number.
            names: Of the features wanted; all of the dataset's if not given. ``timestamp``, ``frame_index``,
                ``episode_index``, ``index`` and ``task_index`` can be asked for too. Images take long to decode: do not
                ask for those that are not needed.
            start: First frame.
            stop: The frame after the last; the episode's end if not given.

        Returns:
            By name: vectors (frames, elements), single numbers (frames, 1), images uint8 (frames, height, width, 3).

        Raises:
            UserError: There is no such episode or feature, or its file is damaged.
        """
        if not 0 <= episode < len(self.episodes):
            last = len(self.episodes) - 1
            has = f"has the episodes 0 to {last}, but not" if self.episodes else "has no episode that is whole, so not"
            raise UserError(f"{self.path} {has} {episode}.")
        where = self.episodes[episode]
        every = {**self.features, **ALWAYS}
        wanted = list(self.features if names is None else names)
        for name in wanted:
            if name not in every:
                raise UserError(f"{self.path} has no feature '{name}'. It has: {', '.join(every)}.")
        stop = where.length if stop is None else min(stop, where.length)
        start = max(0, min(start, stop))
        path = self.path / at(self.info.data_path, where.place)
        read = tables.read_rows(
            path,
            where.row + start,
            where.row + stop,
            list(dict.fromkeys([*(name for name in wanted if not every[name].is_film), "episode_index"])),
        )
        whose = tables.column_values(read["episode_index"], "episode_index", ALWAYS["episode_index"], str(path))
        if (whose != episode).any():
            raise UserError(f"{path}: episode {episode} is not where meta/episodes says: the dataset is damaged.")
        return {
            name: self._film(where, name, start, stop)
            if every[name].is_film
            else tables.column_values(read[name], name, every[name], str(path))
            for name in wanted
        }

    def words(self, episode: int) -> list[str]:
        """Return what the robot was to do in each frame of an episode; see :meth:`read`."""
        numbers = self.read(episode, ["task_index"])["task_index"][:, 0]
        said = {number: words_of(self.tasks, number) for number in set(numbers.tolist())}
        return [said[number] for number in numbers.tolist()]

    def _film(self, episode: Episode, name: str, start: int, stop: int) -> np.ndarray:
        found = episode.films[name]
        path = self.path / film_at(self.info.video_path, name, found.place)
        return read_film(path, self.features[name], self.fps, found.start_s, start, stop)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the frames of one episode after the other, as :meth:`read` returns them."""
        for episode in range(len(self)):
            yield self.read(episode)

    def statistics(self) -> dict[str, Statistics]:
        """Return min, max, mean, std, count and quantiles of each feature over all whole episodes."""
        kept = read_statistics(self.path)
        if kept is not None and _counts(kept) == self.info.total_frames:
            return {name: {k: np.asarray(v) for k, v in found.items()} for name, found in kept.items()}
        return together(tables.row_statistics(self.rows()))

    def rows(self) -> list[dict[str, Any]]:
        """Return each whole episode's row of ``meta/episodes``: its place and statistics; made anew where it is lost.

        Raises:
            UserError: The frames of an episode whose row is lost are damaged.
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
