"""The deployed chain under a drill: the processes of `rlstack up deploy`, with the drill's relay between them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from rlstack.bringup.drill import relay
from rlstack.bringup.drill.kind_drill import KindDrill
from rlstack.bringup.drill.relay import Relay, RelayNode
from rlstack.bringup.node_process import REAL_TIME_PRIORITIES, Process, System
from rlstack.bringup.supervisor import Supervisor, child_environment
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.signals import SENSED
from rlstack.kinds import find_kind
from rlstack.nodes.real_time import use_ordinary_scheduling, use_real_time_priority

START_S = 60.0
"""Time limit for nodes to start: Python, ROS and a simulator have to load."""
_ANSWER_S = 5.0
"""Time limit for a service's answer."""
_TRIES, _AGAIN_S = 8, 0.3
_SEEN = 10
"""Observations after a reset before arming: the stamps have jumped, and the guard waits whether that lasts."""
_LOST_S = 2.0
"""Longest time from arming until the policy commands."""
_FIRMWARE_TRIES, _CLIMB_S = 40, 8.0
"""The same of an autopilot's own firmware, which has to get over its failsafe, and climbs from the ground."""
_TOGETHER_S = 0.01
"""How much later than a mode its reason, which was sent before, may arrive."""


class NotReady(Exception):
    """The chain could not be brought to where the policy commands; the text says why."""


