"""Convert demonstrations in a LeRobot dataset to steps of a task, through the policy's own pipeline.

A frame holds the policy's inputs in SI units, each a vector ``observation.NAME`` (NAME as in the policy file, such as
``joint_position``), and ``action``: the motion of the tool along each axis of the task, -1..1. The dataset does not
depend on the observation, which the policy's pipeline computes from the same signals in training and deployment.
If a frame also holds ``command``, the joint targets, the next motion starts there; otherwise it starts where the action
leads. A person's commands may differ from those of a policy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.data.lerobot import ACTION, Dataset, Feature, check_fits, image
from rlstack.data.lerobot.statistics import Statistics
from rlstack.demonstrations.metadata import COMMAND, STATE, check_learned
from rlstack.demonstrations.task_file import task_name
from rlstack.errors import UserError
from rlstack.interfaces.image_reader import is_image
from rlstack.interfaces.kind_signals import shape_of
from rlstack.interfaces.signals import SENSED, camera_of
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.core.pipeline import Tensors
from rlstack.training.hindsight_replay import Rows
from rlstack.training.recorded_episodes import recorded_episodes

OBSERVATION = "observation."
SUCCESS = "next.success"

_SLACK = 0.1
"""Share of a joint's range that a recording may lie beyond it, by calibration."""
_PUSHED = 0.01
"""The same, rad or m, where that is more: a block of table_push pushes fingers of a closed gripper 6 mm beyond 0."""
_ROUNDING = 1e-3
"""Relative difference between frames and their stated range that float32 and text explain."""


def frame_features(environment: Any) -> dict[str, Feature]:
    """Return the features of a task's demonstration frames, as described above; images are the robot's cameras'."""
    axes = tuple(environment.pipeline.axes)
    signals = {feature_of(name): _feature(name, environment.robot) for name in environment.task.inputs}
    return {**signals, ACTION: Feature("float32", (len(axes),), axes), SUCCESS: Feature("bool", (1,))}


def feature_of(signal: str) -> str:
    """Return the name of the feature that holds a signal: ``observation.images.wrist`` of ``wrist_image``."""
    picture = is_image(SENSED[signal])
    return f"{OBSERVATION}images.{camera_of(SENSED[signal])}" if picture else OBSERVATION + signal


def _feature(name: str, robot: Manipulator) -> Feature:
    shape = shape_of(SENSED[name], robot)
    return image(int(shape[0]), int(shape[1])) if is_image(SENSED[name]) else Feature("float32", (int(shape[0]),))


def recorded(path: Path, environment: Any, wanted: int, failures: bool = False) -> list[list[Rows]]:
    """Return the first successful episodes of a dataset as steps of ``environment``.

    With ``failures``, the first episodes, however they ended, and all if there are fewer.

    A dataset lacks the observation after the last frame. If the task was done by then, the last observation stands in
    for it and is not learned from; otherwise that frame's action is dropped.

    Raises:
        UserError: The dataset is of another robot, rate, camera, task or motion, or holds fewer.
    """

    def chosen(held: Dataset) -> Iterable[int]:
        return range(min(wanted, len(held))) if failures else successful(held, wanted)

    if not hasattr(environment.pipeline, "axes"):
        return recorded_episodes(path, environment, chosen)
    held, names = fitting(path, environment, frame_features(environment))
    if any(is_image(SENSED[name]) for name in environment.task.inputs):
        raise UserError(
            f"dataset: {path} is not allowed: a task with cameras learns from its scripted expert's demonstrations"
            " for now, since frames lack the position of the object. Leave it out."
        )
    return [_steps(held.read(number, names), environment) for number in chosen(held)]


def fitting(path: Path, environment: Any, features: dict[str, Feature]) -> tuple[Dataset, tuple[str, ...]]:
    """Return a dataset that fits ``environment`` and has ``features``, and the names of the features to read.

    Raises:
        UserError: It is of another robot, rate, camera, task or motion, or lacks a feature.
    """
    check_learned(path, environment.task)
    robot, rate = environment.robot.name, environment.task.rate_hz
    held = Dataset(path)
    check_fits((held.robot_type, held.fps, {}), (robot, rate, {}), str(path))
    if STATE in held.features and f"{OBSERVATION}joint_position" not in held.features:
        raise UserError(
            f"{path} has joints only in {STATE}, for LeRobot's policies, and no {OBSERVATION}joint_position and so on:"
            f" to learn from bags, run rlstack demo import with --task {task_name(environment.task)}."
        )
    driven = held.features.get(COMMAND)
    if driven is not None and driven.names == tuple(f"{drive.name}.pos" for drive in environment.robot.drives):
        features = {**features, COMMAND: driven}
    check_fits((held.robot_type, held.fps, held.features), (robot, rate, features), str(path))
    return held, tuple(features)


def successful(held: Dataset, wanted: int, least: int | None = None) -> list[int]:
    """Return the numbers of the first successful demonstrations; report on stderr how many were skipped.

    Args:
        held: The dataset.
        wanted: Number of them.
        least: Number of them that suffices; None: all that are wanted.

    Raises:
        UserError: There are too few.
    """
    done = (number for number in range(len(held)) if _succeeded(held, number))
    found = list(islice(done, wanted))
    if len(found) < (wanted if least is None else least):
        some = f", of which {len(found)} succeeded" if len(found) < len(held) else ""
        raise UserError(
            f"{held.path} has {len(held)} demonstrations{some}, but"
            f" {wanted if least is None else least} are required: set fewer (--algorithm-settings.demonstrations"
            f" {len(found)})."
        )
    if found and (missed := found[-1] + 1 - len(found)):
        print(f"{held.path}: {missed} demonstrations did not succeed and are skipped.", file=sys.stderr)
    return found


