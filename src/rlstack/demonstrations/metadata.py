"""Features of a dataset of an arm's demonstrations, and what of its task must fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack import schema
from rlstack.data.lerobot import Dataset, Feature, check_fits, image, number, vector
from rlstack.demonstrations.task_file import TASK_FILE, read_task_file, settings_of, task_name
from rlstack.errors import UserError
from rlstack.interfaces.image_reader import is_image
from rlstack.interfaces.signals import INSTRUCTION_BYTES, camera_of
from rlstack.interfaces.signals import SENSED as SIGNALS
from rlstack.kinds.manipulator.spec import Manipulator, load_manipulator
from rlstack.robots import robot_names
from rlstack.tasks import TASKS
from rlstack.tasks.manipulator.demonstration import TRIAL, DemonstrationEnvironment
from rlstack.tasks.manipulator.task import ArmTask

SENSED = "observation."
"""Prefix of the policy's inputs, as sensed: the observations to learn from."""
STATE = "observation.state"
"""The joints in LeRobot's convention: each ``NAME.pos`` rad or m, then each ``NAME.vel`` rad/s or m/s."""
ENVIRONMENT_STATE = "observation.environment_state"
"""The other observations, likewise: positions, m, and orientations (xyzw) of goal and object."""
ACTION = "action"
"""The action in the policy's terms: motions of tool and gripper in -1..1."""
COMMAND = "command"
"""The joint targets, ``NAME.pos`` rad or m."""
REWARD, SUCCESS, DONE, TERMINATED = "next.reward", "next.success", "next.done", "next.terminated"
INTERVENTION = "intervention"
"""Whether the operator chose the action."""
OBSERVATION, ACHIEVED = "policy.observation", "policy.achieved"
"""The network's observation, and the achieved position, m, for a replay buffer."""
SIMULATOR, TRIAL_OF = "simulation.state", "simulation.trial"
"""The simulator's state before the step, and the trial's parameters, from which a replay starts."""
SIMULATION_PREFIX = "simulation."
"""Prefix of :data:`GROUND_TRUTH` signals that the policy does not sense: the simulator's ground truth."""
GROUND_TRUTH = {"object_position": 3, "object_orientation": 4}
"""Pose of the object, m and xyzw."""


@dataclass(frozen=True)
class DatasetTask:
    """The task of a dataset's demonstrations.

    Attributes:
        name: Name of the task.
        task: Its configuration.
        robot: The arm.
    """

    name: str
    task: ArmTask
    robot: Manipulator


def task_called(name: str, settings: dict[str, Any] | None = None, where: str = "") -> ArmTask:
    """Return a task that can be demonstrated, with some settings changed.

    Raises:
        UserError: The task is unknown (nearest names listed), cannot be demonstrated, or refuses a setting.
    """
    kind = TASKS.load(name)
    if not kind.demonstration_class:
        others = ", ".join(known for known in TASKS.names() if TASKS.load(known).demonstration_class)
        raise UserError(f"'{name}' cannot be demonstrated. Tasks that can: {others}.")
    task: ArmTask = schema.load(kind, settings or {}, where or name)
    return task


def features_of(station: DemonstrationEnvironment) -> dict[str, Feature]:
    """Return the features of a demonstration recorded in simulation."""
    # images are features of their own
    columns = [f"{row.name}.{k}" for row in station.pipeline.table() if row.name != "pictures" for k in range(row.size)]
    return {
        **demonstration_features(station.task, station.robot),
        **{SIMULATION_PREFIX + name: vector(*"xyzw"[:size]) for name, size in _known(station).items()},
        REWARD: number(),
        TERMINATED: number("bool"),
        OBSERVATION: vector(*columns),
        ACHIEVED: vector("x", "y", "z"),
        SIMULATOR: Feature("float64", (len(station.state),)),
        TRIAL_OF: vector(*TRIAL, dtype="float64"),
    }


