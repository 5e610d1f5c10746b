"""Convert a bag to an episode of a dataset; each frame holds the newest data at its time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.data.bags.reading import Recording, Stamps, rgb
from rlstack.data.lerobot import DatasetWriter, Feature, image, number, vector, video
from rlstack.errors import UserError
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.topics import GOAL

STATE, ACTION = "observation.state", "action"
CAMERA = "observation.images."

INTERVENTION = "intervention"
"""Feature of whether the operator intervened, as in demonstrations."""

STALE_S = 0.5
"""Largest age of data in a frame."""


def features_of(recording: Recording, joints: tuple[str, ...], *, videos: bool = False) -> dict[str, Feature]:
    """Return the features of a recording: joints, targets as actions, images, and interventions if there can be any.

    Args:
        recording: The bag.
        joints: The robot's joints.
        videos: Store images as video, which is smaller and lossy.
    """
    camera = video if videos else image
    speeds = [f"{name}.vel" for name in joints] if recording.velocity is not None else []
    return {
        STATE: vector(*(f"{name}.pos" for name in joints), *speeds),
        ACTION: vector(*(f"{name}.pos" for name in joints)),
        **({INTERVENTION: number("bool")} if recording.intervened is not None else {}),
        **{CAMERA + name: camera(*size) for name, (_, size) in recording.cameras.items()},
    }


def add_bag(writer: DatasetWriter, recording: Recording, fps: float, task: str) -> int:
    """Add a recording to a dataset as an episode.

    A frame takes the newest state, images and command with stamps up to its time; commands here carry the stamp of the
    observation that they answer.

    Args:
        writer: Writer of a dataset with the features of :func:`features_of`.
        recording: The bag.
        fps: The dataset's rate.
        task: Description of the task.

    Returns:
        The episode's number.

    Raises:
        UserError: The states are slower than the dataset, a topic was silent for too long, or the recording is too
            short.
    """
    known = moments(recording, fps, cameras=tuple(recording.cameras))
    try:
        for frame in range(len(known)):
            parts = [array[frame] for array in (known.position, known.velocity) if array is not None]
            writer.add_frame(
                {
                    STATE: np.concatenate(parts).astype(np.float32),
                    ACTION: known.command[frame].astype(np.float32),
                    **({INTERVENTION: known.intervened[frame]} if known.intervened is not None else {}),
                    **{CAMERA + name: source.take(frame) for name, source in known.images.items()},
                }
            )
    except BaseException:
        writer.discard()
        raise
    return writer.end_episode(task)


@dataclass(frozen=True)
class Moments:
    """Data at each of the N frames of a recording.

    Attributes:
        position: (N, joints) rad or m.
        velocity: (N, joints) rad/s or m/s; None: the states have none.
        command: (N, joints) rad or m.
        intervened: (N,) whether an operator intervened; None: not possible.
        poses: By topic (N, 7) position, m, and orientation, xyzw.
        images: By camera, the source of each frame's image, read once and in order.
        ages: By camera (N,) age of the frame's image, s.
        instructions: (N,) sentences; empty: the recording has none.
    """

    position: Array
    velocity: Array | None
    command: Array
    intervened: NDArray[np.bool_] | None
    poses: Mapping[str, Array]
    images: Mapping[str, ImageSource]
    ages: Mapping[str, Array]
    instructions: tuple[str, ...]

    def __len__(self) -> int:
        """Return N."""
        return len(self.position)


def moments(
    recording: Recording,
    fps: float,
    *,
    cameras: Sequence[str] = (),
    poses: Sequence[str] = (),
    until_next: bool = False,
) -> Moments:
    """Return the newest data at each frame, with stamps up to its time; of images, the newest that had arrived.

    Args:
        recording: The bag.
        fps: Frames per second.
        cameras: The required cameras.
        poses: The required topics of poses.
        until_next: A frame's command is the last one before the next frame instead of the newest one at its own time:
            the joint targets by then, at any command rate.

    Raises:
        UserError: See :func:`add_bag`.
    """
    tracked = [name for name in poses if name != GOAL]
    at_ns = _frames(recording, fps, [_shown(recording, n) for n in cameras] + [recording.poses[n][0] for n in tracked])
    state = _newest(recording.state_ns, at_ns, "joint_states", recording)
    # two stamps of rounded times may differ by some ns
    answered_ns = at_ns + round(NANOSECONDS / fps) - 2000 if until_next else at_ns
    command = _newest(recording.command_ns, answered_ns, "the commands", recording)
    images: dict[str, ImageSource] = {}
    ages: dict[str, Array] = {}
    for name in cameras:
        stamps, _ = recording.cameras[name]
        chosen = _arrived(recording, name, at_ns)
        images[name], ages[name] = ImageSource(recording, name, chosen), (at_ns - stamps[chosen]) / NANOSECONDS
    placed: dict[str, Array] = {}
    for name in poses:
        stamps, values = recording.poses[name]
        if name == GOAL:
            placed[name] = values[_held(stamps, at_ns)]
        else:
            placed[name] = values[_newest(stamps, at_ns, f"the poses on {name}", recording)]
    said_ns, sentences = recording.instructions
    return Moments(
        position=recording.position[state],
        velocity=None if recording.velocity is None else recording.velocity[state],
        command=recording.command[command],
        intervened=_intervened(recording, at_ns),
        poses=placed,
        images=images,
        ages=ages,
        instructions=tuple(sentences[k] for k in _held(said_ns, at_ns)) if sentences else (),
    )


def _shown(recording: Recording, camera: str) -> Stamps:
    """Return from when until when a camera has an image to show: its last one holds for its usual period."""
    arrived = np.maximum.accumulate(recording.arrived[camera])
    usual = int(np.median(np.diff(arrived))) if len(arrived) > 1 else 0
    return np.array([arrived[0], arrived[-1] + usual])


def _arrived(recording: Recording, camera: str, at_ns: Stamps) -> Index:
    """Return for each time the index of the image with the newest stamp that had arrived."""
    stamps, arrived = recording.cameras[camera][0], np.maximum.accumulate(recording.arrived[camera])
    newest = np.maximum.accumulate(stamps)
    best = np.maximum.accumulate(np.where(stamps == newest, np.arange(len(stamps)), 0))
    there = np.searchsorted(arrived, at_ns + 1000, side="right") - 1
    _newest(np.sort(stamps), at_ns, f"the camera {camera}", recording)  # refuses a camera that was silent
    found: Index = best[there].astype(np.intp)
    return found


def _held(stamps: Stamps, at_ns: Stamps) -> Index:
    """Return for each time the index of what held until the next one; the first may have held before the bag began."""
    return np.maximum(np.searchsorted(stamps, at_ns, side="left") - 1, 0).astype(np.intp)


def _intervened(recording: Recording, at_ns: Stamps) -> NDArray[np.bool_] | None:
    """Return for each time whether an operator intervened; False before the first message."""
    if recording.intervened is None:
        return None
    stamps, flags = recording.intervened
    return np.concatenate([[False], flags])[np.searchsorted(stamps, at_ns, side="left")]


class ImageSource:
    """One camera's images, decoded on first use and dropped afterwards."""

    def __init__(self, recording: Recording, camera: str, chosen: Index) -> None:
        self._where = f"{recording.path}: {recording.topics[camera]}"
        self._chosen, self._source = chosen, recording.images(camera)
        self._last = {int(number): frame for frame, number in enumerate(chosen)}
        self._held: dict[int, NDArray[np.uint8]] = {}

    def take(self, frame: int) -> NDArray[np.uint8]:
        """Return a frame's image (height, width, 3); call it for frames in order."""
        number = int(self._chosen[frame])
        while number not in self._held:
            found, message = next(self._source)
            if found in self._last:
                self._held[found] = rgb(message(), self._where)
        picture = self._held[number]
        self._held = {held: kept for held, kept in self._held.items() if self._last[held] > frame}
        return picture


