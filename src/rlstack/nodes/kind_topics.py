"""Topics of a kind of robot: the base class of its part ``topics``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Signals
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.trajectory_messages import TrajectoryReader
from rlstack.kinds import find_kind, kind_names
from rlstack.nodes.command_messages import without_stamps
from rlstack.nodes.frames import frames_of
from rlstack.nodes.goal_topics import GoalPoint
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.placed_messages import PlacedMessages
from rlstack.nodes.transform_listener import TransformListener
from rlstack.robots import RobotSpec

if TYPE_CHECKING:
    from rlstack.sim.simulated_robot import SimulatedRobot

Filler = Callable[[int, Signals], Any]
"""Creates a topic's message from a stamp, ns, and sensed signals."""


class GuardSubscriptions:
    """A guard's subscriptions besides observations and commands: none; a kind whose guard needs more overrides this.

    Args:
        node: The guard node, with ``lock_step``, ``times_of``, ``stamps_now_ns`` and ``on_decision``.
        guard: The guard.
    """

    def __init__(self, node: Any, guard: Any) -> None:
        self._node, self._guard = node, guard
        self._quality: topics.Quality = "sensor_in_reliable" if node.lock_step else "sensor_in"
        self._newest_ns = -1
        self.counts: dict[str, Any] = {}
        """Figures for diagnostics."""
        self._refusals: dict[str, str] = {}
        self._listener = TransformListener(node, node.stamps_now_ns)
        self._placed = PlacedMessages(self._listener, frames_of(node.parameters))
        names = ("battery_percentage", "battery_voltage")
        kind = topics.type_of(topics.BATTERY)
        self._read_battery = SignalReader(kind, {name: SENSED[name].field for name in names})
        node.subscriber(kind, topics.BATTERY, self._on_battery, self._quality, raw=True)

    @property
    def warning(self) -> str:
        """Why the newest message of a sensor was refused; empty if all were accepted."""
        return "; ".join(self._refusals.values())

    def start(self) -> None:
        """Begin what runs while the node is active."""
        self._refusals.clear()

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a message that belongs to the observation of ``stamp_ns`` is still in transit (lock step)."""
        return False

    def _on_battery(self, data: bytes) -> None:
        if not self._node.active:
            return
        stamp, state = self._read_battery(data)
        if (times := self._node.times_of(stamp)) is not None:
            charge, voltage = (float(state[name][0]) for name in ("battery_percentage", "battery_voltage"))
            self._guard.on_battery(times[0], charge, voltage)
            self.counts["battery"] = self._guard.battery.state

    def forget(self) -> None:
        """Start another episode."""
        self._newest_ns = -1

    def _received(self, name: str, read: Callable[[bytes], tuple[int, Signals]], data: bytes) -> Any:
        """Return a message's stamp, ns, and signals; None if it is refused, waits, or the node is not active."""
        if not self._node.active:
            return None
        try:
            received = read(data)
        except ValueError as error:
            if not self._placed.waits(name, data, error):
                self._refuse(name, str(error))
            return None
        self._placed.came(name)
        self._refusals.pop(name, None)
        return received

    def _refuse(self, name: str, why: str) -> None:
        self.counts[f"{name}s refused"] += 1
        self._refusals[name] = f"a message on {name} was refused: {why}"
        self._node.warn(f"A message on {name} was refused: {why}.", name)


