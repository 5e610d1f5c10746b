"""What a bag holds of one robot's policy: its inputs, steps and commands, what the guard did, and the policy itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.bringup.explain.policy_search import policy_of_bag
from rlstack.data.bags.bag import Bag
from rlstack.data.bags.mcap_file import Message
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.image_reader import ImageReader
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.path_messages import GoalPath, read_path_data
from rlstack.interfaces.signal_reader import Read, topic_reader
from rlstack.interfaces.step_messages import Held, PolicyFile, read_file_text, read_held, read_rows
from rlstack.interfaces.tf_messages import read_tf
from rlstack.interfaces.transform_buffer import NoTransform, Placed, TransformBuffer
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.recorded_facts import PARAMETERS, ROBOT
from rlstack.nodes.sensor_readers import SCAN_PARAMETERS
from rlstack.policies import Policy, Port, load_policy
from rlstack.robots import RobotSpec, load_robot
from rlstack.robots.spec import robot_files

POLICY_HASH = "policy_sha256"
_OTHER_CLOCK_NS = 10 * NANOSECONDS
"""Stamps that are further from the recorder's clock are of a simulator's."""
Indices = NDArray[np.int64]


class Stream:
    """The messages of one topic, in the order of their receipt.

    Args:
        topic: Its name in the robot's namespace.
        read: Returns a message's stamp and signals; raises ``ValueError``.
        keeps: Whether to keep what was read; pictures are read when they are needed.
    """

    def __init__(self, topic: str, read: Read, *, keeps: bool = True) -> None:
        self.topic, self._read, self._keeps = topic, read, keeps
        self._stamps: list[int] = []
        self._received: list[int] = []
        self._data: list[bytes] = []
        self._values: list[dict[str, Array]] = []
        self.refused: list[tuple[int, str]] = []
        """Receipt of the messages that cannot be read, ns, and why."""

    def add(self, message: Message) -> None:
        """Add a message."""
        try:
            stamp, values = self._read(message.data)
        except ValueError as error:
            self.refused.append((message.received_ns, str(error)))
            return
        self._stamps.append(int(stamp or 0))
        self._received.append(message.received_ns)
        if self._keeps:
            self._values.append(values)
        else:
            self._data.append(message.data)

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._stamps)

    @cached_property
    def stamp_ns(self) -> Indices:
        """(n,) their stamps."""
        return np.array(self._stamps, np.int64)

    @cached_property
    def received_ns(self) -> Indices:
        """(n,) when they were received."""
        return np.array(self._received, np.int64)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {stamp: number for number, stamp in enumerate(self._stamps)}

    def number_of(self, stamp_ns: int) -> int | None:
        """Return the number of the message with a stamp, the last one of several; None: it is not in the bag."""
        return self._numbers.get(stamp_ns)

    def before(self, received_ns: int) -> int | None:
        """Return the number of the newest message that had been received by a time."""
        number = int(np.searchsorted(self.received_ns, received_ns, side="right")) - 1
        return None if number < 0 else number

    def values(self, number: int) -> dict[str, Array]:
        """Return a message's signals."""
        return self._values[number] if self._keeps else self._read(self._data[number])[1]


@dataclass(frozen=True)
class Said:
    """A text that was said on a topic, and when it was received."""

    at_ns: int
    text: str


@dataclass(eq=False)
class RecordedRun:
    """One robot's policy in a bag.

    Args:
        path: The bag.
        namespace: The robot's.
        policy: The policy file that ran, loaded for this robot.
        robot: The robot.
        parameters: Parameters of its nodes, by their names in its namespace.
        inputs: Messages of each sensor topic that the policy reads.
        commands: What the policy said, by the output's name.
        passed: What the guard let through, likewise.
        first_ns: Receipt of the bag's first message.
        last_ns: Receipt of its last.
        lost: Messages that did not arrive at the recorder, by topic in the namespace.
        description: The robot's URDF; empty: not recorded.
        damage: Where the bag cannot be read.
    """

    path: Path
    namespace: str
    policy: Policy
    robot: RobotSpec
    parameters: Mapping[str, Mapping[str, Any]]
    inputs: dict[str, Stream]
    commands: dict[str, Stream]
    passed: dict[str, Stream]
    first_ns: int
    last_ns: int
    lost: Mapping[str, int]
    description: str = ""
    damage: Sequence[str] = ()
    rows: dict[str, Indices] | None = None
    """What the policy node said of its steps, by column; None: the bag has none."""
    held: dict[int, Held] = field(default_factory=dict)
    """What the policy node said of the inputs that hold, by version."""
    said: dict[str, list[Said]] = field(default_factory=dict)
    """Texts by topic: the guard's mode and its reasons, instructions."""
    goals: list[tuple[int, Array]] = field(default_factory=list)
    """Receipt of each goal that was pursued, ns, and its position and orientation (7,)."""
    paths: list[tuple[int, GoalPath]] = field(default_factory=list)
    """Receipt of each path, ns, and its content."""
    clock: list[tuple[int, int]] = field(default_factory=list)
    """Receipt of each message of ``/clock``, ns, and the time that it says, ns."""
    markers: Any = None
    """The newest message of obstacles."""

    def seconds(self, at_ns: float) -> float:
        """Return a time of receipt in seconds since the bag began."""
        return (at_ns - self.first_ns) / NANOSECONDS

    @property
    def trigger(self) -> str:
        """The topic whose messages the policy answers."""
        names = [
            port.topic for port in self.policy.contract.inputs if port.picture is None and port.topic in self.inputs
        ]
        return topics.ODOM if topics.ODOM in names else names[0]

    @property
    def simulated(self) -> bool:
        """Whether the stamps are a simulator's."""
        stream = self.inputs[self.trigger]
        return bool(len(stream)) and bool(abs(np.median(stream.received_ns - stream.stamp_ns)) > _OTHER_CLOCK_NS)

    def on_stamps_clock(self, received_ns: Indices) -> Array | None:
        """Return times of receipt on the clock of the stamps, ns; None: it is not in the bag."""
        if not self.simulated:
            return received_ns.astype(float)
        if len(self.clock) < 2:
            return None
        at, told = np.array(self.clock, float).T
        return np.interp(received_ns.astype(float), at, told)


