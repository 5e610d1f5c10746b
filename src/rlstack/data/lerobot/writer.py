"""Writing a dataset: an episode is in it as a whole or not at all, also after a kill or a power cut.

Every file is written beside its place and moved there when it is whole on the disk: the episode's frames first, then
where they are, then the statistics, and last ``meta/info.json``, whose number of episodes makes the new one part of the
dataset. What a writer that was stopped left beyond that number is dropped by the next one.

Episodes are gathered in files of a few MB, by writing the last file again with the new one in it: so a dataset of
thousands of short episodes has tens of files, and none is ever open while episodes are recorded.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.lerobot import tables
from rlstack.data.lerobot.episodes import Episode, Film, episode_files
from rlstack.data.lerobot.features import Feature, check_features, check_fits, check_frame
from rlstack.data.lerobot.films import FilmWriter
from rlstack.data.lerobot.layout import EPISODES, INFO, STATISTICS, TASKS, Info, at, film_at, following
from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.statistics import Colours, Statistics, of_values, together
from rlstack.errors import UserError
from rlstack.files import lock, write_atomically

MOST_BYTES = 4_000_000
"""Up to this size, a file of frames is written again with the next episode in it."""

MOST_ROWS = 64
"""The same for a file that says where episodes are, in episodes."""

LOCK = "meta/.writer.lock"
ASIDE = ".set_aside"
"""What is added to the names of damaged files that an appending writer finds, so that nobody reads them by chance."""

_ROWS = ("meta/episodes/chunk_index", "meta/episodes/file_index")
_LOGGER = logging.getLogger(__name__)


class DatasetWriter:
    """Records episodes into a dataset, a new one or one that is there.

    ::

        features = {"observation.state": vector("shoulder", "elbow"), "action": vector("shoulder", "elbow")}
        with DatasetWriter("demonstrations", 20, "so100", features) as writer:
            for ...:
                writer.add_frame({"observation.state": position, "action": command})
            writer.end_episode("Put the cube into the box.")
    """

    def __init__(self, path: str | Path, fps: float, robot_type: str | None, features: Mapping[str, Feature]) -> None:
        """Make the dataset in the folder ``path``, or open it for more episodes.

        One that is cut off is mended: who adds to it goes on after its last whole episode, and files of what is not
        whole get the ending ``.set_aside``. A warning is logged that says what.

        Args:
            path: Its folder.
            fps: Frames per second; frame ``n`` of an episode is at ``n / fps`` seconds.
            robot_type: The robot's name.
            features: What each frame holds, by names as LeRobot's: ``observation.state``, ``action``,
                ``observation.images.wrist``, ``next.reward`` and so on.

        Raises:
            UserError: The features cannot be, or a dataset is there that has another robot, rate, camera or feature, or
                is being written by another process.
        """
        check_features(features)
        if not fps > 0 or not np.isfinite(fps):
            raise UserError(f"A dataset's frames per second must be above 0, not {fps}.")
        self.path = Path(path)
        self._info = Info(robot_type, fps, dict(features))
        self._lock = lock(
            self.path, LOCK, f"The dataset {self.path} is being written already: it has one writer at a time."
        )
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self._forget()

    def _open(self) -> None:
        self._tasks: list[str] = []
        self._statistics: dict[str, Statistics] = {}
        # the files that the next episode goes to, by chunk and number, and what is in them already
        self._file: tuple[int, ...] = (0, 0)
        self._tables: list[Any] = []
        self._rows_file: tuple[int, ...] = (0, 0)
        self._rows: list[dict[str, Any]] = []
        if (self.path / INFO).exists():
            self._continue()
        else:
            if other := [path.name for path in self.path.iterdir() if path.name != "meta"]:
                raise UserError(f"{self.path} is no dataset but has {other[0]} in it: give a new or an empty folder.")
            self._write(INFO, self._info.to_json())

    def _continue(self) -> None:
        """Go on after the last whole episode of the dataset that is there."""
        held = Dataset(self.path, quiet=True)
        wanted = (self._info.robot_type, self._info.fps, self._info.features)
        check_fits((held.robot_type, held.fps, held.features), wanted, str(self.path), all_of_it=True)
        statistics = held.statistics() if len(held) else {}
        rows = held.rows() if held.disorder else []
        aside = _drop_all_but(held)
        self._info, self._tasks, self._statistics = held.info, list(held.tasks), statistics
        if held.cut_off:
            self._write(TASKS, tables.to_bytes([tables.tasks_table(self._tasks)]))
            self._write(STATISTICS, _to_json(statistics))
        self._list_anew(rows)
        if held.cut_off:
            self._write(INFO, self._info.to_json())
        if len(held):
            self._continue_frames(held)
            self._continue_rows(held)
        if held.cut_off:
            names = ", ".join(str(path.relative_to(self.path)) for path in aside)
            what = f" Set aside: {names}." if aside else ""
            _LOGGER.warning(f"{held.cut_off}{what} The next episode is number {len(held)}.")

    def _list_anew(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write ``meta/episodes`` from the start. A writer that is stopped here leaves some listed twice, or lost."""
        place: tuple[int, ...] = (0, 0)
        written: list[Path] = []
        # the columns of a file are those of its first row: rows that another program wrote may have others
        for _, alike in itertools.groupby(({**row, _ROWS[0]: 0, _ROWS[1]: 0} for row in rows), key=sorted):
            left = list(alike)
            while left:
                some = [{**row, **dict(zip(_ROWS, place))} for row in left[:MOST_ROWS]]
                name = at(EPISODES, place)
                written.append(self.path / name)
                self._write(name, tables.rows_to_bytes(some))
                place, left = following(place, self._info.chunks_size), left[MOST_ROWS:]
        for path in episode_files(self.path):
            if rows and path not in written:
                path.unlink()

    def _continue_frames(self, held: Dataset) -> None:
        last = held.episodes[-1]
        name = at(self._info.data_path, last.place)
        path, rows = self.path / name, last.row + last.length
        names = list(tables.tabled(self._info.features))
        if tables.count_rows(path) > rows:  # an episode that was being written when its writer stopped
            self._write(name, tables.to_bytes([tables.read_rows(path, 0, rows, names)]))
        if path.stat().st_size < MOST_BYTES:
            same = [episode for episode in held.episodes if episode.place == last.place]
            self._file = last.place
            self._tables = [tables.read_rows(path, e.row, e.row + e.length, names) for e in same]
            if self._tables[0].schema.equals(tables.frames_schema(self._info.features)):
                return
        self._file, self._tables = following(last.place, self._info.chunks_size), []

    def _continue_rows(self, held: Dataset) -> None:
        path = episode_files(self.path)[-1]
        self._rows_file = tuple(int(name.rpartition("-")[2]) for name in (path.parent.name, path.stem))
        listed = tables.read_table(path).to_pylist()
        self._rows = [row for row in listed if row["episode_index"] < len(held)]
        if len(listed) > len(self._rows):
            self._write(path.relative_to(self.path), tables.rows_to_bytes(self._rows))
        kinds = {f"stats/{name}/{kind}" for name, found in self._statistics.items() for kind in found}
        if len(self._rows) >= MOST_ROWS or {n for n in self._rows[0] if n.startswith("stats/")} != kinds:
            self._rows_file, self._rows = following(self._rows_file, self._info.chunks_size), []

    @property
    def frames(self) -> int:
        """Frames of the episode that is being recorded."""
        return self._count

    @property
    def episodes(self) -> int:
        """Episodes that are in the dataset."""
        return self._info.total_episodes

    def add_frame(self, frame: Mapping[str, Any]) -> None:
        """Add a frame to the episode that is being recorded; it is kept in memory, films encoded, until that ends.

        Args:
            frame: A value for each feature; images uint8 (height, width, 3).

        Raises:
            UserError: A feature is missing, unknown, of another shape or type, or not finite; the frame is not added.
        """
        if self._lock < 0:
            raise UserError("The dataset was closed: open it again to write.")
        arrays = check_frame(frame, self._info.features, self._count)
        for name, array in arrays.items():
            feature = self._info.features[name]
            if feature.is_film:
                if name not in self._films:
                    self._films[name] = FilmWriter(feature, self._info.fps)
                self._films[name].add(array)
            else:
                self._columns_so_far[name].append(tables.to_png(array) if feature.is_image else array)
            if feature.is_image:
                self._colours[name].add(array)
        self._count += 1

    def discard(self) -> None:
        """Drop the frames of the episode that is being recorded."""
        self._forget()

    def end_episode(self, task: str | Sequence[str]) -> int:
        """Write the episode that was recorded; when this returns, it is on the disk.

        Args:
            task: What the robot was to do, in words; or what in each frame.

        Returns:
            The episode's number.

        Raises:
            UserError: It has no frame, or not as many as tasks, or cannot be written: then its frames are kept, and
                this can be called again.
        """
        if self._lock < 0:
            raise UserError("The dataset was closed: open it again to write.")
        if not self._count:
            raise UserError("An episode without a frame cannot be written: add frames first.")
        episode, start = self._info.total_episodes, self._info.total_frames
        words = [task] * self._count if isinstance(task, str) else list(task)
        if len(words) != self._count:
            raise UserError(f"An episode of {self._count} frames cannot have the tasks of {len(words)}.")
        done = tuple(dict.fromkeys(words))
        tasks = [*self._tasks, *(word for word in done if word not in self._tasks)]
        number = {word: tasks.index(word) for word in done}
        columns = self._with_places(episode, start, [number[word] for word in words])
        table = tables.frames_table(columns, self._info.features)

        file, gathered = self._file, [*self._tables, table]
        data = tables.to_bytes(gathered)
        if len(data) > MOST_BYTES and len(gathered) > 1:
            file, gathered = following(file, self._info.chunks_size), [table]
            data = tables.to_bytes(gathered)
        rows_file, rows = self._rows_file, self._rows
        if len(rows) >= MOST_ROWS:
            rows_file, rows = following(rows_file, self._info.chunks_size), []
        found = self._episode_statistics(columns)
        film_place = divmod(episode, self._info.chunks_size)  # a film for each episode: none is ever written again
        films = {name: Film(film_place, 0.0) for name in self._films}
        place = {
            **Episode(episode, done, self._count, start, (file[0], file[1]), 0, films).to_row(self._info.fps),
            **dict(zip(_ROWS, rows_file)),
        }
        rows = [*rows, tables.episode_row(place, found)]
        statistics = together([self._statistics, found] if self._statistics else [found])
        info = replace(self._info, total_episodes=episode + 1, total_frames=start + self._count, total_tasks=len(tasks))

        for name, film in self._films.items():
            self._write(film_at(info.video_path, name, film_place), film.finish())
        self._write(at(info.data_path, file), data)
        self._write(at(EPISODES, rows_file), tables.rows_to_bytes(rows))
        if len(tasks) > len(self._tasks):
            self._write(TASKS, tables.to_bytes([tables.tasks_table(tasks)]))
        self._write(STATISTICS, _to_json(statistics))
        self._write(INFO, info.to_json())

        self._info, self._tasks, self._statistics = info, tasks, statistics
        self._file, self._tables, self._rows_file, self._rows = file, gathered, rows_file, rows
        if len(data) > MOST_BYTES:  # it will never be written again
            self._file, self._tables = following(file, self._info.chunks_size), []
        self._forget()
        return episode

    def close(self) -> None:
        """Let another process write; frames of an episode that was not ended are dropped."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._forget()

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self) -> None:
        self._count = 0
        self._columns_so_far: dict[str, list[Any]] = {name: [] for name in self._info.features}
        self._films: dict[str, FilmWriter] = {}
        self._colours = {name: Colours() for name, feature in self._info.features.items() if feature.is_image}

    def _with_places(self, episode: int, start: int, tasks: list[int]) -> dict[str, Any]:
        """Return the episode's columns with those that every dataset has."""
        numbers = np.arange(self._count)
        return {
            **{
                name: column if self._info.features[name].is_image else np.stack(column)
                for name, column in self._columns_so_far.items()
                if not self._info.features[name].is_film
            },
            "timestamp": (numbers / self._info.fps).astype(np.float32),
            "frame_index": numbers,
            "episode_index": np.full(self._count, episode),
            "index": start + numbers,
            "task_index": np.array(tasks),
        }

    def _episode_statistics(self, columns: Mapping[str, Any]) -> dict[str, Statistics]:
        return {
            name: self._colours[name].statistics()
            if name in self._colours
            else of_values(column.reshape(len(column), -1))
            for name, column in columns.items()
        } | {name: self._colours[name].statistics() for name in self._films}

    def _write(self, name: str | Path, data: bytes | str) -> None:
        write_atomically(self.path / name, data, what="the dataset's")


