"""Convert a bag of an arm into a demonstration of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.data.bags import Moments, Recording, moments
from rlstack.data.bags.reading import POSES
from rlstack.data.lerobot import DatasetWriter, Feature, video
from rlstack.demonstrations import metadata
from rlstack.demonstrations.task_file import task_description
from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.signals import SENSED, camera_of
from rlstack.interfaces.topics import GOAL, INSTRUCTION, OBJECT
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.action_recovery import recover_actions
from rlstack.tasks.manipulator.task import ArmTask

_OFF_M = 0.01
"""Largest median deviation, m, of the actions' tool position from the commands'."""


@dataclass(frozen=True)
class BagDemonstration:
    """A demonstration converted from a bag.

    Attributes:
        frames: Frames of the demonstration, by feature.
        left_out: Number of frames dropped after the task succeeded.
        success: Whether the task succeeded.
        off_m: Maximum and median deviation of the actions' tool position from the commands'.
        words: The task's description, or its first instruction.
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
        """Describe the demonstration in one line."""
        worst, usual = (1000.0 * one for one in self.off_m)
        done = "the task succeeded" if self.success else "the task did not succeed, so training skips it"
        after = f" ({self.left_out} later frames are left out)" if self.left_out else ""
        return (
            f"{len(self.frames)} frames, {done}{after}; its actions move the tool to within {usual:.2g} mm of"
            f" its commands in half of the frames, {worst:.2g} mm at worst"
        )


def features_of(task: ArmTask, robot: Manipulator, *, videos: bool = False) -> dict[str, Feature]:
    """Return the features of such a demonstration; ``videos``: store images as video."""
    shown = metadata.demonstration_features(task, robot)
    return {name: video(*f.shape[:2]) if videos and f.is_image else f for name, f in shown.items()}


def convert(
    recording: Recording,
    name: str,
    task: ArmTask,
    robot: Manipulator,
    *,
    goal: Sequence[float] | None = None,
    succeeded: bool = False,
) -> BagDemonstration:
    """Convert a bag into a demonstration of a task: its commands become tool motions.

    The episode ends when the task succeeds, as in recording. If it succeeds in the bag's last frame, success is
    assumed to last.

    Args:
        recording: The bag.
        name: Name of the task.
        task: The task; its rate is the dataset's.
        robot: The arm.
        goal: The goal, m, overriding the bag's; None: read it from the bag.
        succeeded: The bag is known to end in success. Otherwise the task decides from the observations.

    Raises:
        UserError: The bag lacks signals that the task senses, a topic was silent, success cannot be decided, or its
            commands are not motions of this task.
    """
    if goal is not None:
        said = np.array([[*goal, 0.0, 0.0, 0.0, 1.0]])
        recording = replace(recording, poses={**recording.poses, GOAL: (np.zeros(1, np.int64), said)})
    cameras, poses = _sources(task)
    check_senses(recording, name, task, robot)
    if not succeeded and task.objects is not None and OBJECT not in poses:
        raise UserError(
            f"{recording.path}: {name} does not sense its object's position, so its success cannot be decided: give"
            " --succeeded if it succeeded."
        )
    known = moments(recording, task.rate_hz, cameras=cameras, poses=poses, until_next=True)
    pictures = {camera: [source.take(k) for k in range(len(known))] for camera, source in known.images.items()}
    seen = [_seen(known, pictures, task, frame) for frame in range(len(known))]
    made = recover_actions(task.pipeline(robot), _inputs(seen, task), known.command)
    worst, usual = float(made.off_m.max()), float(np.median(made.off_m))
    if usual > _OFF_M:
        raise UserError(
            f"{recording.path}: its commands move the tool to where no action of {name} does, {1000 * usual:.3g} mm off"
            " in half of the frames: they are faster than the task's, outside its workspace, or not joint targets."
        )
    count, success = (len(seen), True) if succeeded else _ends(seen, made.tool_m, task.fitted(robot))
    frames = [
        {
            **metadata.sensed(task, robot, seen[frame]),
            metadata.ACTION: made.action[frame].astype(np.float32),
            metadata.COMMAND: known.command[frame].astype(np.float32),
            metadata.SUCCESS: success and frame == count - 1,
            metadata.DONE: frame == count - 1,
            metadata.INTERVENTION: known.intervened is not None and bool(known.intervened[frame]),
        }
        for frame in range(count)
    ]
    words = known.instructions[0] if INSTRUCTION in task.inputs else task_description(task)
    return BagDemonstration(frames, len(seen) - count, success, (worst, usual), words)


def _sources(task: ArmTask) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the cameras and the topics of poses that a task senses."""
    sensed = [SENSED[one] for one in task.inputs]
    cameras = tuple(dict.fromkeys(camera for one in sensed if (camera := camera_of(one))))
    return cameras, tuple(topic for topic in POSES if any(one.topic == topic for one in sensed))


def check_senses(recording: Recording, name: str, task: ArmTask, robot: Manipulator) -> None:
    """Refuse a bag that lacks signals that a task senses; raises ``UserError``, which names them."""
    cameras, poses = _sources(task)
    lacking = [f"images on {recording.namespace}/{one}/image_raw" for one in cameras if one not in recording.cameras]
    if INSTRUCTION in task.inputs and not recording.instructions[1]:
        lacking.append(f"{recording.namespace}/{INSTRUCTION}")
    lacking += [f"{recording.namespace}/{topic}" for topic in reversed(poses) if topic not in recording.poses]
    if recording.velocity is None:
        lacking.insert(0, f"velocities in {recording.namespace}/joint_states")
    if lacking:
        by_goal = " (or give the goal with --goal X Y Z)" if lacking[-1].endswith(f"/{GOAL}") else ""
        raise UserError(
            f"{recording.path} lacks what {name} senses, {', '.join(lacking)}: record it too{by_goal}, or give --task"
            " a description in words, for a dataset for LeRobot's policies."
        )
    for signal, shape in metadata.pictures_of(task, robot).items():
        camera = camera_of(SENSED[signal])
        if (size := recording.cameras[camera][1]) != shape[:2]:
            raise UserError(
                f"{recording.path}: the images of {camera} are {size[1]} x {size[0]} pixels, and {name} senses"
                f" {shape[1]} x {shape[0]}: record them in that size."
            )


def _seen(known: Moments, pictures: dict[str, list[Any]], task: ArmTask, frame: int) -> dict[str, NDArray[Any]]:
    """Return a frame's observations by signal."""
    assert known.velocity is not None
    found: dict[str, NDArray[Any]] = {
        **({INSTRUCTION: encoded(known.instructions[frame])} if INSTRUCTION in task.inputs else {}),
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
    """Return the number of frames to the end, and whether the task succeeded."""
    thing = np.array([frame["object_position"] for frame in seen]) if "object_position" in task.inputs else tool
    there = task.done(task.achieved(tool, thing), np.array([frame["goal_position"] for frame in seen]))
    held = 0
    for frame, now in enumerate(there):
        held = held + 1 if now else 0
        if held >= task.hold_steps and task.ends and frame:
            return frame, True  # reached by the previous frame's action
    return len(seen), bool(there[-1])