def read_run(path: Path, *, robot: str = "", policy: Path | None = None) -> RecordedRun:
    """Read a bag.

    Args:
        path: Its folder, or one of its files.
        robot: The robot's namespace; empty: the only one with a policy.
        policy: The policy file; None: it is found by its SHA-256.

    Raises:
        UserError: The bag has no policy, or several and none was chosen, or the policy file is not found.
    """
    with Bag(path) as bag:
        space = _namespace(bag, robot)
        attached = bag.attachments
        parameters = _parameters(attached.get(PARAMETERS, b""), space)
        spec = _robot(attached.get(f"{space}/{ROBOT}"), parameters, bag, space)
        told = str(parameters.get("policy", {}).get("policy", ""))
        file = policy_of_bag(bag.facts[f"{space}/{POLICY_HASH}"], policy, told, path)
        run = _Reading(bag, space, load_policy(file, robot=spec), spec, parameters).run()
        run.damage = (*bag.damage, *run.damage)
    for name, stream in run.commands.items():
        if not len(stream):
            raise UserError(f"{path} has no command of the policy ({name}): there is nothing to explain.")
    if not len(run.inputs[run.trigger]):
        raise UserError(f"{path} has no message on {space}/{run.trigger}, which the policy answers.")
    return run


class _Reading:
    """Reads the topics of one robot in one pass."""

    def __init__(
        self, bag: Bag, space: str, policy: Policy, robot: RobotSpec, parameters: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._bag, self._space = bag, space
        self._tf = TransformBuffer()
        contract = policy.contract
        by_topic: dict[str, list[Port]] = {}
        for port in contract.inputs:
            if port.topic not in topics.LATCHED:
                by_topic.setdefault(port.topic, []).append(port)
        given = {parameter.name: parameter.default for parameter in (*FRAME_PARAMETERS, *SCAN_PARAMETERS)}
        given |= {name: value for name, value in parameters.get("policy", {}).items() if name in given}
        self._frames = frames_of(given, fixed_base=robot.fixed_base)  # type: ignore[arg-type]
        inputs = {topic: self._stream(ports, given, robot) for topic, ports in by_topic.items()}
        lost = {name.removeprefix(f"{space}/"): n for name, n in bag.lost().items() if name.startswith(f"{space}/")}
        self._run = RecordedRun(
            bag.path, space, policy, robot, parameters, inputs,
            {port.name: _commands(port, topics.POLICY_PREFIX) for port in contract.outputs},
            {port.name: _commands(port, "") for port in contract.outputs},
            bag.first_ns, bag.last_ns, lost,
        )  # fmt: skip

    def run(self) -> RecordedRun:
        run, space = self._run, self._space
        streams = {
            f"{space}/{stream.topic}": stream
            for group in (run.inputs, run.commands, run.passed)
            for stream in group.values()
        }
        rows: list[dict[str, Indices]] = []
        files: list[PolicyFile] = []
        texts = (topics.GUARD_MODE, topics.GUARD_REASON, topics.INSTRUCTION)
        others: dict[str, Callable[[Message], None]] = {
            f"{space}/{topics.POLICY_STEPS}": lambda m: rows.append(read_rows(self._plain(m))),
            f"{space}/{topics.POLICY_HELD}": self._hold,
            f"{space}/{topics.POLICY_FILE}": lambda m: files.append(read_file_text(self._plain(m).data)),
            f"{space}/{topics.GOAL_ACTIVE}": self._goal,
            f"{space}/{topics.GOAL_PATH}": lambda m: run.paths.append((m.received_ns, read_path_data(m.data)[1])),
            f"{space}/{topics.ROBOT_DESCRIPTION}": lambda m: setattr(run, "description", self._plain(m).data),
            topics.WORLD_MARKERS: lambda m: setattr(run, "markers", self._plain(m)),
            topics.CLOCK: lambda m: run.clock.append((m.received_ns, stamp_to_ns(self._plain(m).clock))),
            topics.TF: lambda m: self._tf.add(read_tf(m.data), static=False),
            topics.TF_STATIC: lambda m: self._tf.add(read_tf(m.data), static=True),
        }
        for topic in texts:
            others[f"{space}/{topic}"] = lambda m, topic=topic: run.said.setdefault(topic, []).append(  # type: ignore[misc]
                Said(m.received_ns, str(self._plain(m).data))
            )
        for message in self._bag.messages({*streams, *others}):
            if message.topic in streams:
                streams[message.topic].add(message)
            else:
                try:
                    others[message.topic](message)
                except ValueError:
                    continue  # it was refused by the policy node as well
        if rows:
            names = rows[0].keys()
            kept = [one for one in rows if one.keys() == names]
            run.rows = {name: np.concatenate([one[name] for one in kept]) for name in names}
        other = next((file for file in files if file.sha256 != run.policy.sha256), None)
        if other is not None and run.rows is not None:
            first = run.rows["step"] <= other.after_step
            run.rows = {name: column[first] for name, column in run.rows.items()}
            run.damage = [
                f"After step {other.after_step} {other.policy} ({other.sha256[:16]}...) took the policy's place: what"
                " follows is not run again."
            ]
        return run

    def _plain(self, message: Message) -> Any:
        return cdr.deserialize(message.data, topics.message_type(self._bag.topics[message.topic].kind))

    def _hold(self, message: Message) -> None:
        held = read_held(self._plain(message))
        self._run.held[held.version] = held

    def _goal(self, message: Message) -> None:
        pose = self._plain(message).pose
        p, q = pose.position, pose.orientation
        self._run.goals.append((message.received_ns, np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])))

    def _stream(self, ports: Sequence[Port], given: Mapping[str, Any], robot: RobotSpec) -> Stream:
        topic = ports[0].topic
        for port in ports:
            if port.picture is not None:
                camera = robot.cameras.get(topic.partition("/")[0])
                return Stream(topic, ImageReader(port.picture, port.name, camera.frames if camera else ()), keeps=False)
        read = topic_reader(
            ports[0].type,
            {p.name: p.field for p in ports},
            {p.name: p.element_names for p in ports},
            scan=ports[0].scan,
            scan_frames=(given["scan_frame"],) if given["scan_frame"] else (),
            zero_is_far=given["zero_is_far"],
            place=self._place,
            mount=lambda frame, stamp_ns: self._tf.lookup(self._frames.base, frame.lstrip("/"), stamp_ns),
        )
        return Stream(topic, read)

    def _place(self, frame: str, stamp_ns: int) -> Placed | None:
        if self._frames.is_world(frame):
            return None
        try:
            return self._tf.lookup(self._frames.world, frame, stamp_ns)
        except NoTransform as error:
            raise NoTransform(f"it is in the frame '{frame}', and {error}") from error