class KindTopics(ABC):
    """One robot on topics; by default a robot with joints.

    Args:
        robot: The robot.
        parameters: Those of the robot node.

    Raises:
        UserError: A parameter does not apply to robots of this kind.
    """

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters that the kind adds to the robot node."""
    GUARD_PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters that the kind adds to the guard node, besides fields of its guard's configuration."""
    GUARD_SUBSCRIPTIONS: ClassVar[type[GuardSubscriptions]] = GuardSubscriptions
    """Class of the guard's subscriptions besides observations and commands."""
    COMMAND_TYPE: ClassVar[Parameter | None] = None
    """The parameter, of robot node and guard node, that selects the message type of commands; None: only one exists."""
    TELEOPERATED: ClassVar[bool] = False
    """Whether the teleoperation nodes can guide the robot by its tool."""

    observed: str
    """The topic whose stamps commands answer. It is published last of all sensed topics, at the control rate."""
    command_type: Any
    """The message class."""
    timeout_s: float | None = None
    """Age at which a command stops the robot; None: the node's ``command_timeout_periods``."""

    def __init__(self, robot: Any, parameters: ParameterSet) -> None:
        self._robot = robot
        self._names = tuple(joint.name for joint in robot.drives)
        self.command_topic = command_of(robot).topic

    @classmethod
    def goal_point(cls, robot: Any, inputs: Collection[str]) -> GoalPoint:
        """Return the point that is to reach the goal: the robot's position; ``inputs`` are the policy's."""
        return GoalPoint()

    @abstractmethod
    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return a serialized command's stamp, ns, and signals; no stamp means now, no signals mean off.

        Raises:
            ValueError: The command is invalid; the text says why.
        """

    def follow(self, types: Collection[str]) -> bool:
        """Read commands of the type that their publishers have, if the robot may choose, by ``command_type``.

        Args:
            types: The types of the command topic's publishers, such as ``geometry_msgs/msg/Twist``.

        Returns:
            Whether the type has changed, so that the topic must be subscribed to anew.
        """
        return False

    def joint_states(self) -> tuple[str, Filler]:
        """Return the signal that a robot with ``joint_states`` senses, and the function that fills the message."""
        joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), self._names)
        return "joint_position", lambda stamp, s: joints.fill(stamp, s["joint_position"], s["joint_velocity"])

    def moves(self, command: Signals) -> bool:
        """Return whether a robot under this command needs another one soon."""
        return True

    def pose(self, backend: Backend, sensed: Signals) -> tuple[Array, Array]:
        """Return the pose of ``base_link`` in ``odom``: position (3,) m and orientation (4,) xyzw."""
        return sensed["position"], sensed["orientation"]

    def joints(self, sensed: Signals) -> Mapping[str, float]:
        """Return positions of joints, rad or m, by name, as in the robot file."""
        positions = sensed.get("joint_position")
        return {} if positions is None else dict(zip(self._names, positions.tolist()))

    def speeds(self, sensed: Signals) -> Mapping[str, float]:
        """Return speeds by name, rad/s, of rotors and other spinning parts whose position is not sensed."""
        return {}

    def change(self, backend: Backend, values: Mapping[str, Any]) -> str:
        """Take values of :attr:`PARAMETERS` that change while the node runs; return why not, or nothing."""
        return ""

    def start_state(self, backend: Backend, height_m: float) -> Signals | None:
        """Return a simulated robot's start state at a height; None: on the ground at its place.

        Raises:
            UserError: It cannot start in the air.
        """
        if height_m:
            raise UserError(
                f"start_height_m: {height_m} is not allowed for {backend.robot.name}, which does not fly: leave it out."
            )
        return None


class JointTargetTopics(KindTopics):
    """A robot with joint position commands: a fixed arm or a legged robot; a command without joints stops it."""

    def __init__(self, robot: Any, parameters: ParameterSet) -> None:
        super().__init__(robot, parameters)
        self._read = TrajectoryReader(self._names, plain=without_stamps(self.COMMAND_TYPE, parameters))
        self.command_type = self._read.type

    def read(self, data: bytes) -> tuple[int | None, Signals]:
        """Return targets (joints,), rad or m, in the file's order."""
        stamp, command = self._read(data)
        return stamp, command if len(command["joint_target"]) else {}


def kind_topics(robot: RobotSpec) -> type[KindTopics]:
    """Return the topics of a robot's kind.

    Raises:
        UserError: The kind lacks them.
    """
    found: type[KindTopics] = find_kind(robot.kind).load("topics")
    return found


def all_kind_topics() -> dict[str, type[KindTopics]]:
    """Return the topics of all kinds that have them, by the kind's name."""
    kinds = (find_kind(name) for name in kind_names())
    return {kind.name: kind.load("topics") for kind in kinds if kind.has("topics")}


def teleoperated(robot: RobotSpec, how: str = "-p robot:=panda") -> Any:
    """Return a robot that can be guided by hand; otherwise raise ``UserError``, with ``how`` to pass an arm."""
    if not kind_topics(robot).TELEOPERATED:
        raise UserError(f"{robot.name} is a {robot.kind}, but only arms can be guided by hand: {how}.")
    return robot


def simulated(backend: Backend) -> SimulatedRobot | None:
    """Return a backend if it is a robot in a simulation, otherwise None."""
    from rlstack.sim import simulated_robot  # a guard, which reads the parameters here, needs no simulator

    return backend if isinstance(backend, simulated_robot.SimulatedRobot) else None
