"""Features and task of a dataset of demonstrations; the task is in a file beside it.

The file is ``meta/rlstack.json``; LeRobot leaves what it does not know alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack import schema
from rlstack.data.lerobot import Dataset, Feature, check_fits, image, number, vector
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.interfaces.image_reader import is_picture
from rlstack.interfaces.signals import SENSED as SIGNALS
from rlstack.interfaces.signals import camera_of
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot, robot_names
from rlstack.tasks import TASKS
from rlstack.tasks.manipulator.demonstration import TRIAL, DemonstrationEnvironment
from rlstack.tasks.manipulator.task import ArmTask

SHEET = "meta/rlstack.json"
VERSION = 1

SENSED = "observation."
"""Before the name of each input of the policy, as sensed: what is learned from."""
STATE = "observation.state"
"""The joints again, as LeRobot's policies take them: of each ``NAME.pos`` rad or m, then ``NAME.vel`` rad/s or m/s."""
WORLD = "observation.environment_state"
"""All else that is sensed, likewise: places and orientations (xyzw) of goal and object, m."""
ACTION = "action"
"""What was done, in the policy's own terms: motions of the tool and the gripper in -1..1."""
COMMAND = "command"
"""What the joints were driven to, ``NAME.pos`` rad or m."""
REWARD, SUCCESS, DONE, TERMINATED = "next.reward", "next.success", "next.done", "next.terminated"
BY_HAND = "intervention"
"""Whether a human did it."""
SEEN, ACHIEVED = "policy.observation", "policy.achieved"
"""What the policy's network sees, and where what is to be at the goal is, m: what a replay buffer needs."""
SIMULATOR, TRIAL_OF = "simulation.state", "simulation.trial"
"""All that changes in the simulator before the step, and what the trial is about: what a replay starts from."""
KNOWN = "simulation."
"""Before the names of :data:`TOLD`, where the policy is not told them: the simulator's own truth."""
TOLD = {"object_position": 3, "object_orientation": 4}
"""Where what is handled is, m and xyzw."""


@dataclass(frozen=True)
class DatasetTask:
    """Of which task the demonstrations in a dataset are.

    Attributes:
        name: Of the task.
        task: Its configuration.
        robot: The arm.
    """

    name: str
    task: ArmTask
    robot: Manipulator


def task_called(name: str, settings: dict[str, Any] | None = None, where: str = "") -> ArmTask:
    """Return an arm's task with some settings changed.

    Raises:
        UserError: There is no such task (nearest names listed), it is none for arms, or refuses a setting.
    """
    kind = TASKS.load(name)
    if not issubclass(kind, ArmTask):
        arms = ", ".join(known for known in TASKS.names() if issubclass(TASKS.load(known), ArmTask))
        raise UserError(f"The task '{name}' is none for arms, and only these can be demonstrated: {arms}.")
    task: ArmTask = schema.load(kind, settings or {}, where or name)
    return task


def name_of(task: ArmTask) -> str:
    """Return what a task is called; of one that is in no catalogue, its class."""
    return next((name for name in TASKS.names() if TASKS.load(name) is type(task)), type(task).__name__)


def words_of(task: ArmTask) -> str:
    """Return what the arm is to do, in words."""
    return (type(task).__doc__ or type(task).__name__).splitlines()[0]


def arm_called(name: str) -> Manipulator:
    """Return an arm by its name or file.

    Raises:
        UserError: There is no such robot, or it is no arm.
    """
    robot = load_robot(name)
    if not isinstance(robot, Manipulator):
        raise UserError(f"{robot.name} is a {robot.kind}, and only arms are led by hand: --robot panda.")
    return robot


def features_of(station: DemonstrationEnvironment) -> dict[str, Feature]:
    """Return what each frame of a demonstration at a station holds."""
    # not the pixels again
    columns = [f"{row.name}.{k}" for row in station.pipeline.table() if row.name != "pictures" for k in range(row.size)]
    return {
        **shown_features(station.task, station.robot),
        **{KNOWN + name: vector(*"xyzw"[:size]) for name, size in _known(station).items()},
        REWARD: number(),
        TERMINATED: number("bool"),
        SEEN: vector(*columns),
        ACHIEVED: vector("x", "y", "z"),
        SIMULATOR: Feature("float64", (len(station.state),)),
        TRIAL_OF: vector(*TRIAL, dtype="float64"),
    }


