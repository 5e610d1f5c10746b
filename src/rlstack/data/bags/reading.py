"""Read a robot's bag: joints, commands and cameras, each with the stamps of its messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.data.bags.bag import Bag
from rlstack.errors import UserError
from rlstack.interfaces.image_messages import rgb_array
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.messages import NameOrder, stamp_to_ns
from rlstack.interfaces.topics import (
    GOAL,
    IMAGE,
    INSTRUCTION,
    INTERVENE,
    JOINT_COMMAND,
    JOINT_STATES,
    OBJECT,
    TYPES,
    WORLD_FRAME,
    in_world,
)

Stamps = NDArray[np.int64]

IMAGE_TYPE = "sensor_msgs/msg/Image"
_STATE = ("sensor_msgs/msg/JointState",)
_COMMAND = (
    "trajectory_msgs/msg/JointTrajectory",
    "sensor_msgs/msg/JointState",
    "std_msgs/msg/Float64MultiArray",
)
POSES = (GOAL, OBJECT)
"""Topics of poses that a task may need. A goal holds until the next one; an object is tracked."""


@dataclass(frozen=True)
class Recording:
    """A bag's data on one robot.

    Attributes:
        path: Path of the bag.
        namespace: Namespace of the robot's topics, such as ``/panda``.
        state_ns: (states,) stamps of the joint states, increasing.
        position: (states, joints) rad or m, in the robot's order.
        velocity: (states, joints) rad/s or m/s; None: the states have none.
        command_ns: (commands,) stamps, increasing, of the observations answered, if the commands carry them.
        command: (commands, joints) rad or m.
        cameras: By name, the stamps of its images in the bag's order, and their size (height, width).
        topics: Topic of each camera, by its name.
        intervened: Whether an operator intervened: (changes,) stamps of the last joint states before each change, since
            the message has none, and (changes,) booleans; None: without intervention.
        poses: For each of :data:`POSES` with messages, (messages,) stamps and (messages, 7) position, m, and
            orientation, xyzw; a goal has stamps as ``intervened``, since its sender may have another clock.
        instructions: (messages,) stamps as ``intervened``, and sentences; each holds until the next one.
        damage: Sentences about where the bag could not be read.
        arrived: By camera (images,) when each image had arrived, on the clock of the stamps: the stamp of the newest
            joint states that were received before it, or its own if that is later.
    """

    path: Path
    namespace: str
    state_ns: Stamps
    position: Array
    velocity: Array | None
    command_ns: Stamps
    command: Array
    cameras: Mapping[str, tuple[Stamps, tuple[int, int]]]
    topics: Mapping[str, str]
    intervened: tuple[Stamps, NDArray[np.bool_]] | None = None
    poses: Mapping[str, tuple[Stamps, Array]] = field(default_factory=dict)
    instructions: tuple[Stamps, tuple[str, ...]] = (np.empty(0, np.int64), ())
    damage: tuple[str, ...] = ()
    arrived: Mapping[str, Stamps] = field(default_factory=dict)

    def images(self, camera: str) -> Iterator[tuple[int, Any]]:
        """Yield index and message of each of a camera's images, in the bag's order; see :func:`rgb`."""
        with Bag(self.path) as bag:
            for number, message in enumerate(bag.messages([self.topics[camera]])):
                yield number, partial(bag.deserialize, message)


def rgb(message: Any, where: str) -> NDArray[np.uint8]:
    """Decode an image message to (height, width, 3).

    Raises:
        UserError: It is neither a colour nor a grey image.
    """
    try:
        return rgb_array(message)
    except ValueError as error:
        raise UserError(f"{where}: {error}.") from error


def open_bag(
    path: str | Path, joints: Sequence[str], *, namespace: str = "", command: str = JOINT_COMMAND
) -> Recording:
    """Read a bag except for its images.

    Args:
        path: Its folder, or its ``.mcap`` or ``.db3`` file.
        joints: The robot's joints, in the required order.
        namespace: Namespace of the robot's topics; empty: that of the only ``joint_states``.
        command: The topic of its commands in this namespace.

    Raises:
        UserError: It cannot be read, lacks these topics, or is for a robot with other joints.
    """
    path = Path(path)
    order = NameOrder(joints)
    with Bag(path) as bag:
        types = {name: topic.kind for name, topic in bag.topics.items()}
        if not types:
            raise UserError(f"{path} cannot be read as a bag: {' '.join(bag.damage) or 'it has no topics.'}")
        space = _namespace(namespace, types, path)
        named = {JOINT_STATES: _STATE, command: _COMMAND}
        for name, allowed in named.items():
            kind = types.get(f"{space}/{name}")
            if kind is None:
                raise UserError(f"{path} has no topic {space}/{name}. It has: {', '.join(sorted(types))}.")
            if kind not in allowed:
                raise UserError(f"{path}: {space}/{name} is a {kind}, and must be a {' or '.join(allowed)}.")
        images = {
            topic.removeprefix(f"{space}/").removesuffix(f"/{IMAGE}").replace("/", "."): topic
            for topic, kind in types.items()
            if kind == IMAGE_TYPE and topic.startswith(f"{space}/") and topic.endswith(f"/{IMAGE}")
        }
        rows: dict[str, list[_Row]] = {topic: [] for topic in (f"{space}/{n}" for n in named)}
        sizes: dict[str, tuple[int, int]] = {}
        stamps: dict[str, list[int]] = {topic: [] for topic in images.values()}
        after: dict[str, list[int]] = {topic: [] for topic in stamps}
        led, flags = f"{space}/{INTERVENE}", list[tuple[int, bool]]()
        aims, placed, told = list[tuple[int, Array]](), list[_Row](), list[tuple[int, str]]()
        asks = f"{space}/{INSTRUCTION}" if types.get(f"{space}/{INSTRUCTION}") == TYPES[INSTRUCTION] else ""
        of_poses = {f"{space}/{name}": name for name in POSES if types.get(f"{space}/{name}") == TYPES[name]}
        every = {*rows, *stamps, *of_poses, led, asks}
        for taken in bag.messages(every):
            message, topic, logged_ns = bag.deserialize(taken), taken.topic, taken.received_ns
            if topic == led:
                flags.append((len(rows[f"{space}/{JOINT_STATES}"]), bool(message.data)))
                continue
            if topic == asks:
                told.append((len(rows[f"{space}/{JOINT_STATES}"]), _sentence(message, f"{path}: {topic}")))
                continue
            if topic in of_poses:
                pose = _pose(message, f"{path}: {topic}")
                if of_poses[topic] == GOAL:
                    aims.append((len(rows[f"{space}/{JOINT_STATES}"]), pose))
                else:
                    placed.append(_Row(_stamp(message), logged_ns, pose))
                continue
            if topic in stamps:
                size = (int(message.height), int(message.width))
                if sizes.setdefault(topic, size) != size:
                    raise UserError(f"{path}: the images on {topic} have different sizes, {sizes[topic]} and {size}.")
                stamps[topic].append(_stamp(message) or logged_ns)
                after[topic].append(len(rows[f"{space}/{JOINT_STATES}"]))
                continue
            if _stops(message):
                continue
            try:
                rows[topic].append(_Row(_stamp(message), logged_ns, _joints(message, order)))
            except ValueError as error:
                raise UserError(f"{path}: {topic} does not fit the robot: {error}.") from error
        damage = tuple(bag.damage)
    (state_ns, states), (command_ns, commands) = (_in_order(found, path, topic) for topic, found in rows.items())
    velocities = [velocity for _, velocity in states]
    seen = [0, *_times(rows[f"{space}/{JOINT_STATES}"])]
    poses: dict[str, tuple[Stamps, Array]] = {}
    if aims:
        poses[GOAL] = np.array([seen[count] for count, _ in aims]), np.array([pose for _, pose in aims])
    if placed:
        at_ns, places = _in_order(placed, path, f"{space}/{OBJECT}")
        poses[OBJECT] = at_ns, np.array(places)
    return Recording(
        path=path,
        namespace=space,
        state_ns=state_ns,
        position=np.array([position for position, _ in states]),
        velocity=None if any(velocity is None for velocity in velocities) else np.array(velocities),
        command_ns=command_ns,
        command=np.array([target for target, _ in commands]),
        cameras={name: (np.array(stamps[topic]), sizes[topic]) for name, topic in images.items() if topic in sizes},
        arrived={
            name: np.maximum(stamps[topic], [seen[count] for count in after[topic]])
            for name, topic in images.items()
            if topic in sizes
        },
        topics=images,
        intervened=(np.array([seen[count] for count, _ in flags]), np.array([on for _, on in flags]))
        if flags
        else None,
        poses=poses,
        instructions=(np.array([seen[count] for count, _ in told], np.int64), tuple(text for _, text in told)),
        damage=damage,
    )


def _namespace(given: str, types: Mapping[str, str], path: Path) -> str:
    if given:
        return "/" + given.strip("/")
    found = sorted(topic.removesuffix(f"/{JOINT_STATES}") for topic in types if topic.endswith(f"/{JOINT_STATES}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{path} has no topic {JOINT_STATES}. It has: {', '.join(sorted(types)) or 'none'}.")
    raise UserError(f"{path} has {len(found)} robots, {', '.join(found)}: choose one with --namespace.")


def _stamp(message: Any) -> int:
    header = getattr(message, "header", None)
    return 0 if header is None else stamp_to_ns(header.stamp)


def _pose(message: Any, where: str) -> Array:
    """Return the position and orientation (7,) of a pose.

    Raises:
        UserError: It is in another frame, whose transform is not available.
    """
    frame = message.header.frame_id
    if not in_world(frame):
        raise UserError(f"{where} is in the frame '{frame}', not in {WORLD_FRAME}: transform it before recording.")
    p, q = message.pose.position, message.pose.orientation
    return np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w], dtype=float)


def _sentence(message: Any, where: str) -> str:
    """Return an instruction.

    Raises:
        UserError: No policy would take it.
    """
    try:
        encoded(message.data)
    except ValueError as error:
        raise UserError(f"{where}: {error}.") from error
    return str(message.data)


def _stops(message: Any) -> bool:
    """Return whether a message is a stop command, as guards send before and after a run: no joints, no points."""
    return hasattr(message, "points") and not len(message.points) and not len(message.joint_names)


def _joints(message: Any, order: NameOrder) -> tuple[Array, Array | None]:
    """Return positions and, if present, velocities in the required order.

    Raises:
        ValueError: The joints differ, or the number of values does not match.
    """
    if hasattr(message, "points"):  # a trajectory
        if len(message.points) != 1:
            raise ValueError(f"a trajectory has {len(message.points)} points: commands have one")
        names, position, velocity = message.joint_names, message.points[0].positions, ()
    elif hasattr(message, "name"):
        names, position, velocity = message.name, message.position, message.velocity
    else:
        if len(message.data) != len(order.names):
            raise ValueError(f"there are {len(message.data)} numbers for the joints {list(order.names)}")
        return np.array(message.data, dtype=float), None
    names = list(names)

    def arranged(values: Any) -> Array:
        return order.arrange(tuple(names), lambda: names, np.array(values, dtype=float))

    return arranged(position), arranged(velocity) if len(velocity) else None


class _Row(NamedTuple):
    """A message: its stamp (0 without one), its recording time, and its content."""

    stamp_ns: int
    logged_ns: int
    content: Any


def _times(found: list[_Row]) -> list[int]:
    """Return the time of each message of a topic: its stamp, or if none has one, its recording time."""
    stamped = any(row.stamp_ns for row in found)  # the first stamp of a simulation is 0 as well
    return [row.stamp_ns if stamped else row.logged_ns for row in found]


def _in_order(found: list[_Row], path: Path, topic: str) -> tuple[Stamps, list[Any]]:
    """Return increasing stamps and their contents; the last one for equal stamps."""
    if not found:
        raise UserError(f"{path} has no messages on {topic}.")
    last = dict(sorted(zip(_times(found), (row.content for row in found)), key=lambda row: row[0]))
    return np.array(list(last), dtype=np.int64), list(last.values())