def _to_json(statistics: Mapping[str, Statistics]) -> str:
    plain = {name: {kind: value.tolist() for kind, value in found.items()} for name, found in statistics.items()}
    return json.dumps(plain, indent=4) + "\n"


def _drop_all_but(held: Dataset) -> list[Path]:
    """Take away the files after the last whole episode, so that nobody reads them as a part of the dataset.

    What a writer did not come to make part of it is removed; files of episodes that were part of it, but are cut off or
    behind one that is, get another name and stay. Of files that whole episodes share with these, a copy stays.

    Returns:
        What was set aside.
    """
    info = held.info
    frames = {held.path / at(info.data_path, episode.place): episode.row + episode.length for episode in held.episodes}
    films = {
        held.path / film_at(info.video_path, name, film.place)
        for episode in held.episodes
        for name, film in episode.films.items()
    }
    kept, shared, listed = {*frames, *films}, [], 0
    for path in episode_files(held.path):
        count = tables.count_rows(path)
        if listed < len(held) and count >= 0:
            kept.add(path)
            listed += count
            shared += [path] if listed > len(held) else []
    shared += [path for path, rows in frames.items() if tables.count_rows(path) > rows]
    aside = []
    found = (held.path.glob("data/*/*.parquet"), episode_files(held.path), held.path.glob("videos/*/*/*.mp4"))
    for path in sorted(path for paths in found for path in paths if path not in kept or path in shared):
        if not held.cut_off and path not in kept:
            path.unlink()
        elif held.cut_off:
            aside.append(_free(path))
            if path in kept:
                shutil.copy2(path, aside[-1])
            else:
                path.rename(aside[-1])
    for path in (
        *held.path.glob("data/*/.*.tmp"),
        *held.path.glob("meta/**/.*.tmp"),
        *held.path.glob("videos/*/*/.*.tmp"),
    ):
        path.unlink(missing_ok=True)  # what a writer that was killed did not finish
    return aside


def _free(path: Path) -> Path:
    """Return the name that a file is set aside by: one that no file of an earlier time has."""
    endings = (ASIDE if number == 1 else f"{ASIDE}.{number}" for number in itertools.count(1))
    return next(name for ending in endings if not (name := path.with_name(path.name + ending)).exists())
