"""Locate a dataset's episodes, from ``meta/episodes``, or from their frames if that is broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.data.lerobot import tables
from rlstack.data.lerobot.features import ALWAYS
from rlstack.data.lerobot.layout import TASKS, Info, file_at, following
from rlstack.data.lerobot.videos import count_frames
from rlstack.errors import UserError

_PLACE = ("episode_index", "tasks", "length", "dataset_from_index", "dataset_to_index")
_FILE = ("data/chunk_index", "data/file_index")
_NUMBERS = ("episode_index", "frame_index", "index", "task_index")
"""Index columns of every frame."""


@dataclass(frozen=True)
class Video:
    """Location of an episode's video of one camera.

    Attributes:
        place: Chunk and file of the video.
        start_s: Start of the episode in it, s.
    """

    place: tuple[int, int]
    start_s: float


@dataclass(frozen=True)
class Episode:
    """Location of an episode in a dataset.

    Attributes:
        index: Its number, from 0.
        tasks: Task descriptions.
        length: Number of its frames.
        start: Index of its first frame in the dataset.
        place: Chunk and file of its frames.
        row: The row of its first frame in that file.
        videos: Locations of its videos, by camera.
    """

    index: int
    tasks: tuple[str, ...]
    length: int
    start: int
    place: tuple[int, int]
    row: int
    videos: Mapping[str, Video] = field(default_factory=dict)

    def to_row(self, fps: float) -> dict[str, Any]:
        """Return its location as in its row of ``meta/episodes``; ``fps`` is the dataset's, frames per second."""
        row: dict[str, Any] = {
            "episode_index": self.index,
            "tasks": list(self.tasks),
            "length": self.length,
            "data/chunk_index": self.place[0],
            "data/file_index": self.place[1],
            "dataset_from_index": self.start,
            "dataset_to_index": self.start + self.length,
        }
        for name, video in self.videos.items():
            columns = (*_video_columns(name), f"videos/{name}/to_timestamp")
            row |= zip(columns, (*video.place, video.start_s, video.start_s + self.length / fps))
        return row


@dataclass(frozen=True)
class Found:
    """The complete episodes of a dataset.

    Attributes:
        episodes: Complete episodes, up to the first incomplete one.
        tasks: Task descriptions, by number.
        unlisted: Numbers of the episodes that ``meta/episodes`` lacks, found by their frames.
        disorder: Whether ``meta/episodes`` must be rewritten before appending.
        cut_off: Missing parts, in sentences; empty if complete.
    """

    episodes: tuple[Episode, ...]
    tasks: tuple[str, ...]
    unlisted: frozenset[int]
    disorder: bool
    cut_off: str


def episode_files(folder: Path) -> list[Path]:
    """Return the files of the episode index, in order."""
    return sorted((folder / "meta" / "episodes").glob("*/*.parquet"))


def find_episodes(folder: Path, info: Info) -> Found:
    """Return the episodes up to the first incomplete one, and the missing parts in words.

    Args:
        folder: The dataset's folder.
        info: Its ``meta/info.json``; data beyond the episodes that it counts is an interrupted write.
    """
    listed, reasons, doubled = _listed(folder, info)
    search, missing = _Search(folder, info), ""
    try:
        for number in range(info.total_episodes):
            search.add(number, listed.get(number))
    except _Missing as error:
        missing = str(error)
    unlisted = sorted(search.tasks)
    disorder = bool(reasons or doubled or unlisted)
    if not reasons and (unlisted or (missing and len(search.found) not in listed)):
        reasons = [f"meta/episodes does not list episode {unlisted[0] if unlisted else len(search.found)}"]
    if unlisted:
        several = len(unlisted) > 1
        reasons.append(f"{len(unlisted)} episode{'s were' if several else ' was'} found by their frames")
    told = ""
    if reasons := [*reasons, missing] if missing else reasons:
        count = f"{len(search.found)} of its {info.total_episodes} episodes"
        told = f"{folder} is cut off: {', '.join(reasons)}, so that {count} can be used."
    tasks, lost = _tasks(folder, info, search)
    episodes = tuple(
        replace(episode, tasks=tuple(words_of(tasks, task) for task in search.tasks[episode.index]))
        if episode.index in search.tasks
        else episode
        for episode in search.found
    )
    return Found(episodes, tasks, frozenset(unlisted), disorder, f"{told} {lost}".strip())


