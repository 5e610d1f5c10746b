"""Reading a dataset, episode by episode; what is cut off at its end is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.lerobot import tables
from rlstack.data.lerobot.features import ALWAYS, Feature
from rlstack.data.lerobot.films import read_film
from rlstack.data.lerobot.layout import TASKS, Info, at, film_at, read_info, read_statistics
from rlstack.data.lerobot.statistics import Statistics, together
from rlstack.errors import UserError

_PLACE = ("episode_index", "tasks", "length", "dataset_from_index", "dataset_to_index")
_FILE = ("data/chunk_index", "data/file_index")


@dataclass(frozen=True)
class Film:
    """Where an episode's pictures of one camera are.

    Attributes:
        place: Chunk and file of the film.
        start_s: Where the episode begins in it, s.
    """

    place: tuple[int, int]
    start_s: float


@dataclass(frozen=True)
class Episode:
    """Where an episode is in a dataset.

    Attributes:
        index: Its number, from 0.
        tasks: What the robot was to do, in words.
        length: Its frames.
        start: The number of its first frame in the dataset.
        place: Chunk and file of its frames.
        row: The row of its first frame in that file.
        films: Of the cameras that are kept as films, by name.
    """

    index: int
    tasks: tuple[str, ...]
    length: int
    start: int
    place: tuple[int, int]
    row: int
    films: Mapping[str, Film] = field(default_factory=dict)


class Dataset:
    """A dataset in the layout LeRobotDataset v3.0, whoever wrote it.

    Only where the episodes are is kept in memory; frames are read when they are asked for. A dataset that was cut off,
    because who wrote or copied it stopped in the middle, has its episodes up to the last that is whole.

    Attributes:
        path: Its folder.
        info: What its ``meta/info.json`` says, with what of it is whole.
        episodes: Those that are whole.
        tasks: What the robot was to do, in words, by number.
        cut_off: What is missing, in a sentence; empty if nothing is.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the dataset in the folder ``path``.

        Raises:
            UserError: It is none, of another version, or damaged beyond its end.
        """
        self.path = Path(path)
        said = read_info(self.path)
        self.episodes, self.cut_off = _whole_episodes(self.path, said)
        try:
            self.tasks = tuple(tables.read_tasks(self.path / TASKS))
        except UserError as error:
            self.tasks = tuple(dict.fromkeys(task for episode in self.episodes for task in episode.tasks))
            self.cut_off = f"{self.cut_off} {error} The tasks were taken from the episodes instead.".lstrip()
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
            raise UserError(f"{self.path} has the episodes 0 to {len(self.episodes) - 1}, but not {episode}.")
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
        if kept is not None and _counts(kept) == self.info.total_frames and not self.cut_off:
            return {name: {k: np.asarray(v) for k, v in found.items()} for name, found in kept.items()}
        rows = [row for row in _episode_rows(self.path) if row["episode_index"] < len(self)]
        return together(tables.row_statistics(rows))


def _counts(kept: Mapping[str, Any]) -> int | None:
    try:
        return int(kept["index"]["count"][0])
    except (KeyError, TypeError, IndexError, ValueError):
        return None


def episode_files(folder: Path) -> list[Path]:
    """Return the files that say where episodes are, in their order."""
    return sorted((folder / "meta" / "episodes").glob("*/*.parquet"))


def _episode_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of meta/episodes with all columns, up to a file that is damaged."""
    for path in episode_files(folder):
        if tables.count_rows(path) < 0:
            return
        yield from tables.read_table(path).to_pylist()


def _whole_episodes(folder: Path, said: Info) -> tuple[tuple[Episode, ...], str]:
    """Return the episodes up to the first that is not whole, and in words why that one is not."""
    found: list[Episode] = []
    rows: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], int] = {}
    frames = 0
    films = [name for name, feature in said.features.items() if feature.is_film]

    def lacking(why: str) -> tuple[tuple[Episode, ...], str]:
        return tuple(found), (
            f"{folder} is cut off: {why}, so that {len(found)} of its {said.total_episodes} episodes can be used."
        )

    for path in episode_files(folder):
        if len(found) == said.total_episodes:
            break
        if tables.count_rows(path) < 0:
            return lacking(f"{path.relative_to(folder)} is not whole")
        try:
            listed = tables.read_table(
                path, [*_PLACE, *_FILE, *(c for n in films for c in _film_columns(n))]
            ).to_pylist()
        except UserError as error:
            return lacking(str(error).rstrip("."))
        for row in listed:
            if len(found) == said.total_episodes:  # what follows was being written when its writer stopped
                break
            if not _follows(row, len(found), frames):
                return lacking(f"episode {len(found)} is not in its place in {path.relative_to(folder)}")
            place = (row[_FILE[0]], row[_FILE[1]])
            data = folder / at(said.data_path, place)
            if place not in rows:
                rows[place] = tables.count_rows(data)
                first[place] = frames
            at_row = frames - first[place]
            if rows[place] < at_row + row["length"]:
                what = "is missing or not whole" if rows[place] < 0 else "ends before it"
                return lacking(f"episode {len(found)}'s file {data.relative_to(folder)} {what}")
            seen = {name: _film_of(row, name) for name in films}
            for name, film in seen.items():
                where = film_at(said.video_path, name, film.place)
                if not (folder / where).is_file():
                    return lacking(f"episode {len(found)}'s film {where} is missing")
            tasks = tuple(row["tasks"] or ())
            found.append(Episode(len(found), tasks, row["length"], frames, place, at_row, seen))
            frames += row["length"]
    if len(found) < said.total_episodes:
        return lacking(f"meta/episodes ends with episode {len(found) - 1}")
    return tuple(found), ""


def _film_columns(name: str) -> tuple[str, str, str]:
    return f"videos/{name}/chunk_index", f"videos/{name}/file_index", f"videos/{name}/from_timestamp"


def _film_of(row: Mapping[str, Any], name: str) -> Film:
    chunk, number, start_s = (row[column] for column in _film_columns(name))
    return Film((int(chunk or 0), int(number or 0)), float(start_s or 0.0))


def _follows(row: Mapping[str, Any], episode: int, frames: int) -> bool:
    numbers = [row[name] for name in (*_PLACE, *_FILE) if name != "tasks"]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or row["length"] < 1:
        return False
    return row["episode_index"] == episode and (row[_PLACE[3]], row[_PLACE[4]]) == (frames, frames + row["length"])