def _commands(port: Port, prefix: str) -> Stream:
    names = {port.name: port.element_names} if port.element_names else {}
    return Stream(prefix + port.topic, topic_reader(port.type, {port.name: port.field}, names))


def _namespace(bag: Bag, given: str) -> str:
    """Return the namespace of the robot with a policy."""
    ending = f"/{POLICY_HASH}"
    found = sorted(name.removesuffix(ending) for name in bag.facts if name.endswith(ending))
    if not found:
        raise UserError(
            f"{bag.path} does not say which policy ran: record it with `rlstack up deploy --record` or `rlstack record`"
            " while a policy node runs."
        )
    if given:
        space = "/" + given.strip("/")
        if space not in found:
            raise unknown_name(f"robot with a policy in {bag.path}", given, found)
        return space
    if len(found) > 1:
        raise UserError(f"{bag.path} has {len(found)} robots with policies, {', '.join(found)}: choose with --robot.")
    return found[0]


def _parameters(text: bytes, space: str) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of a robot's nodes, by their names in its namespace."""
    try:
        told = yaml.safe_load(text) or {}
        known = {
            name.removeprefix(f"{space}/"): values["ros__parameters"]
            for name, values in told.items()
            if name.startswith(f"{space}/")
        }
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return {}
    return {name: values for name, values in known.items() if isinstance(values, Mapping)}


def _robot(data: bytes | None, parameters: Mapping[str, Mapping[str, Any]], bag: Bag, space: str) -> RobotSpec:
    """Return the robot of the bag: the file that has the attached content, or else that content."""
    name = bag.facts.get(f"{space}/robot") or str(parameters.get("policy", {}).get("robot", ""))
    path = robot_files().get(name, Path(name or "."))
    if data is None:
        if not name:
            raise UserError(f"{bag.path} does not say which robot {space} was.")
        return load_robot(name)
    if path.is_file() and path.read_bytes() == data:
        return load_robot(path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.yaml"
        file.write_bytes(data)
        return load_robot(file)