class _Missing(Exception):
    """Reason why the next episode is incomplete."""


class _Search:
    """A sequential search for episodes.

    Attributes:
        found: The episodes found so far.
        tasks: Task numbers of the unlisted ones.
    """

    def __init__(self, folder: Path, info: Info) -> None:
        self._folder, self._info = folder, info
        self.found: list[Episode] = []
        self.tasks: dict[int, tuple[int, ...]] = {}
        self._frames = 0
        self._rows: dict[tuple[int, int], int] = {}
        self._first: dict[tuple[int, int], int] = {}
        self._columns: dict[tuple[int, int], dict[str, NDArray[Any]]] = {}
        self._videos = [name for name, feature in info.features.items() if feature.is_video]

    def add(self, number: int, row: Mapping[str, Any] | None) -> None:
        """Add the next episode, by its row of ``meta/episodes`` if that is right, else by its frames.

        Raises:
            _Missing: It is incomplete.
        """
        tasks: tuple[int, ...] | None = None
        if row is None or not _follows(row, number, self._frames):
            row, tasks = self._by_frames(number)
        place = (row[_FILE[0]], row[_FILE[1]])
        data, first = file_at(self._info.data_path, place), self._first.setdefault(place, self._frames)
        at_row = self._frames - first
        if self._count(place) < at_row + row["length"]:
            what = "is missing or not whole" if self._count(place) < 0 else "ends before it"
            raise _Missing(f"episode {number}'s file {data} {what}")
        seen = {name: _video_of(row, name) for name in self._videos}
        for name, video in seen.items():
            where = file_at(self._info.video_path, video.place, name)
            if not (self._folder / where).is_file():
                raise _Missing(f"episode {number}'s video {where} is missing")
        words = tuple(row["tasks"] or ())
        self.found.append(Episode(number, words, row["length"], self._frames, place, at_row, seen))
        self._frames += row["length"]
        if tasks is not None:
            self.tasks[number] = tasks

    def numbers(self, place: tuple[int, int], name: str) -> NDArray[Any]:
        """Return an index column (rows,) of a file of frames; raise ``UserError`` if it cannot be read."""
        if place not in self._columns:
            path = self._folder / file_at(self._info.data_path, place)
            table = tables.read_table(path, _NUMBERS)
            self._columns[place] = {n: tables.column_values(table[n], n, ALWAYS[n], str(path))[:, 0] for n in _NUMBERS}
        return self._columns[place][name]

    def _count(self, place: tuple[int, int]) -> int:
        if place not in self._rows:
            self._rows[place] = tables.count_rows(self._folder / file_at(self._info.data_path, place))
        return self._rows[place]

    def _by_frames(self, number: int) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Return an episode's row and task numbers from the tables of frames, whose files have complete episodes."""
        before = self.found[-1] if self.found else None
        place, row = (before.place, before.row + before.length) if before else ((0, 0), 0)
        if before and row >= self._count(place):
            place, row = following(place, self._info.chunks_size), 0
        data = file_at(self._info.data_path, place)
        if self._count(place) < 0:
            raise _Missing(f"episode {number}'s file {data} is missing or not whole")
        try:
            whose, frame, index, task = (self.numbers(place, name)[row:] for name in _NUMBERS)
        except UserError as error:
            raise _Missing(str(error).rstrip(".")) from error
        other = np.flatnonzero(whose != number)
        length = int(other[0]) if len(other) else len(whose)
        count = np.arange(length)
        if not length or (frame[:length] != count).any() or (index[:length] != self._frames + count).any():
            raise _Missing(f"episode {number}'s frames are not in their place in {data}")
        videos = {name: self._video_after(before, number, length, name) for name in self._videos}
        episode = Episode(number, (), length, self._frames, place, row, videos)
        return episode.to_row(self._info.fps), tuple(dict.fromkeys(task[:length].tolist()))

    def _video_after(self, before: Episode | None, number: int, length: int, name: str) -> Video:
        """Return the location of an episode's video: after that of the episode before it, or in the next file."""

        def pictures(place: tuple[int, int]) -> int:
            return count_frames(self._folder / file_at(self._info.video_path, place, name))

        place, first = (0, 0), 0
        if before:
            place = before.videos[name].place
            first = round(before.videos[name].start_s * self._info.fps) + before.length
            if pictures(place) < first + length:
                place, first = following(place, self._info.chunks_size), 0
        if pictures(place) < first + length:
            where = file_at(self._info.video_path, place, name)
            raise _Missing(f"episode {number}'s video {where} is missing or not whole")
        return Video(place, first / self._info.fps)