def shown_features(task: ArmTask, robot: Manipulator) -> dict[str, Feature]:
    """Return what each frame of a demonstration holds wherever it was given: what was sensed, done and came of it."""
    joints = [drive.name for drive in robot.drives]
    others = _sensed(task)
    signals = {f"{SENSED}joint_position": vector(*joints), f"{SENSED}joint_velocity": vector(*joints)}
    signals |= {SENSED + name: vector(*_elements(name, size)) for name, size in others.items()}
    signals |= {picture_feature(name): image(*shape[:2]) for name, shape in pictures_of(task, robot).items()}
    return {
        **signals,
        STATE: vector(*(f"{name}.pos" for name in joints), *(f"{name}.vel" for name in joints)),
        WORLD: vector(*(f"{name}.{one}" for name, size in others.items() for one in _elements(name, size))),
        ACTION: vector(*task.axes),
        COMMAND: vector(*(f"{name}.pos" for name in joints)),
        SUCCESS: number("bool"),
        DONE: number("bool"),
        BY_HAND: number("bool"),
    }


def sensed(task: ArmTask, robot: Manipulator, seen: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what a frame holds of what is sensed, by signal."""
    pictures = pictures_of(task, robot)
    return {
        **{SENSED + name: seen[name].astype(np.float32) for name in task.inputs if name not in pictures},
        **{picture_feature(name): seen[name].astype(np.uint8) for name in pictures},
        STATE: np.concatenate([seen["joint_position"], seen["joint_velocity"]]).astype(np.float32),
        WORLD: np.concatenate([seen[name] for name in _sensed(task)]).astype(np.float32),
    }


def observed(station: DemonstrationEnvironment) -> dict[str, np.ndarray]:
    """Return what a frame holds of the present, before the step."""
    seen, task, robot = station.senses(), station.task, station.robot
    return {
        **sensed(task, robot, seen),
        **{KNOWN + name: seen[name].astype(np.float32) for name in _known(station)},
        SEEN: station.observation()[: station.pipeline.size - _pixels(pictures_of(task, robot))].astype(np.float32),
        ACHIEVED: station.achieved().astype(np.float32),
        SIMULATOR: station.state,
        TRIAL_OF: station.trial,
    }


def check_metadata(path: Path, name: str, task: ArmTask, robot: Manipulator) -> None:
    """Refuse demonstrations that do not fit those in the folder ``path``, if there are any; the writer does the rest.

    Raises:
        UserError: The dataset there is of another robot, rate or task, or of other settings; says which.
    """
    if not (path / "meta/info.json").exists():
        return
    dataset, held = Dataset(path, quiet=True), _read(path)  # the writer tells what is missing
    check_fits((dataset.robot_type, dataset.fps, {}), (robot.name, task.rate_hz, {}), str(path))
    if held is None:
        if len(dataset):
            raise UserError(f"{path} was not recorded by rlstack demo record: give a new folder.")
        return
    if held["task"] != name:
        raise UserError(f"{path} holds demonstrations of {held['task']}, not of {name}: give another folder.")
    for key, wanted in _settings(task).items():
        # how long an episode may take differs between those who show
        if key != "episode_s" and held["settings"].get(key) != wanted:
            raise UserError(
                f"{path} was recorded with {key} {held['settings'].get(key)}, not {wanted}: give another folder."
            )


def check_learned(path: Path, task: ArmTask) -> None:
    """Refuse to learn ``task`` from a dataset that says it is of another one, or of other motions.

    How the tool moves is what an action means. Where episodes begin, how long they take, what is earned and how noisy
    senses are may differ. A dataset without a sheet, such as somebody else's, is taken at its word.

    Raises:
        UserError: It is of another task, or an action means another motion there; says which.
    """
    if (held := _read(path)) is None:
        return
    if held["task"] not in TASKS.names() or TASKS.load(held["task"]) is not type(task):
        mine = name_of(task)
        raise UserError(f"{path} holds demonstrations of {held['task']}, not of {mine}: give a dataset of {mine}.")
    then = {**_settings(type(task)())["motion"], **held["settings"].get("motion", {})}
    for key, now in _settings(task)["motion"].items():
        if then[key] != now:
            raise UserError(
                f"{path} was recorded with motion.{key} {then[key]}, and {now} is asked for, so that an action means"
                f" another motion: train with task_settings.motion.{key} {then[key]}, or give another dataset."
            )


def write_metadata(path: Path, name: str, task: ArmTask) -> None:
    """Write beside a dataset of which task it is, if nothing is there yet."""
    if _read(path) is None:
        text = json.dumps({"version": VERSION, "task": name, "settings": _settings(task)}, indent=2)
        write_atomically(path / SHEET, text + "\n", what="the demonstrations'")


def copy_metadata(path: Path, to: Path) -> None:
    """Write beside the dataset ``to`` what stands beside the one at ``path``, if anything does."""
    if (held := _read(path)) is not None:
        write_atomically(to / SHEET, json.dumps(held, indent=2) + "\n", what="the demonstrations'")


def name_in(path: Path) -> str | None:
    """Return of which task a dataset's demonstrations are; None: nothing beside it says so."""
    held = _read(path)
    return None if held is None else str(held["task"])


def read_metadata(dataset: Dataset, robot: str = "") -> DatasetTask:
    """Return of which task a dataset's demonstrations are.

    Args:
        dataset: The demonstrations.
        robot: Name or file of the arm that they were recorded with; empty: rlstack knows it by the name they give.

    Raises:
        UserError: Nothing beside it says so, or what it says is not known here, or the robot is another one.
    """
    held = _read(dataset.path)
    if held is None:
        raise UserError(
            f"{dataset.path} has no {SHEET}: it was not recorded by rlstack demo record, so nobody knows its task."
        )
    if not dataset.robot_type:
        raise UserError(f"{dataset.path} does not say which robot it was recorded with.")
    task = task_called(held["task"], held["settings"], f"{dataset.path / SHEET}: settings")
    return DatasetTask(held["task"], task, _recorded_with(dataset, robot))


def _recorded_with(dataset: Dataset, robot: str) -> Manipulator:
    if not robot and dataset.robot_type not in robot_names():
        raise UserError(
            f"{dataset.path} was recorded with the robot '{dataset.robot_type}', which is none of rlstack's own: give"
            " its file with --robot FILE."
        )
    arm = arm_called(robot or str(dataset.robot_type))
    if arm.name != dataset.robot_type:
        raise UserError(
            f"{dataset.path} was recorded with the robot '{dataset.robot_type}', and --robot {robot} is '{arm.name}':"
            " give the file of the one that it was recorded with."
        )
    held = dataset.features[COMMAND].names if COMMAND in dataset.features else ()
    held = tuple(name.removesuffix(".pos") for name in held)
    if held != (wanted := tuple(drive.name for drive in arm.drives)):
        raise UserError(
            f"{dataset.path} was recorded with the joints {', '.join(held) or 'of nobody knows what'}, and"
            f" {robot or arm.name} has {', '.join(wanted)}: give the file of the robot that it was recorded with, with"
            " --robot FILE."
        )
    return arm


def _settings(task: ArmTask) -> dict[str, Any]:
    """Return a task's settings as JSON gives them back."""
    plain: dict[str, Any] = json.loads(json.dumps(schema.to_data(task)))
    return plain


def picture_feature(signal: str) -> str:
    """Return the feature that holds a camera's pictures: ``observation.images.wrist`` of ``wrist_image``."""
    return f"{SENSED}images.{camera_of(SIGNALS[signal])}"


def _sensed(task: ArmTask) -> dict[str, int]:
    """Return name and size of what is sensed beside joints and pictures."""
    inputs = [name for name in task.inputs if not name.startswith("joint_") and not is_picture(SIGNALS[name])]
    return {name: 4 if name.endswith("orientation") else 1 if name.endswith("_age") else 3 for name in inputs}


def _elements(name: str, size: int) -> tuple[str, ...]:
    return ("s",) if name.endswith("_age") else tuple("xyzw"[:size])


def pictures_of(task: ArmTask, robot: Manipulator) -> dict[str, tuple[int, ...]]:
    """Return signal and shape of the pictures that a task senses."""
    seen = [name for name in task.inputs if is_picture(SIGNALS[name])]
    cameras = {name: robot.cameras[camera_of(SIGNALS[name])] for name in seen}
    return {name: (camera.height, camera.width, 3) for name, camera in cameras.items()}


def _pixels(pictures: dict[str, tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in pictures.values())


def _known(station: DemonstrationEnvironment) -> dict[str, int]:
    """Return what the simulator knows of what is handled and the policy is not told; only where it sees."""
    return (
        {n: s for n, s in TOLD.items() if n not in station.task.inputs}
        if pictures_of(station.task, station.robot)
        else {}
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((path / SHEET).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path / SHEET} cannot be read ({error}): copy the dataset again.") from error
    if not (isinstance(data, dict) and data.get("version") == VERSION and isinstance(data.get("settings"), dict)):
        raise UserError(f"{path / SHEET} is not as this version writes it: use the rlstack that recorded it.")
    if not isinstance(data.get("task"), str):
        raise UserError(f"{path / SHEET} names no task: copy the dataset again.")
    return data
