"""Watch a flight from its topics: where the robot is, how far from its goal, and who flies it."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.signal_reader import GoalPath
from rlstack.tasks.paths import Paths

_OFF = ("disarmed", "estop")

_KEPT = 120_000
"""Odometry messages that a summary looks back on: 20 minutes at 100 Hz."""


@dataclass(frozen=True)
class Flight:
    """What was seen of a flight; times are the robot's.

    Args:
        seconds: From the first to the last odometry.
        error_m: Distance from the goal at the end.
        error_mean_m: Mean distance over the last half.
        error_max_m: Largest distance over the last half.
        mode: The guard's mode at the end.
        modes: Share of the odometry messages seen in each mode.
    """

    seconds: float
    error_m: float
    error_mean_m: float
    error_max_m: float
    mode: str
    modes: dict[str, float]

    def text(self) -> str:
        """Return the summary for reading."""
        shares = ", ".join(f"{name} {100.0 * share:.0f}%" for name, share in self.modes.items())
        return (
            f"Flew {self.seconds:.1f} s ({shares}). Distance from the goal: {self.error_m:.3f} m at the end,"
            f" {self.error_mean_m:.3f} m mean and {self.error_max_m:.3f} m largest over the last half."
        )


class Monitor:
    """Subscribes to a robot's topics; call :meth:`spin` often.

    Args:
        namespace: Of the robot's topics.
        goal: Where it is to hover until another goal, or a path, comes by topic, m.
    """

    def __init__(self, namespace: str, goal: tuple[float, float, float]) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        from rlstack.nodes.goal_path import QUALITIES, PathListener

        self._context: Any = Context()
        # Signals belong to the supervisor, which still needs them after ROS is shut down.
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("monitor", namespace=namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._goal = np.array(goal)
        self._path: Paths | None = None
        self._path_begins_ns = 0
        self._first_s = self._last_s = math.nan
        self._last_ns = 0
        self._errors: deque[float] = deque(maxlen=_KEPT)
        self._seen: Counter[str] = Counter()
        self.mode = ""
        self.flown = False
        """Whether the guard has been armed."""
        subscribe = self._node.create_subscription
        subscribe(topics.type_of(topics.ODOM), topics.ODOM, self._on_odom, topics.quality("sensor_in"))
        subscribe(topics.type_of(topics.GOAL), topics.GOAL, self._on_goal, topics.quality("latched"))
        listener = PathListener(self._on_path, lambda sentence: None)  # the policy node says what is wrong with one
        for use in QUALITIES:
            subscribe(listener.kind, topics.GOAL_PATH, listener, topics.quality(use), raw=True)
        subscribe(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, topics.quality("latched"))

    @property
    def seconds(self) -> float:
        """The robot's time since its first odometry; 0 before it."""
        return self._last_s - self._first_s if self._errors else 0.0

    @property
    def seen(self) -> bool:
        """Whether odometry has come."""
        return bool(self._errors)

    def spin(self, timeout_s: float) -> None:
        """Serve what has come, waiting at most ``timeout_s`` for something."""
        self._executor.spin_once(timeout_sec=timeout_s)

    def line(self) -> str:
        """Return one line that says how the flight goes."""
        if not self._errors:
            return "waiting for odometry"
        return f"{self.seconds:6.1f} s  {self.mode or 'no guard yet'}  {self._errors[-1]:.3f} m from the goal"

    def flight(self) -> Flight:
        """Return the summary of what was seen; at least one odometry message must have come."""
        half = np.array(self._errors)[len(self._errors) // 2 :]
        count = sum(self._seen.values())
        return Flight(
            seconds=self.seconds,
            error_m=self._errors[-1],
            error_mean_m=float(half.mean()),
            error_max_m=float(half.max()),
            mode=self.mode,
            modes={name or "no guard": seen / count for name, seen in self._seen.most_common()},
        )

    def close(self) -> None:
        """Leave ROS."""
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def _on_odom(self, message: Any) -> None:
        position = message.pose.pose.position
        stamp_ns = stamp_to_ns(message.header.stamp)
        self._last_s, self._last_ns = 1e-9 * stamp_ns, stamp_ns
        goal = self._goal if self._path is None else self._path.at(1e-9 * (stamp_ns - self._path_begins_ns))[0]
        error = math.dist((position.x, position.y, position.z), goal)
        if not self._errors:
            self._first_s = self._last_s
        self._errors.append(error)
        self._seen[self.mode] += 1

    def _on_goal(self, message: Any) -> None:
        position = message.pose.position
        self._goal, self._path = np.array([position.x, position.y, position.z]), None

    def _on_path(self, path: GoalPath, *, from_now: bool) -> None:
        first = int(path.stamp_ns[0])
        self._path_begins_ns = first + (self._last_ns if from_now else 0)
        time_s = (path.stamp_ns - first) / NANOSECONDS
        self._path = Paths(time_s[None], path.position[None], np.zeros((1, len(time_s))))

    def _on_mode(self, message: Any) -> None:
        self.mode = message.data
        self.flown = self.flown or self.mode not in _OFF