def _frames(recording: Recording, fps: float, others: Sequence[Stamps]) -> Stamps:
    """Return the frames' times, ns: from when every topic has started until the first ends."""
    if not (fps > 0 and math.isfinite(fps)):
        raise UserError(f"The rate {fps} is not allowed: give the dataset's frames per second.")
    spans = [recording.state_ns, recording.command_ns, *(np.sort(stamps) for stamps in others)]
    start, end = max(int(s[0]) for s in spans), min(int(s[-1]) for s in spans)
    if end <= start:
        raise UserError(f"{recording.path}: states, commands, images and poses were never recorded at the same time.")
    usual = float(np.median(np.diff(recording.state_ns))) / NANOSECONDS
    if fps * usual > 1.5:
        raise UserError(
            f"{recording.path} has joint_states at {1 / usual:.3g} Hz, which a dataset at {fps:g} Hz would repeat: give"
            f" --fps {1 / usual:.0f} or less."
        )
    count = int((end - start) * fps / NANOSECONDS + 1e-6) + 1
    return start + np.rint(np.arange(count) * NANOSECONDS / fps).astype(np.int64)


def _newest(stamps: Stamps, at_ns: Stamps, what: str, recording: Recording) -> Index:
    """Return for each time the index of the newest stamp up to it; rounded stamps may differ by some ns."""
    found = np.searchsorted(stamps, at_ns + 1000, side="right") - 1
    age_s: Any = (at_ns - stamps[found]) / NANOSECONDS
    if (worst := int(age_s.argmax())) is not None and age_s[worst] > STALE_S:
        since = (stamps[found[worst]] - at_ns[0]) / NANOSECONDS
        raise UserError(
            f"{recording.path}: {what} were silent for more than {STALE_S:g} s, {since:.1f} s after the beginning: cut"
            " the bag there."
        )
    return found.astype(np.intp)
