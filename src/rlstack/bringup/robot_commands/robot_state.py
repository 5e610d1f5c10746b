"""What a robot's topics and its part of the ROS graph tell of it."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlstack.bringup.robot_commands.robot_client import shown, within
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.nodes.goal_watch import OFF, GoalWatch

LISTENED_S = 1.5
"""Long enough for a message of diagnostics from every node."""
_SAME_CLOCK_S = 60.0
"""Stamps further than this from a clock are of another one."""
_MALFORMED = "malformed on "
_DISARMED, _ESTOP = OFF

REMEDIES = {
    _DISARMED: "`rlstack arm` arms it",
    _ESTOP: "`rlstack estop --clear`, then `rlstack arm`",
}
"""What to do, by the guard's mode."""
INSTRUCT = 'say what it is to do: `rlstack agent "arm, ..."`'
TAKEN_OVER = (
    "a policy that was only late commands again by itself; otherwise, once the robot stands, `rlstack disarm` and"
    " `rlstack arm`"
)


@dataclass(frozen=True)
class RobotState:
    """The state of a robot; what is not known is empty or None.

    Args:
        robot: Its name, as in its robot file.
        kind: Its kind.
        mode: The guard's mode.
        reason: Why the guard is in it.
        todo: What to do about it.
        armed: Whether it may move.
        interventions: How often the guard has taken over from the policy.
        observations: Topic, rate_hz and age_s of what its commands answer.
        battery: voltage_v and percentage, 0 to 1.
        policy: Its name, and sha256 of its file.
        goal: Position x, y, z that it pursues, m in ``odom``.
        instruction: What a policy that takes instructions follows; empty: it waits for one; None: it takes none.
        distance_m: Its distance from there.
        reached: Whether it is there.
        publishers: The nodes that publish a command or observation topic which should have one publisher, if several.
        malformed: Messages that could not be read, by node and topic.
        warnings: What its nodes warn of, by node.
    """

    robot: str = ""
    kind: str = ""
    mode: str = ""
    reason: str = ""
    todo: str = ""
    armed: bool = False
    interventions: int | None = None
    observations: dict[str, Any] = field(default_factory=dict)
    battery: dict[str, float] = field(default_factory=dict)
    policy: dict[str, str] = field(default_factory=dict)
    goal: tuple[float, float, float] | None = None
    instruction: str | None = None
    distance_m: float | None = None
    reached: bool = False
    publishers: dict[str, list[str]] = field(default_factory=dict)
    malformed: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether nothing has to be done: its policy commands, or it is disarmed as it should be."""
        return not (self.warnings or self.publishers or self.malformed) and self.mode not in ("", _ESTOP)


class RobotListener:
    """Subscribes to a robot's topics.

    Args:
        node: The node that listens.
        robot: The robot's namespace.
    """

    def __init__(self, node: Any, robot: str) -> None:
        self._node, self._robot = node, robot
        self._watch = GoalWatch(node, within(robot, ""), sends=False)
        self._diagnostics: dict[str, Any] = {}
        self._battery: Any = None
        self._arrived: dict[str, deque[tuple[float, int]]] = {
            topic: deque(maxlen=5000) for topic in (topics.ODOM, topics.JOINT_STATES)
        }
        self._clock_ns = 0
        self._subscribe(topics.DIAGNOSTICS, topics.DIAGNOSTICS, self._on_diagnostics, "event")
        self._subscribe(within(robot, topics.BATTERY), topics.BATTERY, self._on_battery, "sensor_in")
        self._subscribe(topics.CLOCK, topics.CLOCK, self._on_clock, "sensor_in")
        for topic in self._arrived:
            self._subscribe(within(robot, topic), topic, partial(self._on_observation, topic), "sensor_in")

    def state(self) -> RobotState:
        """Return the robot's state by what has arrived; the rate is that since the last call."""
        watch = self._watch
        guard, policy = self._values("guard"), {**self._values("planner"), **self._values("policy")}
        goal = None if watch.active is None else watch.active.pose.position
        warned = {n: s.message for n, s in self._diagnostics.items() if s.level != b"\x00" and s.message}
        role_off = watch.mode in OFF
        todo = REMEDIES.get(watch.mode, "" if watch.mode == "policy" or "guard" not in warned else TAKEN_OVER)
        if watch.instruction == "" and watch.mode != _ESTOP:
            todo = INSTRUCT
        return RobotState(
            robot=guard.get("robot", ""),
            kind=guard.get("kind", ""),
            mode=watch.mode,
            reason=watch.reason,
            todo=todo,
            armed=bool(watch.mode) and not role_off,
            interventions=watch.interventions if watch.interventions >= 0 else None,
            observations=self._observations(),
            battery={} if self._battery is None else _known(self._battery),
            policy={key: policy[key] for key in ("policy", "planner", "sha256") if key in policy},
            goal=None if goal is None else (goal.x, goal.y, goal.z),
            instruction=watch.instruction,
            distance_m=None if math.isnan(watch.distance_m) else watch.distance_m,
            reached=watch.reached,
            publishers=self._several_publishers(),
            malformed={
                f"{node}: {key.removeprefix(_MALFORMED)}": int(value)
                for node in self._diagnostics
                for key, value in self._values(node).items()
                if key.startswith(_MALFORMED)
            },
            warnings=warned,
        )

    def _subscribe(self, name: str, topic: str, callback: Any, use: topics.Quality) -> None:
        self._node.create_subscription(topics.type_of(topic), name, callback, topics.quality(use))

    @property
    def _observed(self) -> str:
        """The topic that the guard observes: odometry, if there is any."""
        return topics.ODOM if self._arrived[topics.ODOM] else topics.JOINT_STATES

    def _observations(self) -> dict[str, Any]:
        topic = self._observed
        arrived = list(self._arrived[topic])
        for one in self._arrived.values():
            one.clear()
        if len(arrived) < 2:
            return {"topic": topic, "rate_hz": 0.0, "age_s": None}
        span_s = arrived[-1][0] - arrived[0][0]
        ages = [NANOSECONDS**-1 * age_ns for _, age_ns in arrived if age_ns >= 0]
        age_s = None if not ages else sorted(ages)[len(ages) // 2]
        return {"topic": topic, "rate_hz": (len(arrived) - 1) / span_s if span_s else 0.0, "age_s": age_s}

    def _several_publishers(self) -> dict[str, list[str]]:
        commands = [prefix + command for command in topics.COMMANDS for prefix in ("", topics.POLICY_PREFIX)]
        found = {}
        for topic in (*commands, *self._arrived):
            publishers = self._node.get_publishers_info_by_topic(within(self._robot, topic))
            if len(publishers) > 1:
                found[topic] = [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in publishers]
        return found

    def _values(self, node: str) -> dict[str, str]:
        status = self._diagnostics.get(node)
        return {} if status is None else {pair.key: pair.value for pair in status.values}

    def _on_diagnostics(self, message: Any) -> None:
        for status in message.status:
            space, _, name = status.name.rpartition("/")
            if space.strip("/") == self._robot.strip("/"):
                self._diagnostics[name] = status

    def _on_battery(self, message: Any) -> None:
        self._battery = message

    def _on_clock(self, message: Any) -> None:
        self._clock_ns = stamp_to_ns(message.clock)

    def _on_observation(self, topic: str, message: Any) -> None:
        stamp = stamp_to_ns(message.header.stamp)
        ages = [now - stamp for now in (time.time_ns(), self._clock_ns)]
        age = min(ages, key=abs)
        self._arrived[topic].append((time.monotonic(), age if abs(age) < _SAME_CLOCK_S * NANOSECONDS else -1))


def describe(robot: str, state: RobotState) -> str:
    """Return a robot's state as lines."""
    title = shown(robot) + (f" ({state.robot}, {state.kind})" if state.robot else "")
    seen = state.observations
    age = "" if seen.get("age_s") is None else f", {1e3 * seen['age_s']:.0f} ms old"
    goal = "none" if state.instruction is None else ""
    if state.goal is not None:
        goal = " ".join(f"{x:.2f}" for x in state.goal) + " m"
        goal += "" if state.distance_m is None else f", {state.distance_m:.3f} m away"
        goal += ", reached" if state.reached else ""
    rows = [
        ("mode", (state.mode or "unknown: its guard says nothing") + (f": {state.reason}" if state.reason else "")),
        ("to do", state.todo),
        ("armed", "yes" if state.armed else "no"),
        ("interventions", "unknown" if state.interventions is None else str(state.interventions)),
        ("observations", f"{seen['topic']} {seen['rate_hz']:.1f} Hz{age}" if seen else ""),
        ("battery", _battery_text(state.battery)),
        ("policy", ", ".join(f"{key} {value}" if key == "sha256" else value for key, value in state.policy.items())),
        ("goal", goal),
        ("instruction", "none yet" if state.instruction == "" else state.instruction or ""),
        *(("publishers", f"{topic} has {len(who)}: {', '.join(who)}") for topic, who in state.publishers.items()),
        *(("malformed", f"{count} on {where}") for where, count in state.malformed.items()),
        *(("warning", f"{node}: {text}") for node, text in state.warnings.items()),
    ]
    return "\n".join([title, *(f"  {name:<13}  {text}" for name, text in rows if text)])


def _battery_text(battery: dict[str, float]) -> str:
    parts = [f"{battery['voltage_v']:.2f} V"] if "voltage_v" in battery else []
    parts += [f"{100.0 * battery['percentage']:.0f}%"] if "percentage" in battery else []
    return ", ".join(parts)


def _known(message: Any) -> dict[str, float]:
    values = {"voltage_v": message.voltage, "percentage": message.percentage}
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}
