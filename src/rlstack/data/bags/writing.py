"""Write an episode of a dataset into a bag, as if recorded from the robot's topics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.bags.bag import message_definitions
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.reading import IMAGE_TYPE, POSES
from rlstack.data.bags.to_dataset import ACTION, CAMERA, INTERVENTION, STATE
from rlstack.data.lerobot import Dataset
from rlstack.data.lerobot.units import LerobotMapping
from rlstack.data.lerobot.units import speeds as by_differences
from rlstack.errors import UserError
from rlstack.interfaces.instruction import decoded
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.topics import (
    BODY_FRAME,
    GOAL,
    IMAGE,
    INSTRUCTION,
    INTERVENE,
    JOINT_COMMAND,
    JOINT_STATES,
    TYPES,
    WORLD_FRAME,
)
from rlstack.progress import OnStage

COMMAND = "command"
"""Feature of the joint targets, if the actions are something else."""

_SENTENCE = f"observation.{INSTRUCTION}"
"""Feature of the instruction's bytes."""

_SAME_NS = 5000
"""Stamps of one image, from its ages in several frames, differ by less: ages are in whole microseconds."""

START_NS = NANOSECONDS
"""Stamp of the first frame: datasets have no recording time, and a stamp of 0 means none."""


def write_bag(
    path: str | Path,
    dataset: Dataset,
    episode: int,
    *,
    namespace: str = "",
    mapping: LerobotMapping | None = None,
    on_stage: OnStage | None = None,
) -> None:
    """Write an episode into a new bag (MCAP): ``joint_states``, ``cmd/joints`` and ``CAMERA/image_raw``.

    Also writes ``teleop/intervene``, ``instruction`` and the poses of goal and object, if the frames hold them. Images
    have the stamps at which they were taken, where the frames hold their ages; one that several frames show is written
    once.

    Args:
        path: Its folder, which must not exist yet.
        dataset: A dataset with joints: ``observation.state`` and commands have elements ``NAME.pos``.
        episode: Its number.
        namespace: Namespace of the topics; empty: the robot's name.
        mapping: What its joints and cameras are, if LeRobot's own arm recorded it; None: rlstack's units and names.
        on_stage: Called with the frames that are written.

    Raises:
        UserError: The folder exists, or the dataset has no joints or no joint targets, or not those of ``mapping``.
    """
    joints, columns = _joints(dataset, STATE, ".pos")
    speeds, speed_columns = _joints(dataset, STATE, ".vel")
    source = COMMAND if COMMAND in dataset.features else ACTION
    targets, target_columns = _joints(dataset, source, ".pos")
    if not joints or not targets:
        raise UserError(
            f"{dataset.path} has no joints in {STATE} and {source}, elements like elbow.pos, so it cannot be a bag."
        )
    path, space = Path(path), "/" + (namespace or dataset.robot_type or "robot").strip("/")
    if path.exists():
        raise UserError(f"{path} exists already: give a new folder.")
    cameras = {name: _age_of(dataset, name) for name in dataset.features if name.startswith(CAMERA)}
    last: dict[str, int] = {}
    led = [INTERVENTION] if INTERVENTION in dataset.features else []
    said = [_SENTENCE] if _SENTENCE in dataset.features else []
    poses = {name: found for name in POSES if (found := _pose_features(dataset, name))}
    names = list(
        dict.fromkeys(
            [
                *(STATE, source, *led, *said, *cameras, *filter(None, cameras.values())),
                *(name for found in poses.values() for name in found),
            ]
        )
    )
    frames = dataset.read(episode, names)  # first, since a damaged file raises here
    states, commands = (np.asarray(frames[name], dtype=np.float64) for name in (STATE, source))
    positions = np.take(states, columns, axis=1)  # rows that are contiguous, as messages need them
    velocities = np.take(states, speed_columns, axis=1) if speeds == joints else None
    goals = np.take(commands, target_columns, axis=1)
    if mapping is not None:
        where = f"{dataset.path}, episode {episode}"
        positions = mapping.positions(states, dataset.features[STATE].names, f"{where}, {STATE}")
        goals = mapping.positions(commands, dataset.features[source].names, f"{where}, {source}")
        joints = targets = list(mapping.joints)
        velocities = by_differences(positions, dataset.fps)
    out = _Bag(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with out:
        for k in range(count := dataset.episodes[episode].length):
            if on_stage is not None:
                on_stage("frames", k, count)
            stamp_ns = START_NS + round(k * NANOSECONDS / dataset.fps)
            header = out.header(stamp_ns)
            before_ns = stamp_ns - round(0.5 * NANOSECONDS / dataset.fps)  # after the last state
            for topic, parts in poses.items():
                if topic != GOAL:
                    out.pose(f"{space}/{topic}", stamp_ns, [frames[name][k] for name in parts])
                elif k == 0 or any((frames[name][k] != frames[name][k - 1]).any() for name in parts):
                    out.pose(f"{space}/{topic}", before_ns, [frames[name][k] for name in parts])
            for name in said:
                if k == 0 or (frames[name][k] != frames[name][k - 1]).any():
                    out.say(f"{space}/{INSTRUCTION}", TYPES[INSTRUCTION], before_ns, data=decoded(frames[name][k]))
            if led and (k == 0 or (frames[INTERVENTION][k] != frames[INTERVENTION][k - 1]).any()):
                leads = bool(np.ravel(frames[INTERVENTION][k])[0])
                out.say(f"{space}/{INTERVENE}", "std_msgs/msg/Bool", before_ns, data=leads)
            velocity = np.empty(0) if velocities is None else velocities[k]
            kind = "sensor_msgs/msg/JointState"
            given = {"name": joints, "position": positions[k], "velocity": velocity, "effort": np.empty(0)}
            out.say(f"{space}/{JOINT_STATES}", kind, stamp_ns, header=header, **given)
            for camera, age in cameras.items():
                theirs = camera.removeprefix(CAMERA)
                shown = theirs if mapping is None else mapping.cameras.get(theirs, theirs)
                topic = f"{space}/{shown.replace('.', '/')}/{IMAGE}"
                taken_ns = stamp_ns - (round(1e6 * float(np.ravel(frames[age][k])[0])) * 1000 if age else 0)
                if k == 0 or abs(taken_ns - last.get(camera, 0)) > _SAME_NS:  # otherwise the frame shows the same again
                    last[camera] = taken_ns
                    out.picture(topic, taken_ns, frames[camera][k], stamp_ns)
            out.trajectory(f"{space}/{JOINT_COMMAND}", stamp_ns, targets, goals[k])


class _Bag:
    """A bag being written."""

    def __init__(self, path: Path) -> None:
        self._store, self._path = message_definitions(), path

    def __enter__(self) -> _Bag:
        self._writer = BagWriter(self._path)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._writer.close()
        else:
            self._writer.abandon()

    def header(self, stamp_ns: int, frame: str = BODY_FRAME) -> Any:
        """Return a header."""
        seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS)
        stamp = self._store.types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=nanoseconds)
        return self._store.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def say(self, topic: str, kind: str, stamp_ns: int, **fields: Any) -> None:
        """Write a message that is received at a time."""
        if topic not in self._writer.counts:
            definition, _ = self._store.generate_msgdef(kind, ros_version=2)
            self._writer.add_topic(BagTopic(topic, kind, definition, self._store.hash_rihs01(kind)))
        data = self._store.serialize_cdr(self._store.types[kind](**fields), kind)
        self._writer.write(topic, stamp_ns, stamp_ns, 0, bytes(data))

    def trajectory(self, topic: str, stamp_ns: int, joints: Sequence[str], target: np.ndarray) -> None:
        """Write joint targets."""
        none, at_once = np.empty(0), self._store.types["builtin_interfaces/msg/Duration"](sec=0, nanosec=0)
        point = self._store.types["trajectory_msgs/msg/JointTrajectoryPoint"](
            positions=target.astype(np.float64),
            velocities=none,
            accelerations=none,
            effort=none,
            time_from_start=at_once,
        )
        kind = "trajectory_msgs/msg/JointTrajectory"
        self.say(topic, kind, stamp_ns, header=self.header(stamp_ns), joint_names=list(joints), points=[point])

    def pose(self, topic: str, stamp_ns: int, parts: Sequence[np.ndarray]) -> None:
        """Write a position, m, and an orientation, xyzw, by default none."""
        place, turn = parts[0], parts[1] if len(parts) > 1 else np.array([0.0, 0.0, 0.0, 1.0])
        pose = self._store.types["geometry_msgs/msg/Pose"](
            position=self._store.types["geometry_msgs/msg/Point"](*place.astype(np.float64).tolist()),
            orientation=self._store.types["geometry_msgs/msg/Quaternion"](*turn.astype(np.float64).tolist()),
        )
        self.say(topic, TYPES[GOAL], stamp_ns, header=self.header(stamp_ns, WORLD_FRAME), pose=pose)

    def picture(self, topic: str, stamp_ns: int, picture: np.ndarray, received_ns: int) -> None:
        """Write an image (height, width, 3)."""
        height, width, _ = picture.shape
        self.say(
            topic,
            IMAGE_TYPE,
            received_ns,
            header=self.header(stamp_ns, topic.strip("/").rpartition("/")[0].rpartition("/")[2] + "_optical_frame"),
            height=height,
            width=width,
            encoding="rgb8",
            is_bigendian=0,
            step=3 * width,
            data=np.ascontiguousarray(picture).reshape(-1),
        )


def _age_of(dataset: Dataset, camera: str) -> str:
    """Return the feature of the age of a camera's images, s; empty without one."""
    name = f"observation.{camera.removeprefix(CAMERA).replace('.', '_')}_image_age"
    return name if name in dataset.features and dataset.features[name].shape == (1,) else ""


def _pose_features(dataset: Dataset, topic: str) -> list[str]:
    """Return the features of a pose's position and, if there is one, its orientation; empty without position."""
    wanted = {f"observation.{topic}_position": (3,), f"observation.{topic}_orientation": (4,)}
    found = [n for n, shape in wanted.items() if n in dataset.features and dataset.features[n].shape == shape]
    return found if found[:1] == list(wanted)[:1] else []


def _joints(dataset: Dataset, name: str, ending: str) -> tuple[list[str], list[int]]:
    """Return the joints of a feature's elements with this ending, and their columns."""
    feature = dataset.features.get(name)
    elements = list(enumerate(feature.names)) if feature is not None else []
    chosen = [(element.removesuffix(ending), k) for k, element in elements if element.endswith(ending)]
    return [joint for joint, _ in chosen], [k for _, k in chosen]