def demonstration_features(task: ArmTask, robot: Manipulator) -> dict[str, Feature]:
    """Return the features of any demonstration: observations, actions and outcome."""
    joints = [drive.name for drive in robot.drives]
    others = _sensed(task)
    signals = {f"{SENSED}joint_position": vector(*joints), f"{SENSED}joint_velocity": vector(*joints)}
    signals |= {SENSED + name: vector(*_elements(name, size)) for name, size in others.items()}
    signals |= {picture_feature(name): image(*shape[:2]) for name, shape in pictures_of(task, robot).items()}
    return {
        **signals,
        STATE: vector(*(f"{name}.pos" for name in joints), *(f"{name}.vel" for name in joints)),
        ENVIRONMENT_STATE: vector(*(f"{name}.{one}" for name, size in others.items() for one in _elements(name, size))),
        ACTION: vector(*task.axes),
        COMMAND: vector(*(f"{name}.pos" for name in joints)),
        SUCCESS: number("bool"),
        DONE: number("bool"),
        INTERVENTION: number("bool"),
    }


def sensed(task: ArmTask, robot: Manipulator, seen: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a frame's features for observations given by signal."""
    pictures = pictures_of(task, robot)
    return {
        **{SENSED + name: seen[name].astype(np.float32) for name in task.inputs if name not in pictures},
        **{picture_feature(name): seen[name].astype(np.uint8) for name in pictures},
        STATE: np.concatenate([seen["joint_position"], seen["joint_velocity"]]).astype(np.float32),
        ENVIRONMENT_STATE: np.concatenate([seen[name] for name in _sensed(task)]).astype(np.float32),
    }


def observed(station: DemonstrationEnvironment) -> dict[str, np.ndarray]:
    """Return a frame's features for the state before the step."""
    seen, task, robot = station.senses(), station.task, station.robot
    return {
        **sensed(task, robot, seen),
        **{SIMULATION_PREFIX + name: seen[name].astype(np.float32) for name in _known(station)},
        OBSERVATION: station.observation()[: station.pipeline.size - _pixels(pictures_of(task, robot))].astype(
            np.float32
        ),
        ACHIEVED: station.achieved().astype(np.float32),
        SIMULATOR: station.state,
        TRIAL_OF: station.trial,
    }


def check_metadata(path: Path, name: str, task: ArmTask, robot: Manipulator) -> None:
    """Refuse demonstrations whose task differs from those in the folder ``path``, if any; the writer checks the rest.

    Raises:
        UserError: The dataset there has another robot, rate, task or settings; names which.
    """
    if not (path / "meta/info.json").exists():
        return
    dataset, held = Dataset(path, quiet=True), read_task_file(path)  # the writer reports missing data
    check_fits((dataset.robot_type, dataset.fps, {}), (robot.name, task.rate_hz, {}), str(path))
    if held is None:
        if len(dataset):
            raise UserError(f"{path} was not recorded by rlstack demo record: give a new folder.")
        return
    if held["task"] != name:
        raise UserError(f"{path} holds demonstrations of {held['task']}, not of {name}: give another folder.")
    for key, wanted in settings_of(task).items():
        # the time limit of an episode differs between demonstrators
        if key != "episode_s" and held["settings"].get(key) != wanted:
            raise UserError(
                f"{path} was recorded with {key} {held['settings'].get(key)}, not {wanted}: give another folder."
            )


def check_learned(path: Path, task: ArmTask) -> None:
    """Refuse to learn ``task`` from a dataset recorded for another task, or with other motion settings.

    The motion settings define the meaning of an action. Start states, episode length, rewards and sensor noise may
    differ. A dataset without ``meta/rlstack.json``, such as a third party's, is accepted.

    Raises:
        UserError: The dataset is for another task, or its motion settings differ; names which.
    """
    if (held := read_task_file(path)) is None:
        return
    if held["task"] not in TASKS.names() or TASKS.load(held["task"]) is not type(task):
        mine = task_name(task)
        raise UserError(f"{path} holds demonstrations of {held['task']}, not of {mine}: give a dataset of {mine}.")
    then = {**settings_of(type(task)())["motion"], **held["settings"].get("motion", {})}
    for key, now in settings_of(task)["motion"].items():
        if then[key] != now:
            raise UserError(
                f"{path} was recorded with motion.{key} {then[key]}, and {now} is required: its actions mean other"
                f" motions; train with task_settings.motion.{key} {then[key]}, or give another dataset."
            )


def read_metadata(dataset: Dataset, robot: str = "") -> DatasetTask:
    """Return the task of a dataset's demonstrations.

    Args:
        dataset: The demonstrations.
        robot: Name or file of the arm that they were recorded with; empty: the robot named in the dataset.

    Raises:
        UserError: The task file is missing or unknown here, or the robot differs.
    """
    held = read_task_file(dataset.path)
    if held is None:
        raise UserError(
            f"{dataset.path} has no {TASK_FILE}: it was not recorded by rlstack demo record, so its task is unknown."
        )
    if not dataset.robot_type:
        raise UserError(f"{dataset.path} does not say which robot it was recorded with.")
    task = task_called(held["task"], held["settings"], f"{dataset.path / TASK_FILE}: settings")
    return DatasetTask(held["task"], task, _recorded_with(dataset, robot))


def _recorded_with(dataset: Dataset, robot: str) -> Manipulator:
    if not robot and dataset.robot_type not in robot_names():
        raise UserError(
            f"{dataset.path} was recorded with the robot '{dataset.robot_type}', which does not ship with rlstack: give"
            " its file with --robot FILE."
        )
    arm = load_manipulator(robot or str(dataset.robot_type))
    if arm.name != dataset.robot_type:
        raise UserError(
            f"{dataset.path} was recorded with the robot '{dataset.robot_type}', and --robot {robot} is '{arm.name}':"
            " give the file of the one that it was recorded with."
        )
    held = dataset.features[COMMAND].names if COMMAND in dataset.features else ()
    held = tuple(name.removesuffix(".pos") for name in held)
    if held != (wanted := tuple(drive.name for drive in arm.drives)):
        raise UserError(
            f"{dataset.path} was recorded with the joints {', '.join(held) or '(unknown)'}, and"
            f" {robot or arm.name} has {', '.join(wanted)}: give the file of the robot that it was recorded with, with"
            " --robot FILE."
        )
    return arm


def picture_feature(signal: str) -> str:
    """Return the feature of a camera's images: ``observation.images.wrist`` for ``wrist_image``."""
    return f"{SENSED}images.{camera_of(SIGNALS[signal])}"


def _sensed(task: ArmTask) -> dict[str, int]:
    """Return name and size of the signals sensed besides joints and images."""
    inputs = [name for name in task.inputs if not name.startswith("joint_") and not is_image(SIGNALS[name])]
    return {name: _size(name) for name in inputs}


def _size(name: str) -> int:
    if name == "instruction":
        return INSTRUCTION_BYTES
    return 4 if name.endswith("orientation") else 1 if name.endswith("_age") else 3


def _elements(name: str, size: int) -> tuple[str, ...]:
    if name == "instruction":
        return tuple(f"byte_{k}" for k in range(size))
    return ("s",) if name.endswith("_age") else tuple("xyzw"[:size])


def pictures_of(task: ArmTask, robot: Manipulator) -> dict[str, tuple[int, ...]]:
    """Return signal and shape of the images that a task senses."""
    seen = [name for name in task.inputs if is_image(SIGNALS[name])]
    cameras = {name: robot.cameras[camera_of(SIGNALS[name])] for name in seen}
    return {name: (camera.height, camera.width, 3) for name, camera in cameras.items()}


def _pixels(pictures: dict[str, tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in pictures.values())


def _known(station: DemonstrationEnvironment) -> dict[str, int]:
    """Return the simulator's ground truth on the object that a vision policy does not sense."""
    return (
        {n: s for n, s in GROUND_TRUTH.items() if n not in station.task.inputs}
        if pictures_of(station.task, station.robot)
        else {}
    )