class Chain:
    """The running chain of one robot.

    Args:
        system: The deployment of one simulated robot.
        drill: The robot's drill.
        factor: Simulated seconds per second.
        start_height_m: Height to start at.
        reset: Service that carries the robot back to its start; a firmware's airframe has its own.
        log: Called with every line of the processes.
    """

    PREFIX = relay.PREFIX

    def __init__(
        self,
        system: System,
        drill: KindDrill,
        *,
        factor: float = 1.0,
        start_height_m: float = 0.0,
        reset: str = topics.RESET,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.drill, self.factor, self._log = drill, factor, log
        self._reset, self.firmware = reset, reset != topics.RESET
        self.heights: list[tuple[float, float]] = []
        """Times of arrival, s, and heights, m, of a firmware's airframe, whatever the robot node says."""
        robot, guard, commander = (process for process in system.processes[:3])
        self.namespace, self.commander = guard.namespace, commander.name
        self.robot_file = str(guard.parameters["robot"])
        self.goal: tuple[float, ...] = tuple(commander.parameters["goal_position"])  # type: ignore[arg-type]
        self.config = _guard_config(drill.robot, guard.parameters)
        inputs = [port.name for port in system.contract.inputs] if system.contract is not None else []
        sensed = {SENSED[name].topic for name in inputs if name in SENSED} - {topics.GOAL, topics.GOAL_PATH}
        self._sensor_topics = sorted({*sensed, drill.observed, *drill.TOPICS} - {topics.BATTERY, topics.PEOPLE})
        command = drill.command.topic
        self._command_topic = command
        changed = (*self._sensor_topics, topics.BATTERY, command)
        robot, guard = _obeying(robot), _obeying(guard)
        parameters = {**robot.parameters, **({"start_height_m": start_height_m} if start_height_m else {})}
        processes = [
            replace(_without_end(robot), parameters=parameters, remappings=_renamed(robot, changed)),
            _without_end(guard),
            replace(commander, remappings=_renamed(commander, (topics.POLICY_PREFIX + command,))),
            *system.processes[3:],
        ]
        self.system = replace(system, processes=tuple(processes))
        self.environment = child_environment(os.environ)
        self.modes: list[tuple[float, str]] = []
        """The guard's modes with their times of arrival, s."""
        self.warnings: list[tuple[str, str]] = []
        """Nodes and what their diagnostics have warned of since :attr:`lines` was emptied."""
        self._reasons: list[tuple[float, str]] = []
        self.lines: list[tuple[float, str, str]] = []
        """Lines that the processes logged: time of arrival, s, process, text."""
        self.kept: dict[str, Any] = {}
        """What a fault holds between its beginning and its end."""
        self._supervisor: Supervisor | None = None

    # Starting and ending

    def start(self) -> None:
        """Start the processes and wait until they talk to each other.

        Raises:
            NotReady: They do not.
        """
        self.node = RelayNode(self.namespace)
        node, add = self.node.node, self.node.add
        self.sensors = {
            topic: add(topic, topics.message_type(_type(topic)), commands=False) for topic in self._sensor_topics
        }
        self.observed = self.sensors[self.drill.observed]
        self.battery = add(topics.BATTERY, topics.type_of(topics.BATTERY), commands=False)
        kind = topics.type_of(self._command_topic)
        self.policy = add(topics.POLICY_PREFIX + self._command_topic, kind, commands=True)
        self.command: Relay = add(self._command_topic, kind, commands=True, from_relay=True)
        quality = topics.quality("latched")
        quality.depth = 10
        node.create_subscription(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, quality)
        node.create_subscription(topics.type_of(topics.GUARD_REASON), topics.GUARD_REASON, self._on_reason, quality)
        kind, event = topics.type_of(topics.DIAGNOSTICS), topics.quality("event")
        node.create_subscription(kind, topics.DIAGNOSTICS, self._on_diagnostics, event)
        if self.firmware:
            quality = topics.quality("sensor_in")
            node.create_subscription(topics.type_of(topics.EXTERNAL_POSE), topics.EXTERNAL_POSE, self._on_pose, quality)
        self._make_clients()
        # the relay must not delay messages where the nodes would not
        use_real_time_priority(REAL_TIME_PRIORITIES["robot"], inherited=False)
        self._supervisor = Supervisor(self.system, log=self._on_line, environment=self.environment)
        self._supervisor.start()
        self.wait(self._talks, "the nodes", START_S)

    def close(self) -> None:
        """End the processes, and leave ROS."""
        use_ordinary_scheduling()
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None
        self.node.close()

    @property
    def mode(self) -> str:
        """The guard's mode; empty before it is known."""
        return self.modes[-1][1] if self.modes else ""

    @property
    def ended(self) -> list[str]:
        """Processes that run no more."""
        assert self._supervisor is not None
        return [process.name for process in self.system.processes if process.name not in self._supervisor.alive()]

    def start_again(self, name: str) -> None:
        """Start a process that has ended, and wait until it talks to the others; nothing if it runs.

        Raises:
            NotReady: It does not.
        """
        assert self._supervisor is not None
        if name not in self.ended:
            return
        self._supervisor.start_again(name)
        if name == "guard":
            told = len(self.modes)
            self.wait(lambda: len(self.modes) > told, "the guard", START_S)
        else:
            self._wait_for(self.observed if name == "robot" else self.policy, 1)

    # Getting ready

    def prepare(self, settle_s: float) -> None:
        """Reset the robot, arm it, and let the policy command it for a time, s of the robot.

        Raises:
            NotReady: The guard does not let the policy command, several times.
        """
        why = ""
        for _ in range(_FIRMWARE_TRIES if self.firmware else _TRIES):
            if self.ended:
                raise NotReady(f"{' and '.join(self.ended)} ended: {self._last_words()}")
            self.disarm()
            if self.mode == "estop":
                self.call(topics.CLEAR_ESTOP)
            if why := self.carry_back():
                self.node.spin(_AGAIN_S)
                continue
            self._wait_for(self.observed, _SEEN)
            answer = self.call(topics.ARM, data=True)
            if not answer.success:
                why = answer.message
                self.node.spin(_AGAIN_S)
                continue
            self._wait_for_policy()
            if self.mode == "policy":
                self.node.spin(settle_s / self.factor)
            if self.mode == "policy":
                return
            why = f"the guard is in {self.mode} ({self.reason(self.mode)})"
        raise NotReady(why)

    def carry_back(self) -> str:
        """Put the robot back to its start; return why that was not possible, if a firmware's airframe says so."""
        answer = self.call(self._reset)
        return answer.message if self.firmware and not answer.success else ""

    def disarm(self) -> None:
        """Disarm the robot; nothing if its guard does not answer."""
        if "guard" not in self.ended:
            self.call(topics.ARM, data=False)

    def clear(self) -> None:
        """Pass all messages on as they are."""
        for one in self.node.relays.values():
            one.set_change(None)
            one.muted = False

    def keep(self, keeps: bool) -> None:
        """Begin to keep all messages that pass, or end it."""
        for one in self.node.relays.values():
            one.keep(keeps)

    # For faults

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` after a time, s of the robot, instead of anything that was still to be called."""
        self.node.at(delay_s / self.factor, action)

    def signal(self, process: str, number: int) -> None:
        """Send a signal to a process that runs."""
        assert self._supervisor is not None
        name = self.commander if process == "commander" else process
        if name not in self.ended:
            os.kill(self._supervisor.pid(name), number)

    def send_battery(self, share: float) -> None:
        """Report the charge of the battery, 0 to 1, instead of the robot's own report."""
        from rclpy.serialization import serialize_message

        message = topics.type_of(topics.BATTERY)()
        message.header.stamp = self._stamp()
        message.present, message.percentage = True, share
        message.voltage, message.current = 3.0 + 1.2 * share, -1.0
        self.battery.send(bytes(serialize_message(message)))

    def request(self, service: str, data: bool | None = None) -> Any:
        """Call a service and return the future of its answer."""
        client = self._clients[service]
        message = client.srv_type.Request()
        if data is not None:
            message.data = data
        return client.call_async(message)

    def call(self, service: str, data: bool | None = None) -> Any:
        """Call a service and return its answer.

        Raises:
            NotReady: It does not answer.
        """
        self.wait(self._clients[service].service_is_ready, f"the service {service}", START_S)
        future = self.request(service, data)
        self.wait(future.done, f"an answer from {service}", _ANSWER_S)
        return future.result()

    def set_parameter(self, node: str, name: str, value: Any) -> Any:
        """Set a parameter of a node, and return the future of the answer."""
        from rclpy.parameter import Parameter

        client = self._clients[f"{node}/set_parameters"]
        request = client.srv_type.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        return client.call_async(request)

    def said(self, process: str, text: str) -> bool:
        """Return whether a process has said a text since :attr:`lines` was emptied: in its log, or in diagnostics."""
        said = [(who, line) for _, who, line in self.lines] + self.warnings
        return any(text in line for who, line in said if who == process)

    def reason(self, mode: str) -> str:
        """Return why the guard last went to a mode."""
        reached = [t for t, name in self.modes if name == mode]
        if not reached:
            return ""
        return next((reason for t, reason in reversed(self._reasons) if t <= reached[-1] + _TOGETHER_S), "")

    def wait(self, condition: Callable[[], Any], what: str, timeout_s: float) -> None:
        """Pass messages on until ``condition()`` holds.

        Raises:
            NotReady: It does not within the time.
        """
        if not self.node.spin_until(condition, timeout_s):
            raise NotReady(f"{what} did not come within {timeout_s:g} s: {self._last_words()}")

    # ---------------------------------------------------------------------------------------------------------

    def _talks(self) -> bool:
        if self.ended:
            raise NotReady(f"{' and '.join(self.ended)} ended: {self._last_words()}")
        ready = all(client.service_is_ready() for client in self._clients.values())
        return bool(ready and self.mode and self.observed.passed and self.policy.passed)

    def _wait_for(self, relayed: Relay, count: int) -> None:
        before = relayed.passed
        self.wait(lambda: relayed.passed >= before + count, f"a message on {relayed.target}", START_S)

    def _wait_for_policy(self) -> None:
        self.node.spin_until(lambda: self.mode == "policy", _CLIMB_S if self.firmware else _LOST_S / self.factor)

    def _make_clients(self) -> None:
        from rcl_interfaces.srv import SetParameters
        from std_srvs.srv import SetBool, Trigger

        kinds = {topics.ARM: SetBool, **dict.fromkeys((self._reset, topics.ESTOP, topics.CLEAR_ESTOP), Trigger)}
        kinds |= {f"{name}/set_parameters": SetParameters for name in ("robot", "guard", self.commander)}
        self._clients = {name: self.node.node.create_client(kind, name) for name, kind in kinds.items()}

    def _stamp(self) -> Any:
        from rclpy.time import Time

        from rlstack.bringup.drill.changes import stamp_ns

        return Time(nanoseconds=stamp_ns(self.observed.newest) if self.observed.newest else 0).to_msg()

    def _on_pose(self, message: Any) -> None:
        self.heights.append((time.monotonic(), message.pose.position.z))

    def _on_mode(self, message: Any) -> None:
        self.modes.append((time.monotonic(), message.data))

    def _on_reason(self, message: Any) -> None:
        self._reasons.append((time.monotonic(), message.data))

    def _on_diagnostics(self, message: Any) -> None:
        space = f"{self.namespace}/".lstrip("/")
        self.warnings += [(one.name.removeprefix(space), one.message) for one in message.status if one.message != "ok"]

    def _on_line(self, line: str) -> None:
        name, _, text = line.removeprefix("[").partition("] ")
        self.lines.append((time.monotonic(), name, text))
        self._log(line)

    def _last_words(self) -> str:
        return " / ".join(f"{who}: {text}" for _, who, text in self.lines[-3:]) or "nothing was logged"


def _guard_config(robot: Any, parameters: Mapping[str, Any]) -> Any:
    config = find_kind(robot.kind).load("guard").CONFIG
    own = {field.name for field in fields(config)}
    given = {name: value for name, value in parameters.items() if name in own}
    return config.from_robot(robot, allow_wider=bool(parameters.get("allow_wider", False)), **given)


def _renamed(process: Process, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return (*process.remappings, *((name, relay.PREFIX + name) for name in names))


def _without_end(process: Process) -> Process:
    """Return a process whose end lets the others go on, so that their own answer is seen."""
    return replace(process, when_it_ends="let the rest go on", why="a drill watches the others")


def _obeying(process: Process) -> Process:
    """Return a process that takes commands from the drill's node, which passes them on, if it obeys one node alone."""
    if "command_source" not in process.parameters:
        return process
    return replace(process, parameters={**process.parameters, "command_source": relay.NODE})


def _type(topic: str) -> str:
    if topic in topics.TYPES:
        return topics.TYPES[topic]
    if topic == topics.SCAN:
        return topics.SCAN_TYPE
    for camera_kind, kind in topics.CAMERA_TYPES.items():
        if topic.endswith(f"/{camera_kind}"):
            return kind
    raise UserError(f"A drill cannot pass the topic {topic} on.")
