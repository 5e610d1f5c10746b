"""Monitor robots by their topics: how far each one is from its goal, and the mode of its guard."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.bringup.kind_deployment import ODOMETRY, TrackedPoint
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.nodes.shutdown import shut_down
from rlstack.tasks.quadrotor.paths import Paths

_OFF = ("disarmed", "estop")

_KEPT = 120_000
"""Odometry messages that a summary covers: 20 minutes at 100 Hz."""


@dataclass(frozen=True)
class Summary:
    """Summary of a robot's run, in the robot's time.

    Args:
        seconds: Time from the first to the last odometry.
        error_m: Distance from the goal at the end.
        error_mean_m: Mean distance over the last half.
        error_max_m: Largest distance over the last half.
        mode: The guard's mode at the end.
        modes: Share of the odometry messages in each mode.
    """

    seconds: float
    error_m: float
    error_mean_m: float
    error_max_m: float
    mode: str
    modes: dict[str, float]

    def text(self, verb: str = "Flew") -> str:
        """Format the summary."""
        shares = ", ".join(f"{name} {100.0 * share:.0f}%" for name, share in self.modes.items())
        return (
            f"{verb} {self.seconds:.1f} s ({shares}). Distance from the goal: {self.error_m:.3f} m at the end,"
            f" {self.error_mean_m:.3f} m mean and {self.error_max_m:.3f} m largest over the last half."
        )


class Monitor:
    """Subscribes to robots' topics; call :meth:`spin` often.

    Args:
        goals: Initial goal of each robot, until a goal or path arrives by topic, m in ``odom``; by the absolute
            namespace of its topics.
        tracked: The point that is to reach the goal; None: the robot's position from its odometry.
    """

    def __init__(self, goals: Mapping[str, Sequence[float]], tracked: TrackedPoint | None = None) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.signals import SignalHandlerOptions

        from rlstack.nodes.executor import ControlExecutor

        self._context: Any = Context()
        # The supervisor handles signals, also after ROS is shut down.
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        only = next(iter(goals)) if len(goals) == 1 else ""
        self._node = rclpy.create_node("monitor", namespace=only, context=self._context)
        self._executor = ControlExecutor(context=self._context)
        self._executor.add_node(self._node)
        point = tracked or ODOMETRY
        self._awaited = SENSED[point.signal].topic
        self._robots = {
            space.rpartition("/")[2]: _Monitored(self._node, space, tuple(goal), point) for space, goal in goals.items()
        }

    @property
    def seconds(self) -> float:
        """Least time since the first odometry over all robots; 0 before it."""
        return min(robot.seconds for robot in self._robots.values())

    @property
    def seen(self) -> bool:
        """Whether every robot has sent odometry."""
        return all(robot.errors for robot in self._robots.values())

    @property
    def armed(self) -> bool:
        """Whether any guard has been armed."""
        return any(robot.armed for robot in self._robots.values())

    @property
    def live_check(self) -> str:
        """What the policies' inputs are outside of, before arming; empty if nothing, or not measured."""
        return "; ".join(robot.live_check for robot in self._robots.values() if robot.live_check)

    def spin(self, timeout_s: float) -> None:
        """Process received messages, waiting at most ``timeout_s``; with several robots only the newest ones."""
        if len(self._robots) == 1:
            self._executor.spin_once(timeout_sec=timeout_s)
            return
        from rlstack.nodes.executor import serve

        time.sleep(timeout_s)  # waking up for each message of many robots would cost more than a policy
        for subscription in self._node.subscriptions:
            while serve(subscription, lambda *refused: None):  # the nodes report what they refuse
                pass

    def line(self) -> str:
        """Return one line of status; with several robots, the one farthest from its goal."""
        unseen = [name for name, robot in self._robots.items() if not robot.errors]
        if unseen:
            return f"waiting for {self._awaited}" + (f" of {_few(unseen)}" if len(self._robots) > 1 else "")
        far, worst = max(self._robots.items(), key=lambda item: item[1].errors[-1])
        if len(self._robots) == 1:
            return f"{self.seconds:6.1f} s  {worst.mode or 'no guard yet'}  {worst.errors[-1]:.3f} m from the goal"
        modes = Counter(robot.mode or "no guard yet" for robot in self._robots.values())
        shown = ", ".join(f"{count} {mode}" for mode, count in modes.most_common())
        return f"{self.seconds:6.1f} s  {shown}  at most {worst.errors[-1]:.3f} m from the goal ({far})"

    def summaries(self) -> dict[str, Summary]:
        """Return each robot's summary by name; every robot must have sent odometry."""
        return {name: robot.summary() for name, robot in self._robots.items()}

    def close(self) -> None:
        """Leave ROS."""
        self._executor.shutdown()
        shut_down(self._node)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class _Monitored:
    """One robot's subscriptions and received messages."""

    def __init__(self, node: Any, namespace: str, goal: Sequence[float], tracked: TrackedPoint) -> None:
        from rlstack.nodes.goal_subscriptions import QUALITIES, PathListener

        self._goal = np.array(goal)
        self._path: Paths | None = None
        self._path_begins_ns = 0
        self._first_s = self._last_s = math.nan
        self._last_ns = 0
        self.errors: deque[float] = deque(maxlen=_KEPT)
        self._seen: Counter[str] = Counter()
        self.mode = ""
        self.armed = False
        """Whether the guard has been armed."""
        sensed = SENSED[tracked.signal]
        names = {sensed.name: tracked.names} if tracked.names else {}
        self._read = SignalReader(topics.message_type(sensed.type), {sensed.name: sensed.field}, names)
        self._position, self._signal = tracked.position, tracked.signal

        def subscribe(topic: str, callback: Any, use: topics.Quality, raw: bool = False) -> None:
            name = f"{namespace.rstrip('/')}/{topic}" if namespace else topic
            node.create_subscription(topics.type_of(topic), name, callback, topics.quality(use), raw=raw)

        subscribe(sensed.topic, self._on_place, "sensor_in", raw=True)
        subscribe(topics.GOAL, self._on_goal, "latched")
        subscribe(topics.GOAL_ACTIVE, self._on_active, "latched")
        listener = PathListener(self._on_path, lambda sentence: None)  # the policy node reports errors
        for use in QUALITIES:
            subscribe(topics.GOAL_PATH, listener, use, raw=True)
        subscribe(topics.GUARD_MODE, self._on_mode, "latched")
        self.live_check = ""
        subscribe(topics.LIVE_CHECK, self._on_live_check, "latched")

    @property
    def seconds(self) -> float:
        """Time since the first odometry; 0 before it."""
        return self._last_s - self._first_s if self.errors else 0.0

    def summary(self) -> Summary:
        """Return the summary; at least one odometry message must have arrived."""
        half = np.array(self.errors)[len(self.errors) // 2 :]
        count = sum(self._seen.values())
        return Summary(
            seconds=self.seconds,
            error_m=self.errors[-1],
            error_mean_m=float(half.mean()),
            error_max_m=float(half.max()),
            mode=self.mode,
            modes={name or "no guard": seen / count for name, seen in self._seen.most_common()},
        )

    def _on_place(self, data: bytes) -> None:
        try:
            stamp_ns, signals = self._read(data)
        except ValueError:  # the guard reports errors
            return
        self._last_s, self._last_ns = 1e-9 * stamp_ns, stamp_ns
        goal = self._goal if self._path is None else self._path.at(1e-9 * (stamp_ns - self._path_begins_ns))[0]
        error = math.dist(self._position(signals[self._signal]), goal)
        if not self.errors:
            self._first_s = self._last_s
        self.errors.append(error)
        self._seen[self.mode] += 1

    def _on_goal(self, message: Any) -> None:
        self._path = None
        if topics.in_world(message.header.frame_id):  # the policy node transforms others
            self._on_active(message)

    def _on_active(self, message: Any) -> None:
        position = message.pose.position
        self._goal = np.array([position.x, position.y, position.z])

    def _on_path(self, stamp_ns: int, path: GoalPath) -> None:
        if not all(map(topics.in_world, path.frames)):
            self._path = None
            return
        first = int(path.stamp_ns[0])
        self._path_begins_ns = first + (self._last_ns if stamp_ns == 0 else 0)
        time_s = (path.stamp_ns - first) / NANOSECONDS
        self._path = Paths(time_s[None], path.position[None], np.zeros((1, len(time_s))))

    def _on_live_check(self, message: Any) -> None:
        self.live_check = message.data

    def _on_mode(self, message: Any) -> None:
        self.mode = message.data
        self.armed = self.armed or self.mode not in _OFF
