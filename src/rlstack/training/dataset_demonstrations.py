"""Convert demonstrations in a LeRobot dataset to steps of a task, through the policy's own pipeline.

A frame holds the policy's inputs in SI units, each a vector ``observation.NAME`` (NAME as in the policy file, such as
``joint_position``), and ``action``: the motion of the tool along each axis of the task, -1..1. The dataset does not
depend on the observation, which the policy's pipeline computes from the same signals in training and deployment.
If a frame also holds ``command``, the joint targets, the next motion starts there; otherwise it starts where the action
leads. A person's commands may differ from those of a policy.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.data.demonstrations import ACTION, Demonstrations
from rlstack.data.lerobot import Dataset, Feature, check_fits, image
from rlstack.demonstrations.metadata import COMMAND, STATE, check_learned, name_of
from rlstack.errors import UserError
from rlstack.interfaces.image_reader import is_picture
from rlstack.interfaces.robot_signals import shape_of
from rlstack.interfaces.signals import SENSED, camera_of
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.core.pipeline import Tensors
from rlstack.training.hindsight_replay import Rows

OBSERVATION = "observation."
SUCCESS = "next.success"


def frame_features(environment: Any) -> dict[str, Feature]:
    """Return the features of a task's demonstration frames, as described above; images are the robot's cameras'."""
    axes = tuple(environment.pipeline.axes)
    signals = {feature_of(name): _feature(name, environment.robot) for name in environment.task.inputs}
    return {**signals, ACTION: Feature("float32", (len(axes),), axes), SUCCESS: Feature("bool", (1,))}


def feature_of(signal: str) -> str:
    """Return the name of the feature that holds a signal: ``observation.images.wrist`` of ``wrist_image``."""
    picture = is_picture(SENSED[signal])
    return f"{OBSERVATION}images.{camera_of(SENSED[signal])}" if picture else OBSERVATION + signal


def _feature(name: str, robot: Manipulator) -> Feature:
    shape = shape_of(SENSED[name], robot)
    return image(int(shape[0]), int(shape[1])) if is_picture(SENSED[name]) else Feature("float32", (int(shape[0]),))


def recorded(path: Path, environment: Any, wanted: int) -> list[list[Rows]]:
    """Return the first successful episodes of a dataset as steps of ``environment``.

    A dataset lacks the observation after the last frame. If the task was done by then, the last observation stands in
    for it and is not learned from; otherwise that frame's action is dropped.

    Raises:
        UserError: The dataset is of another robot, rate, camera, task or motion, or holds fewer.
    """
    if not hasattr(environment.pipeline, "axes"):
        raise UserError(f"dataset: {path} is refused: {type(environment.task).__name__} is not a manipulation task.")
    held = fitting(path, environment, frame_features(environment))
    if any(is_picture(SENSED[name]) for name in environment.task.inputs):
        raise UserError(
            f"dataset: {path} is not allowed: a task with cameras learns from its scripted expert's demonstrations"
            " for now, since frames lack the position of the object. Leave it out."
        )
    return [_steps(held[number], environment) for number in successful(held, wanted)]


def fitting(path: Path, environment: Any, features: dict[str, Feature]) -> Demonstrations:
    """Return a dataset's demonstrations if they fit ``environment`` and their frames have ``features``.

    Raises:
        UserError: They are of another robot, rate, camera, task or motion, or lack a feature, which the message names.
    """
    check_learned(path, environment.task)
    robot, rate = environment.robot.name, environment.task.rate_hz
    held = Dataset(path)
    check_fits((held.robot_type, held.fps, {}), (robot, rate, {}), str(path))
    if STATE in held.features and f"{OBSERVATION}joint_position" not in held.features:
        raise UserError(
            f"{path} has joints only in {STATE}, for LeRobot's policies, and no {OBSERVATION}joint_position and so on:"
            f" to learn from bags, run rlstack demo import with --task {name_of(environment.task)}."
        )
    driven = held.features.get(COMMAND)
    if driven is not None and driven.names == tuple(f"{drive.name}.pos" for drive in environment.robot.drives):
        features = {**features, COMMAND: driven}
    return Demonstrations(path, robot, rate, features)


def successful(held: Demonstrations, wanted: int) -> list[int]:
    """Return the numbers of the first successful demonstrations; report on stderr how many were skipped.

    Raises:
        UserError: There are fewer than ``wanted``.
    """
    done = (number for number in range(len(held)) if _succeeded(held, number))
    found = list(islice(done, wanted))
    if len(found) < wanted:
        some = f", of which {len(found)} succeeded" if len(found) < len(held) else ""
        raise UserError(
            f"{held.dataset.path} has {len(held)} demonstrations{some}, but {wanted} are required: set"
            f" fewer (--algorithm-settings.demonstrations {len(found)})."
        )
    if found and (missed := found[-1] + 1 - len(found)):
        print(f"{held.dataset.path}: {missed} demonstrations did not succeed and are skipped.", file=sys.stderr)
    return found


def remembered(
    pipeline: Any, prepared: Tensors, memory: Tensors, frames: Mapping[str, np.ndarray], number: int
) -> dict[str, Tensor]:
    """Return the pipeline's memory after a frame of an episode; ``prepared`` for its observation."""
    action = torch.from_numpy(np.array(frames[ACTION][number][None])).clamp(-1.0, 1.0)
    if COMMAND not in frames:
        after: dict[str, Tensor] = pipeline.remember(prepared, memory, action)
        return after
    command = torch.from_numpy(np.array(frames[COMMAND][number][None]))
    after = pipeline.remember_command(prepared, memory, action, command)
    return after


def _succeeded(held: Demonstrations, number: int) -> bool:
    length = held.dataset.episodes[number].length
    return bool(held.dataset.read(number, [SUCCESS], start=length - 1)[SUCCESS].any())


def _steps(frames: dict[str, np.ndarray], environment: Any) -> list[Rows]:
    """Return an episode's frames as steps, with observations from running the pipeline over their sequence."""
    pipeline, task = environment.pipeline, environment.task
    frames = {name: np.array(values) for name, values in frames.items()}  # the dataset's arrays are read-only
    memory = {name: torch.zeros(1, *shape) for name, shape in pipeline.memory.items()}
    seen: list[Rows] = []
    with torch.no_grad():
        for number, action in enumerate(torch.from_numpy(frames[ACTION]).clamp(-1.0, 1.0)):
            inputs = {name: torch.from_numpy(frames[OBSERVATION + name][number][None]) for name in task.inputs}
            prepared = pipeline.prepare(inputs, memory)
            achieved = prepared[task.moved]
            seen.append(
                {
                    "observation": pipeline.observe(prepared, memory)[0].numpy(),
                    "achieved": achieved[0].numpy(),
                    "action": action.numpy(),
                    "reward": environment.reward_of(achieved, inputs["goal_position"])[0].numpy(),
                    "goes_on": np.array(1.0, np.float32),
                }
            )
            memory = remembered(pipeline, prepared, memory, frames, number)
    steps = [seen[0]]
    # a step's action is in its own frame; its next observation and reward are in the next one
    for before, after in pairwise(seen):
        steps.append({**after, "action": before["action"]})
    if bool(frames[SUCCESS][-1].any()):
        none = np.array(0.0, np.float32)
        steps.append({**seen[-1], "reward": none, "goes_on": none})
    return steps
