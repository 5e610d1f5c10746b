"""Write a dataset; an episode is added completely or not at all, also at a kill or a power cut.

Every file is written atomically: the episode's frames first, then their location, then the statistics, and last
``meta/info.json``, whose number of episodes makes the new one part of the dataset. The next writer drops what a stopped
one left beyond that number.

The last file is written again with the new episode until it has a few MB: so a dataset of thousands of short episodes
has tens of files, and none is open while an episode is recorded.
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
from rlstack.data.lerobot.episodes import Episode, Video, episode_files
from rlstack.data.lerobot.features import Feature, check_features, check_fits, check_frame
from rlstack.data.lerobot.layout import EPISODES, INFO, STATISTICS, TASKS, Info, file_at, following
from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.statistics import Colours, Statistics, of_values, together
from rlstack.data.lerobot.videos import VideoWriter
from rlstack.errors import UserError
from rlstack.files import lock, write_atomically

MOST_BYTES = 4_000_000
"""Size up to which a file of frames is written again with the next episode."""

MOST_ROWS = 64
"""Episodes in a file of ``meta/episodes``."""

LOCK = "meta/.writer.lock"
ASIDE = ".set_aside"
"""Suffix of damaged files that an appending writer finds, so that they are not read."""

_ROWS = ("meta/episodes/chunk_index", "meta/episodes/file_index")
_LOGGER = logging.getLogger(__name__)


class DatasetWriter:
    """Records episodes into a new or an existing dataset.

    ::

        features = {"observation.state": vector("shoulder", "elbow"), "action": vector("shoulder", "elbow")}
        with DatasetWriter("demonstrations", 20, "so100", features) as writer:
            for ...:
                writer.add_frame({"observation.state": position, "action": command})
            writer.end_episode("Put the cube into the box.")
    """

    def __init__(self, path: str | Path, fps: float, robot_type: str | None, features: Mapping[str, Feature]) -> None:
        """Create the dataset in the folder ``path``, or open it for more episodes.

        An incomplete one is repaired: it continues after its last complete episode, and damaged files get the suffix
        ``.set_aside``, which is logged as a warning.

        Args:
            path: Its folder.
            fps: Frames per second; frame ``n`` of an episode is at ``n / fps`` seconds.
            robot_type: The robot's name.
            features: Features of a frame, by LeRobot's names: ``observation.state``, ``action``,
                ``observation.images.wrist``, ``next.reward`` and so on.

        Raises:
            UserError: The features are not allowed, the existing dataset has another robot, rate, camera or feature, or
                another process is writing it.
        """
        check_features(features)
        if not fps > 0 or not np.isfinite(fps):
            raise UserError(f"A dataset's frames per second must be above 0, not {fps}.")
        self.path = Path(path)
        self._info = Info(robot_type, fps, dict(features))
        self._lock = lock(
            self.path, LOCK, f"Another process is writing the dataset {self.path}, which has one writer at a time."
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
        # the files of the next episode, by chunk and number, and their present content
        self._file: tuple[int, ...] = (0, 0)
        self._tables: list[Any] = []
        self._rows_file: tuple[int, ...] = (0, 0)
        self._rows: list[dict[str, Any]] = []
        if (self.path / INFO).exists():
            self._continue()
        else:
            if other := [path.name for path in self.path.iterdir() if path.name != "meta"]:
                raise UserError(f"{self.path} has {other[0]} in it and is not a dataset: give a new or empty folder.")
            self._write(INFO, self._info.to_json())

    def _continue(self) -> None:
        """Continue after the last complete episode of the existing dataset."""
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
        """Rewrite ``meta/episodes``; a writer stopped here leaves episodes listed twice, or not at all."""
        place: tuple[int, ...] = (0, 0)
        written: list[Path] = []
        # a file has the columns of its first row; rows by another program may have others
        for _, alike in itertools.groupby(({**row, _ROWS[0]: 0, _ROWS[1]: 0} for row in rows), key=sorted):
            left = list(alike)
            while left:
                some = [{**row, **dict(zip(_ROWS, place))} for row in left[:MOST_ROWS]]
                name = file_at(EPISODES, place)
                written.append(self.path / name)
                self._write(name, tables.rows_to_bytes(some))
                place, left = following(place, self._info.chunks_size), left[MOST_ROWS:]
        for path in episode_files(self.path):
            if rows and path not in written:
                path.unlink()

    def _continue_frames(self, held: Dataset) -> None:
        last = held.episodes[-1]
        name = file_at(self._info.data_path, last.place)
        path, rows = self.path / name, last.row + last.length
        names = list(tables.tabled(self._info.features))
        if tables.count_rows(path) > rows:  # an episode that a stopped writer had begun
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
        """Number of frames of the current episode."""
        return self._count

    @property
    def episodes(self) -> int:
        """Number of episodes in the dataset."""
        return self._info.total_episodes

    def add_frame(self, frame: Mapping[str, Any]) -> None:
        """Add a frame to the current episode, which is in memory, with its videos encoded, until it ends.

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
            if feature.is_video:
                if name not in self._videos:
                    self._videos[name] = VideoWriter(feature, self._info.fps)
                self._videos[name].add(array)
            else:
                self._columns_so_far[name].append(tables.to_png(array) if feature.is_image else array)
            if feature.is_image:
                self._colours[name].add(array)
        self._count += 1

    def discard(self) -> None:
        """Drop the frames of the current episode."""
        self._forget()

    def end_episode(self, task: str | Sequence[str]) -> int:
        """Write the current episode to the disk, and return its number.

        Args:
            task: Description of the task, or one for each frame.

        Raises:
            UserError: It has no frames, the number of tasks differs, or it cannot be written; its frames are kept, and
                this can be called again.
        """
        if self._lock < 0:
            raise UserError("The dataset was closed: open it again to write.")
        if not self._count:
            raise UserError("An episode without frames cannot be written: add frames first.")
        episode, start = self._info.total_episodes, self._info.total_frames
        words = [task] * self._count if isinstance(task, str) else list(task)
        if len(words) != self._count:
            raise UserError(f"An episode of {self._count} frames cannot have {len(words)} tasks: give one per frame.")
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
        video_place = divmod(episode, self._info.chunks_size)  # a video for each episode, so that none is rewritten
        videos = {name: Video(video_place, 0.0) for name in self._videos}
        place = {
            **Episode(episode, done, self._count, start, (file[0], file[1]), 0, videos).to_row(self._info.fps),
            **dict(zip(_ROWS, rows_file)),
        }
        rows = [*rows, tables.episode_row(place, found)]
        statistics = together([self._statistics, found] if self._statistics else [found])
        info = replace(self._info, total_episodes=episode + 1, total_frames=start + self._count, total_tasks=len(tasks))

        for name, video in self._videos.items():
            self._write(file_at(info.video_path, video_place, name), video.finish())
        self._write(file_at(info.data_path, file), data)
        self._write(file_at(EPISODES, rows_file), tables.rows_to_bytes(rows))
        if len(tasks) > len(self._tasks):
            self._write(TASKS, tables.to_bytes([tables.tasks_table(tasks)]))
        self._write(STATISTICS, _to_json(statistics))
        self._write(INFO, info.to_json())

        self._info, self._tasks, self._statistics = info, tasks, statistics
        self._file, self._tables, self._rows_file, self._rows = file, gathered, rows_file, rows
        if len(data) > MOST_BYTES:  # it is full
            self._file, self._tables = following(file, self._info.chunks_size), []
        self._forget()
        return episode

    def close(self) -> None:
        """Release the write lock; frames of an episode that has not ended are dropped."""
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
        self._videos: dict[str, VideoWriter] = {}
        self._colours = {name: Colours() for name, feature in self._info.features.items() if feature.is_image}

    def _with_places(self, episode: int, start: int, tasks: list[int]) -> dict[str, Any]:
        """Return the episode's columns, also those of ``ALWAYS``."""
        numbers = np.arange(self._count)
        return {
            **{
                name: column if self._info.features[name].is_image else np.stack(column)
                for name, column in self._columns_so_far.items()
                if not self._info.features[name].is_video
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
        } | {name: self._colours[name].statistics() for name in self._videos}

    def _write(self, name: str | Path, data: bytes | str) -> None:
        write_atomically(self.path / name, data, what="the dataset's")


def _to_json(statistics: Mapping[str, Statistics]) -> str:
    plain = {name: {kind: value.tolist() for kind, value in found.items()} for name, found in statistics.items()}
    return json.dumps(plain, indent=4) + "\n"


def _drop_all_but(held: Dataset) -> list[Path]:
    """Remove the files after the last complete episode, and return the renamed ones.

    Files that never became part of the dataset are deleted; those of listed episodes that are incomplete, or come after
    an incomplete one, are renamed. A file that also has complete episodes is copied.
    """
    info = held.info
    frames = {
        held.path / file_at(info.data_path, episode.place): episode.row + episode.length for episode in held.episodes
    }
    videos = {
        held.path / file_at(info.video_path, video.place, name)
        for episode in held.episodes
        for name, video in episode.videos.items()
    }
    kept, shared, listed = {*frames, *videos}, [], 0
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
    for pattern in ("data/*/.*.tmp", "meta/**/.*.tmp", "videos/*/*/.*.tmp"):  # of a killed writer
        for path in held.path.glob(pattern):
            path.unlink(missing_ok=True)
    return aside


def _free(path: Path) -> Path:
    """Return an unused name for a damaged file."""
    endings = (ASIDE if number == 1 else f"{ASIDE}.{number}" for number in itertools.count(1))
    return next(name for ending in endings if not (name := path.with_name(path.name + ending)).exists())
