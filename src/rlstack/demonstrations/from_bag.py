"""Converts a bag of an arm at a task into a demonstration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.data.bags import Moments, Recording, moments
from rlstack.data.bags.reading import POSES
from rlstack.data.lerobot import DatasetWriter, Feature, film
from rlstack.demonstrations import metadata
from rlstack.errors import UserError
from rlstack.interfaces.signals import SENSED, camera_of
from rlstack.interfaces.topics import GOAL, OBJECT
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.action_recovery import followed
from rlstack.tasks.manipulator.task import ArmTask

_OFF_M = 0.01
"""m from where commands led the tool, in half of the frames, beyond which the actions say something else."""


@dataclass(frozen=True)
class Shown:
    """What became of a bag.

    Attributes:
        frames: Of the demonstration, by feature.
        left_out: How many there were after the task was done.
        success: Whether it was.
        off_m: At worst and in the middle, how far from where the commands led the tool the actions lead it.
        words: What the arm was to do.
    """

    frames: list[dict[str, Any]]
    left_out: int
    success: bool
    off_m: tuple[float, float]
    words: str

    def write(self, writer: DatasetWriter) -> int:
        """Add it to a dataset with the features of :func:`features_of`; return the episode's number."""
        for frame in self.frames:
            writer.add_frame(frame)
        return writer.end_episode(self.words)

    def describe(self) -> str:
        """Return it in words."""
        worst, usual = (1000.0 * one for one in self.off_m)
        done = "the task was done" if self.success else "the task was not done, so that training passes it over"
        after = f" (what came after, {self.left_out} frames, is left out)" if self.left_out else ""
        return (
            f"{len(self.frames)} frames, {done}{after}; its actions lead the tool within {usual:.2g} mm of its"
            f" commands, {worst:.2g} mm at worst"
        )


def features_of(task: ArmTask, robot: Manipulator, *, films: bool = False) -> dict[str, Feature]:
    """Return what the frames of such a demonstration hold; ``films``: pictures are kept as films."""
    shown = metadata.shown_features(task, robot)
    return {name: film(*f.shape[:2]) if films and f.is_image else f for name, f in shown.items()}


def shown_in(
    recording: Recording,
    name: str,
    task: ArmTask,
    robot: Manipulator,
    *,
    goal: Sequence[float] | None = None,
    succeeded: bool = False,
) -> Shown:
    """Return a bag as a demonstration of a task: its commands become motions of the tool.

    The episode ends where the task was done, as where it is recorded. What came after the last frame is not in a bag:
    where it is done there, it stays so.

    Args:
        recording: The bag.
        name: Of the task.
        task: What was done; its rate is the dataset's.
        robot: The arm.
        goal: Where it was to be done, m, whatever the bag says; None: it says so.
        succeeded: Whether it was done is known: it was, at the bag's end. Else the task judges what was sensed.

    Raises:
        UserError: The bag lacks what the task senses, a topic was silent, nobody can say whether it was done, or its
            commands are no motions of this task's.
    """
    if goal is not None:
        said = np.array([[*goal, 0.0, 0.0, 0.0, 1.0]])
        recording = replace(recording, poses={**recording.poses, GOAL: (np.zeros(1, np.int64), said)})
    sensed = [SENSED[one] for one in task.inputs]
    cameras = tuple(dict.fromkeys(camera for one in sensed if (camera := camera_of(one))))
    poses = tuple(topic for topic in POSES if any(one.topic == topic for one in sensed))
    _check_senses(recording, name, task, robot, cameras, poses)
    if not succeeded and task.objects is not None and OBJECT not in poses:
        raise UserError(
            f"{recording.path}: {name} does not sense where its object is, so nobody can say whether the task was done:"
            " give --succeeded if it was."
        )
    known = moments(recording, task.rate_hz, cameras=cameras, poses=poses, until_next=True)
    pictures = {camera: [source.take(k) for k in range(len(known))] for camera, source in known.pictures.items()}
    seen = [_seen(known, pictures, task, frame) for frame in range(len(known))]
    made = followed(task.pipeline(robot), _inputs(seen, task), known.command)
    worst, usual = float(made.off_m.max()), float(np.median(made.off_m))
    if usual > _OFF_M:
        raise UserError(
            f"{recording.path}: its commands lead the tool where no action of {name} does, {1000 * usual:.3g} mm off in"
            " half of the frames: they are faster than the task's, outside its workspace, or no targets of the joints."
        )
    count, success = (len(seen), True) if succeeded else _ends(seen, made.tool_m, task.fitted(robot))
    frames = [
        {
            **metadata.sensed(task, robot, seen[frame]),
            metadata.ACTION: made.action[frame].astype(np.float32),
            metadata.COMMAND: known.command[frame].astype(np.float32),
            metadata.SUCCESS: success and frame == count - 1,
            metadata.DONE: frame == count - 1,
            metadata.BY_HAND: known.led is not None and bool(known.led[frame]),
        }
        for frame in range(count)
    ]
    return Shown(frames, len(seen) - count, success, (worst, usual), metadata.words_of(task))