def _listed(folder: Path, info: Info) -> tuple[dict[int, dict[str, Any]], list[str], bool]:
    """Return the rows of ``meta/episodes`` by episode, damaged files, and whether an episode is listed twice."""
    videos = [column for name, feature in info.features.items() if feature.is_video for column in _video_columns(name)]
    rows: dict[int, dict[str, Any]] = {}
    broken, doubled = [], False
    for path in episode_files(folder):
        if tables.count_rows(path) < 0:
            broken.append(f"{path.relative_to(folder)} is not whole")
            continue
        try:
            listed = tables.read_table(path, [*_PLACE, *_FILE, *videos]).to_pylist()
        except UserError as error:
            broken.append(str(error).rstrip("."))
            continue
        for row in listed:
            if row["episode_index"] in rows:
                doubled = True
            elif row["episode_index"] in range(info.total_episodes):
                rows[row["episode_index"]] = row
    return rows, broken, doubled


def _tasks(folder: Path, info: Info, search: _Search) -> tuple[tuple[str, ...], str]:
    """Return the task descriptions by number, and a warning if they had to be collected from the episodes."""
    try:
        tasks = tables.read_tasks(folder / TASKS)
        if tasks or not info.total_tasks:
            return tuple(tasks), ""
        why = f"{folder / TASKS} is missing: copy it again."
    except UserError as error:
        why = str(error)
    known: dict[int, str] = {}
    highest = max((task for tasks in search.tasks.values() for task in tasks), default=-1)
    for episode in search.found:
        if len(episode.tasks) == 1:
            try:
                known.setdefault(int(search.numbers(episode.place, "task_index")[episode.row]), episode.tasks[0])
            except UserError:  # reading its frames will raise it
                continue
    together = tuple(words_of(known, number) for number in range(max([highest, *known]) + 1))
    return together, f"{why} The tasks were taken from the episodes instead."


def words_of(tasks: tuple[str, ...] | dict[int, str], number: int) -> str:
    """Return a task's description, or its number if that is lost."""
    known = tasks if isinstance(tasks, dict) else dict(enumerate(tasks))
    return known.get(number, f"task {number}")


def _video_columns(name: str) -> tuple[str, str, str]:
    return f"videos/{name}/chunk_index", f"videos/{name}/file_index", f"videos/{name}/from_timestamp"


def _video_of(row: Mapping[str, Any], name: str) -> Video:
    chunk, number, start_s = (row[column] for column in _video_columns(name))
    return Video((int(chunk or 0), int(number or 0)), float(start_s or 0.0))


def _follows(row: Mapping[str, Any], episode: int, frames: int) -> bool:
    numbers = [row[name] for name in (*_PLACE, *_FILE) if name != "tasks"]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or row["length"] < 1:
        return False
    return row["episode_index"] == episode and (row[_PLACE[3]], row[_PLACE[4]]) == (frames, frames + row["length"])