def _succeeded(held: Dataset, number: int) -> bool:
    return bool(held.read(number, [SUCCESS], start=held.episodes[number].length - 1)[SUCCESS].any())


def check_values(frames: Mapping[str, np.ndarray], environment: Any, where: str) -> None:
    """Raise ``UserError`` if an episode's values are not finite, or its joints or actions are beyond the robot's."""
    for name, values in frames.items():
        if not np.isfinite(values).all():
            frame = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise UserError(f"{where}: its feature '{name}' is not finite in frame {frame}: leave the episode out.")
    joints = frames.get(f"{OBSERVATION}joint_position")
    for drive, seen in zip(environment.robot.drives, () if joints is None else joints.T):
        low, high = drive.lower, drive.upper
        slack = max(_SLACK * (high - low), _PUSHED)
        if len(seen) and (seen.min() < low - slack or seen.max() > high + slack):
            raise UserError(
                f"{where}: {drive.name} goes from {seen.min():.3g} to {seen.max():.3g}, and the robot's from"
                f" {low:.3g} to {high:.3g}: its unit or its zero is another one, and it does not fit."
            )
    motions = np.asarray(frames[ACTION])
    if len(motions) and np.abs(motions).max() > 1.0 + _SLACK:
        raise UserError(
            f"{where}: its actions reach {np.abs(motions).max():.3g}, and the task's are -1 to 1: they have another"
            " scale, and do not fit."
        )


def check_statistics(frames: Mapping[str, np.ndarray], held: Mapping[str, Statistics], where: str) -> None:
    """Raise ``UserError`` if an episode's vectors are beyond the least and largest values that its dataset states."""
    for name, stated in held.items():
        values = np.asarray(frames.get(name, ()))
        low, high = (np.asarray(stated.get(end, ()), np.float64).reshape(-1) for end in ("min", "max"))
        if values.ndim != 2 or not len(values) or not low.shape == high.shape == values.shape[1:]:
            continue  # images, or statistics that say less
        least, most = values.min(axis=0), values.max(axis=0)
        slack = _ROUNDING * (1.0 + np.abs(low) + np.abs(high))
        if ((least < low - slack) | (most > high + slack)).any():
            number = int(np.argmax(np.maximum(low - least, most - high)))
            raise UserError(
                f"{where}: element {number} of '{name}' goes from {least[number]:.3g} to {most[number]:.3g}, and the"
                f" dataset's statistics say {low[number]:.3g} to {high[number]:.3g}: frames or statistics were changed"
                " without the other. Compute the statistics anew if the frames are right."
            )


def steps_of_frames(
    frames: Mapping[str, np.ndarray], environment: Any, row: Callable[[int, Tensors, Tensor], Rows]
) -> list[Rows]:
    """Return an episode's frames as steps, with observations from running the pipeline over their sequence.

    Args:
        frames: Its features by name.
        environment: The environment of the task.
        row: Returns the fields of a frame, besides the action, for its number, its prepared inputs and its observation
            (1, columns).

    Returns:
        The first observation, then each step with the observation after it; the last frame also stands in for the
        observation after it.
    """
    pipeline, seen = environment.pipeline, list[Rows]()
    memory = pipeline.initial_memory(1)
    with torch.no_grad():
        for number, taken in enumerate(np.array(frames[ACTION])):
            inputs = {
                name: torch.from_numpy(np.array(frames[feature_of(name)][number][None], np.float32))
                for name in environment.task.inputs
            }
            action = torch.from_numpy(taken[None]).clamp(-1.0, 1.0)
            prepared = pipeline.prepare(inputs, memory)
            observed = row(number, prepared, pipeline.observe(prepared, memory))
            seen.append({**observed, "action": action[0].numpy()})
            if COMMAND in frames:
                command = torch.from_numpy(np.array(frames[COMMAND][number][None]))
                memory = pipeline.remember_command(prepared, memory, action, command)
            else:
                memory = pipeline.remember(prepared, memory, action)
    # a step's action is in its own frame; its next observation and reward are in the next one
    return [seen[0], *({**after, "action": here["action"]} for here, after in pairwise([*seen, seen[-1]]))]


def _steps(frames: Mapping[str, np.ndarray], environment: Any) -> list[Rows]:
    """Return an episode's frames as steps with their rewards."""

    def row(number: int, prepared: Tensors, observation: Tensor) -> Rows:
        achieved = prepared[environment.task.moved]
        return {
            "observation": observation[0].numpy(),
            "achieved": achieved[0].numpy(),
            "reward": environment.reward_of(achieved, prepared["goal_position"])[0].numpy(),
            "goes_on": np.array(1.0, np.float32),
        }

    *steps, last = steps_of_frames(frames, environment, row)
    none = np.array(0.0, np.float32)
    return [*steps, {**last, "reward": none, "goes_on": none}] if bool(frames[SUCCESS][-1].any()) else steps
