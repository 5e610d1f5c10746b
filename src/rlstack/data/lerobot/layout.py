"""File layout of LeRobotDataset v3.0, and its ``meta/info.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.data.lerobot.features import ALWAYS, Feature, from_data
from rlstack.data.lerobot.videos import video_info
from rlstack.errors import UserError

VERSION = "v3.0"
INFO = "meta/info.json"
STATISTICS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEOS = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

CHUNK = 1000
"""Files in a chunk's folder."""


@dataclass(frozen=True)
class Info:
    """Content of ``meta/info.json``.

    Attributes:
        robot_type: The robot's name, or None if unknown.
        fps: Frames per second.
        features: By name, without those that every dataset has.
        total_episodes: Number of complete episodes.
        total_frames: Number of their frames.
        total_tasks: Number of task descriptions.
        chunks_size: Files in a chunk's folder.
        data_path: Pattern of the frames' files, with ``{chunk_index}`` and ``{file_index}``.
        video_path: Pattern of the videos, with ``{video_key}`` as well.
    """

    robot_type: str | None
    fps: float
    features: Mapping[str, Feature]
    total_episodes: int = 0
    total_frames: int = 0
    total_tasks: int = 0
    chunks_size: int = CHUNK
    data_path: str = DATA
    video_path: str = VIDEOS

    def to_json(self) -> str:
        """Return it as JSON."""
        every = {**self.features, **ALWAYS}
        videos = {name: feature for name, feature in every.items() if feature.is_video}
        data = {
            "codebase_version": VERSION,
            "robot_type": self.robot_type,
            "total_episodes": self.total_episodes,
            "total_frames": self.total_frames,
            "total_tasks": self.total_tasks,
            "chunks_size": self.chunks_size,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": int(self.fps) if float(self.fps).is_integer() else self.fps,
            "splits": {"train": f"0:{self.total_episodes}"},
            "data_path": self.data_path,
            "video_path": self.video_path if videos else None,
            "features": {
                name: {**feature.to_data(), **({"info": video_info(feature, self.fps)} if name in videos else {})}
                for name, feature in every.items()
            },
        }
        return json.dumps(data, indent=4, ensure_ascii=False) + "\n"


def read_info(folder: Path) -> Info:
    """Read ``meta/info.json`` of the dataset in ``folder``.

    Raises:
        UserError: It is not a dataset, of another version, or the file is damaged.
    """
    path = folder / INFO
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} is not a LeRobot dataset: it has no {INFO}. Check the path.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): copy the dataset again.") from error
    version = data.get("codebase_version") if isinstance(data, dict) else None
    if not isinstance(version, str) or not version.startswith("v3."):
        raise UserError(
            f"{path} is of version {version}, and only version 3 of LeRobot's datasets can be read: convert it with"
            " lerobot's own converter."
        )
    try:
        features = {name: from_data(entry) for name, entry in data["features"].items() if name not in ALWAYS}
        fps, robot = float(data["fps"]), data.get("robot_type")
        totals = {name: int(data[name]) for name in ("total_episodes", "total_frames", "total_tasks")}
        chunk, data_path = int(data.get("chunks_size", CHUNK)), str(data.get("data_path", DATA))
        data_path.format(chunk_index=0, file_index=0)
        video_path = str(data.get("video_path") or VIDEOS)
        video_path.format(video_key="", chunk_index=0, file_index=0)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"{path} is not of LeRobot's version 3 ({error!r}): copy the dataset again.") from error
    if not fps > 0 or chunk < 1 or min(totals.values()) < 0:
        raise UserError(f"{path}: fps and chunks_size must be above 0, and no total below it.")
    return Info(robot, fps, features, **totals, chunks_size=chunk, data_path=data_path, video_path=video_path)


def following(place: tuple[int, ...], chunk: int) -> tuple[int, int]:
    """Return chunk and file of the file after ``place``."""
    return (place[0] + 1, 0) if place[1] + 1 >= chunk else (place[0], place[1] + 1)


def file_at(pattern: str, place: tuple[int, ...], camera: str = "") -> str:
    """Return the path of the file at ``place`` (chunk, file); for videos, of a camera."""
    return pattern.format(video_key=camera, chunk_index=place[0], file_index=place[1])


def read_statistics(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Return ``meta/stats.json``, or None if it is missing or damaged: it can be computed from the episodes."""
    try:
        data = json.loads((folder / STATISTICS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
