"""The policy node: runs a policy file on the topics that its contract names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, Reader, field_reader
from rlstack.interfaces.signal_reader import GoalPath
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.timing import StampClock
from rlstack.nodes.commands import command_message
from rlstack.nodes.goal_path import QUALITIES, PathListener
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.policy_loop import Answer, PolicyLoop
from rlstack.nodes.progress_checker import ProgressChecker
from rlstack.nodes.readers import SCAN_PARAMETERS, cameras_of, every_ns, reader
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.policies import Contract, Policy, Port, load_policy, robot_name
from rlstack.robots import RobotSpec, load_robot
from rlstack.robots.frames import from_yaw

_LATCHED = frozenset({topics.GOAL, topics.GOAL_PATH})
_NAN = math.nan
_GOAL_PERIOD_S = 0.2

PARAMETERS = (
    Parameter("policy", "", "Path of the policy file (ONNX)."),
    Parameter("robot", "", "Name or file of the robot that it must be for; empty takes the policy's."),
    Parameter(
        "goal_position",
        (_NAN, _NAN, _NAN),
        "Position to hold until a goal or a path comes, m in odom; NaN waits for the topic.",
        nan=True,
        live=True,
    ),
    Parameter("goal_yaw", _NAN, "Heading that goes with goal_position, rad; NaN is 0.", nan=True, live=True),
    Parameter("lock_step", False, "Answer every observation once, on inputs of exactly the same stamp."),
    Parameter(
        "stale_after_periods",
        2.0,
        "Control periods after which an observation is too old to act on.",
        minimum=1.0,
        maximum=100.0,
        live=True,
    ),
    Parameter(
        "topic_timeout_s", 5.0, "Seconds to wait for the first message of every topic.", minimum=0.1, maximum=3600.0
    ),
    *SCAN_PARAMETERS,
    Parameter(
        "picture_max_age_s",
        0.0,
        "Seconds after which a camera's picture is too old to act on; 0 takes what the policy says.",
        minimum=0.0,
        maximum=10.0,
    ),
    Parameter("goal_tolerance_m", 0.2, "Within this a base's goal counts as reached, m.", minimum=0.001),
    Parameter(
        "patience_s",
        30.0,
        "A base's goal that has come no nearer for so long is said to be out of reach, s.",
        minimum=0.1,
    ),
)


class PolicyNode(ManagedNode):
    """Steps a policy on the robot's topics and sends its commands to the guard, under ``policy/``.

    Args:
        policy: A loaded policy; None takes the parameter ``policy``.
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    NAME = "policy"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, policy: Policy | None = None, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(self.NAME, self.PARAMETERS, overrides, **options)
        self._given = policy

    def configure(self) -> None:
        """Load the policy and subscribe to exactly the topics that its contract names."""
        self._policy, robot = (self._given, None) if self._given else self._load()
        contract = self._policy.contract
        if "waypoint" in {port.name for port in contract.outputs}:
            raise UserError(
                f"{self._policy.path} selects goals on a map and does not drive: use it with a planner that drives:"
                f" `rlstack up deploy --robot {contract.robot} --policy {self._policy.path}`, or in the planner"
                f' node, -p planner:=explorer_policy -p options:=\'{{"policy": "{self._policy.path}"}}\'.'
            )
        self._lock_step = self.parameters["lock_step"]
        self._loop = PolicyLoop(
            self._policy,
            latched=_LATCHED,
            stale_after_periods=self.parameters["stale_after_periods"],
            lock_step=self._lock_step,
            every_ns=every_ns(robot) if robot else None,
            cameras=cameras_of(robot) if robot else None,
            picture_max_age_s=self.parameters["picture_max_age_s"],
        )
        self._robot = robot
        self._progress = self._make_progress_checker(contract)
        self._stamps = StampClock()
        self._senders = {port.name: self._sender(port) for port in contract.outputs}
        by_topic: dict[str, list[Port]] = {}
        for port in contract.inputs:
            by_topic.setdefault(port.topic, []).append(port)
        self._types = {topic: ports[0].type for topic, ports in by_topic.items()}
        self._came: set[str] = set()
        self._refused: dict[str, str] = {}
        if topics.GOAL_PATH in by_topic and topics.GOAL not in by_topic:
            self._hear_goals_as_paths()
        # Subscriptions are served in the order of creation: a new goal applies to messages that arrive with it, and a
        # path wins over a simultaneous goal.
        for topic in sorted(by_topic, key=lambda topic: topic not in _LATCHED):
            self._subscribe(topic, by_topic[topic])
        if contract.state and not self._lock_step:  # for reproducible runs, lock step follows stamps alone
            self._mode = ""
            self.subscriber(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, "latched")

    def activate(self) -> None:
        """Start stepping."""
        self._loop.reset()
        self._use_default_goal()
        self.every(_GOAL_PERIOD_S, self._use_default_goal)  # its parameters are live
        self._waiting_since = time.monotonic()
        self._timer = self.every(1e-9 * self._loop.next_tick_ns, self._tick)
        self._tick_ns = self._loop.next_tick_ns
        self._waiting_for_topics = True

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the steps."""
        counts = self._loop.counts
        figures = {
            "policy": self._policy.contract.name,
            "steps": counts.steps,
            "steps on a repeated observation": counts.repeated,
            "stale": counts.stale,
            "refused": counts.refused,
            "last refusal": counts.last_refusal,
            "recurrent state resets": counts.resets,
        }
        warning = counts.warning
        if self._progress is not None:
            figures["goal"] = self._progress.status
            warning = warning or self._progress.warning
        missing = sorted(self._loop.missing)
        return (f"waiting for {', '.join(missing)}" if missing else warning), figures

    def _load(self) -> tuple[Policy, RobotSpec]:
        """Return the policy to step, and the robot that it is for."""
        path = self.parameters["policy"]
        if not path:
            raise UserError("The policy node needs a policy file: --ros-args -p policy:=PATH.")
        if self.parameters["robot"]:
            robot = load_robot(self.parameters["robot"])
        else:
            robot = load_robot(robot_name(load_policy(path).contract, path))
        return load_policy(path, robot=robot), robot

    def _make_progress_checker(self, contract: Contract) -> ProgressChecker | None:
        """Return the progress checker for a base's goals; None where it does not apply."""
        drives = {port.topic for port in contract.outputs} == {topics.TWIST_COMMAND}
        if not drives or not {"position", "goal_position"} <= {port.name for port in contract.inputs}:
            return None
        return ProgressChecker(self.parameters["goal_tolerance_m"], self.parameters["patience_s"])

    def _sender(self, port: Port) -> Callable[[int, Array], None]:
        kind = topics.message_type(port.type)
        publisher = self.publisher(kind, topics.POLICY_PREFIX + port.topic, "command")
        message = command_message(port.name, port.element_names)
        return lambda stamp_ns, values: publisher.publish(message.fill(stamp_ns, values))

    def _subscribe(self, topic: str, ports: list[Port]) -> None:
        kind = topics.message_type(ports[0].type)
        if topic == topics.GOAL_PATH:
            listener = PathListener(self._on_path, self.warn)
            for use in QUALITIES:
                self.subscriber(kind, topic, listener, use, raw=True)
            return
        if topic in _LATCHED:
            readers = [(port.name, field_reader(kind, port.field, port.element_names)) for port in ports]
            self._hear_goals(readers, lambda values: self._loop.on_message(topics.GOAL, 0, values))
            return
        quality: topics.Quality = "sensor_in_reliable" if self._lock_step else "sensor_in"
        read = reader(ports, self.parameters, self._robot)
        loop, stamps, is_trigger = self._loop, self._stamps, topic == self._loop.trigger

        def receive(data: bytes) -> None:
            if not self.active:
                return
            try:
                stamp, values = read(data)
            except ValueError as error:
                loop.counts.refused += 1
                loop.counts.last_refusal = loop.counts.warning = self._refused[topic] = f"{topic}: {error}"
                self.warn(f"What came on the topic {self.resolve_topic_name(topic)} was refused: {error}.", topic)
                return
            if is_trigger:
                stamps.observe(stamp, time.monotonic_ns(), time.time_ns())
            answer = loop.on_message(topic, stamp, values)
            if answer is not None:
                self._send(answer)

        self.subscriber(kind, topic, receive, quality, raw=True)

    def _hear_goals(self, readers: list[tuple[str, Reader]], take: Callable[[dict[str, Array]], Any]) -> None:
        for use in QUALITIES:
            self.subscriber(
                topics.type_of(topics.GOAL), topics.GOAL, lambda message: self._on_goal(readers, take, message), use
            )

    def _hear_goals_as_paths(self) -> None:
        """Convert a goal to a path that stays there, for policies that follow paths."""
        kind, signals = topics.type_of(topics.GOAL), (SENSED["goal_position"], SENSED["goal_orientation"])
        readers = [(s.name, field_reader(kind, s.field, ())) for s in signals]

        def take(values: dict[str, Array]) -> None:
            self._came.add(topics.GOAL_PATH)
            self._rest_at(values["goal_position"], values["goal_orientation"])

        self._hear_goals(readers, take)

    def _send(self, answer: Answer) -> None:
        for name, values in answer.outputs.items():
            self._senders[name](answer.stamp_ns, values)
        if self._progress is not None:
            seen = self._loop.seen
            self._progress.update(answer.stamp_ns, seen["position"], seen["goal_position"])
        # The timer restarts with every step, so it fires only when the next observation is late.
        if self._tick_ns != self._loop.next_tick_ns:
            self._tick_ns = self._timer.timer_period_ns = self._loop.next_tick_ns
        self._timer.reset()

    def _tick(self) -> None:
        if self._waiting_for_topics:
            self._look_for_topics()
        now = self._stamps.now_ns(time.monotonic_ns(), time.time_ns())
        if now is not None:
            self._loop.stale_after_periods = self.parameters["stale_after_periods"]
            answer = self._loop.on_tick(now)
            if answer is not None:
                self._send(answer)

    def _look_for_topics(self) -> None:
        missing = sorted(self._loop.missing)
        self._waiting_for_topics = bool(missing)
        waited = time.monotonic() - self._waiting_since
        if missing and waited > self.parameters["topic_timeout_s"]:
            raise UserError(" ".join(self._say_missing(topic) for topic in missing))

    def _say_missing(self, topic: str) -> str:
        full, wanted = self.resolve_topic_name(topic), self._types[topic]
        offered = {info.topic_type for info in self.get_publishers_info_by_topic(full)}
        seconds = f"{self.parameters['topic_timeout_s']:g} s"
        if topic in self._refused:
            return f"Messages on the topic {full} are refused: {self._refused[topic].removeprefix(f'{topic}: ')}."
        sentence = f"The topic {full} ({wanted}) did not come within {seconds}: "
        if offered and wanted not in offered:
            return sentence + f"its publisher sends {', '.join(sorted(offered))}; remap {topic} to the right topic."
        if offered:
            return sentence + "it has a publisher that sends nothing; check that the sensor behind it runs."
        if topic in _LATCHED:
            return sentence + "publish it, or give -p goal_position:=[x, y, z] in metres."
        return (
            sentence + "nothing publishes it; check that the robot node runs, in the same namespace"
            f" ({self.get_namespace()}) and ROS_DOMAIN_ID, or remap {topic}."
        )

    def _use_default_goal(self) -> None:
        position, yaw = np.array(self.parameters["goal_position"]), self.parameters["goal_yaw"]
        if not np.isfinite(position).all():
            return
        orientation = from_yaw(0.0 if math.isnan(yaw) else yaw)
        if topics.GOAL in self._types and topics.GOAL not in self._came:
            self._set_goal(position, orientation)
        if topics.GOAL_PATH in self._types and topics.GOAL_PATH not in self._came:
            self._rest_at(position, orientation)

    def _rest_at(self, position: Array, orientation: Array) -> None:
        stamps = np.array([0, NANOSECONDS])  # a path that stays in place: its time does not matter
        self._loop.on_path(GoalPath(stamps, np.tile(position, (2, 1)), np.tile(orientation, (2, 1))))

    def _on_goal(
        self, readers: list[tuple[str, Reader]], take: Callable[[dict[str, Array]], Any], message: Any
    ) -> None:
        values = {name: read(message) for name, read in readers}
        if not topics.in_world(message.header.frame_id):
            self.warn(f"A goal in the frame '{message.header.frame_id}' was refused: give it in {topics.WORLD_FRAME}.")
            return
        orientation = values.get("goal_orientation")
        bad_turn = orientation is not None and abs(float(np.linalg.norm(orientation)) - 1.0) > 1e-3
        if bad_turn or not all(np.isfinite(v).all() for v in values.values()):
            self.warn("A goal was refused: its position must be finite and its orientation a unit quaternion.")
            return
        self._came.add(topics.GOAL)
        take(values)

    def _on_path(self, path: GoalPath, *, from_now: bool) -> None:
        self._came.add(topics.GOAL_PATH)
        self._loop.on_path(path, from_now=from_now)

    def _set_goal(self, position: Array, orientation: Array) -> None:
        wanted = {port.name for port in self._policy.contract.inputs if port.topic == topics.GOAL}
        values = {"goal_position": position, "goal_orientation": orientation}
        self._loop.on_message(topics.GOAL, 0, {name: value for name, value in values.items() if name in wanted})

    def _on_mode(self, message: Any) -> None:
        before, self._mode = self._mode, message.data
        if self._mode == "policy" and before != "policy":
            self._loop.reset()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the policy node; return the exit status."""
    return run_nodes(PolicyNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
