"""Camera images as videos: an MP4 for each episode and camera, by PyAV, which brings FFmpeg with it.

A video is smaller than PNG images, but lossy. Every second frame is a key frame, as in LeRobot's datasets, so that
single frames are found fast.
"""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.data.lerobot.features import Feature
from rlstack.errors import UserError
from rlstack.libraries import import_library

CODEC, PIXELS = "libx264", "yuv420p"
_OPTIONS = {"g": "2", "bf": "0", "crf": "20", "preset": "veryfast"}
"""Constant quality, near-lossless for images without noise."""


class VideoWriter:
    """Encodes one video in memory, image by image.

    Args:
        feature: The camera's feature.
        fps: Frames per second.
    """

    def __init__(self, feature: Feature, fps: float) -> None:
        av = import_library("av", "data")
        self._av, self._file = av, io.BytesIO()
        self._container = av.open(self._file, "w", format="mp4")
        rate = Fraction(fps).limit_denominator(1001)
        self._stream = self._container.add_stream(CODEC, rate=rate, options=dict(_OPTIONS))
        self._stream.height, self._stream.width = feature.shape[:2]
        self._stream.pix_fmt = PIXELS
        self._data: bytes | None = None

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Add an image, uint8 (height, width, 3)."""
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        self._container.mux(self._stream.encode(frame))

    def finish(self) -> bytes:
        """Return the whole video; can be called again."""
        if self._data is None:
            self._container.mux(self._stream.encode(None))
            self._container.close()
            self._data = self._file.getvalue()
        return self._data


def read_video(path: Path, feature: Feature, fps: float, start_s: float, first: int, stop: int) -> NDArray[np.uint8]:
    """Return images of an episode, uint8 (stop - first, height, width, 3).

    Args:
        path: The video.
        feature: The camera's feature.
        fps: Frames per second.
        start_s: Start of the episode in it, s.
        first: First frame of the episode to return.
        stop: The frame after the last.

    Raises:
        UserError: It is damaged, too short, or of another size.
    """
    av = import_library("av", "data")
    found = np.empty((stop - first, *feature.shape), np.uint8)
    left = set(range(first, stop))
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            container.seek(int((start_s + first / fps) / stream.time_base), stream=stream)
            for frame in container.decode(stream) if left else ():
                number = round((float(frame.pts * stream.time_base) - start_s) * fps)
                if number in left:
                    picture = frame.to_ndarray(format="rgb24")
                    if picture.shape != feature.shape:
                        raise UserError(f"{path} has frames of {picture.shape[:2]} pixels, not {feature.shape[:2]}.")
                    found[number - first] = picture
                    left.discard(number)
                if not left:
                    break
    except (av.FFmpegError, IndexError, OSError, TypeError) as error:
        raise UserError(f"{path} cannot be read as a video ({error}): damaged; copy the dataset again.") from error
    if left:
        raise UserError(f"{path} ends before frame {min(left)} of the episode: damaged; copy the dataset again.")
    return found


def count_frames(path: Path) -> int:
    """Return the number of frames of a video, or -1 if it is missing or cut off."""
    av = import_library("av", "data")
    try:
        with av.open(str(path)) as container:
            return int(container.streams.video[0].frames)
    except (av.FFmpegError, IndexError, OSError):
        return -1


def video_info(feature: Feature, fps: float) -> dict[str, Any]:
    """Return LeRobot's entry for a video in ``meta/info.json``."""
    height, width, channels = feature.shape
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": "h264",
        "video.pix_fmt": PIXELS,
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.channels": channels,
        "has_audio": False,
    }