def _check_senses(
    recording: Recording, name: str, task: ArmTask, robot: Manipulator, cameras: tuple[str, ...], poses: tuple[str, ...]
) -> None:
    """Refuse a bag that lacks what a task senses."""
    lacking = [f"pictures on {recording.namespace}/{one}/image_raw" for one in cameras if one not in recording.cameras]
    lacking += [f"{recording.namespace}/{topic}" for topic in reversed(poses) if topic not in recording.poses]
    if recording.velocity is None:
        lacking.insert(0, f"velocities in {recording.namespace}/joint_states")
    if lacking:
        by_goal = " (or say where the goal was with --goal X Y Z)" if lacking[-1].endswith(f"/{GOAL}") else ""
        raise UserError(
            f"{recording.path} lacks what {name} senses, {', '.join(lacking)}: record it too{by_goal}, or give --task"
            " in other words for a dataset that LeRobot's policies take."
        )
    for signal, shape in metadata.pictures_of(task, robot).items():
        camera = camera_of(SENSED[signal])
        if (size := recording.cameras[camera][1]) != shape[:2]:
            raise UserError(
                f"{recording.path}: the pictures of {camera} are {size[1]} x {size[0]} pixels, and {name} senses"
                f" {shape[1]} x {shape[0]}: record them so."
            )


def _seen(known: Moments, pictures: dict[str, list[Any]], task: ArmTask, frame: int) -> dict[str, NDArray[Any]]:
    """Return a frame by signal."""
    assert known.velocity is not None
    found: dict[str, NDArray[Any]] = {
        "joint_position": known.position[frame],
        "joint_velocity": known.velocity[frame],
    }
    for name in task.inputs:
        if camera := camera_of(SENSED[name]):
            age = name.endswith("_age")
            found[name] = known.ages[camera][frame : frame + 1] if age else pictures[camera][frame]
        elif SENSED[name].topic in known.poses:
            pose = known.poses[SENSED[name].topic][frame]
            found[name] = pose[3:] if name.endswith("orientation") else pose[:3]
    return found


def _inputs(seen: list[dict[str, NDArray[Any]]], task: ArmTask) -> Iterator[dict[str, NDArray[Any]]]:
    return ({name: frame[name] for name in task.inputs} for frame in seen)


def _ends(seen: list[dict[str, NDArray[Any]]], tool: Array, task: ArmTask) -> tuple[int, bool]:
    """Return how many frames there are to the end, and whether the task was done then."""
    thing = np.array([frame["object_position"] for frame in seen]) if "object_position" in task.inputs else tool
    there = task.done(task.achieved(tool, thing), np.array([frame["goal_position"] for frame in seen]))
    held = 0
    for frame, now in enumerate(there):
        held = held + 1 if now else 0
        if held >= task.hold_steps and task.ends and frame:
            return frame, True  # the frame before it led there
    return len(seen), bool(there[-1])
