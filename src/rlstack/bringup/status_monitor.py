"""Monitor robots by their topics: their distance from their goals, and the mode of their guards."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.errors import MalformedMessage, UserError
from rlstack.interfaces import topics
from rlstack.interfaces.cdr import compile_reader
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.nodes.dry_run import DryRunWatch
from rlstack.nodes.goal_watch import OFF, SILENT_S
from rlstack.nodes.shutdown import shut_down

_KEPT = 12_000
"""Distances that a summary covers: 20 minutes at 10 Hz."""

STILL_S = 20.0
"""Longest time for which the robots' clock may stand still in a run with a time limit."""


@dataclass(frozen=True)
class Summary:
    """Summary of a robot's run, in the robot's time.

    Args:
        seconds: Time from the first to the last observation.
        error_m: Distance from the goal at the end; None: its policy or planner did not publish it any more.
        error_mean_m: Mean distance over the last half of what it published; None: nothing.
        error_max_m: Largest distance over the last half; None: nothing.
        mode: The guard's mode at the end.
        modes: Share of the observations in each mode.
    """

    seconds: float
    error_m: float | None
    error_mean_m: float | None
    error_max_m: float | None
    mode: str
    modes: dict[str, float]

    def text(self, verb: str = "Flew") -> str:
        """Format the summary."""
        shares = ", ".join(f"{name} {100.0 * share:.0f}%" for name, share in self.modes.items())
        sentence = f"{verb} {self.seconds:.1f} s ({shares})."
        if self.error_mean_m is None:
            return sentence
        last = "not known" if self.error_m is None else f"{self.error_m:.3f} m"
        return (
            f"{sentence} Distance from the goal: {last} at the end, {self.error_mean_m:.3f} m mean and"
            f" {self.error_max_m:.3f} m largest over the last half."
        )


class Liveness:
    """Ends a run whose robot says nothing, or whose time stands still.

    Args:
        monitor: Of the robots.
        odometry_s: Time within which the first odometry must arrive, s.
    """

    def __init__(self, monitor: Monitor, odometry_s: float) -> None:
        self._monitor, self._odometry_s = monitor, odometry_s
        self._started = self._moved = time.monotonic()
        self._last_s = -1.0

    def check(self, *, needs_time: bool) -> None:
        """Look at the monitor after a spin.

        Args:
            needs_time: Whether the run cannot go on while the robot's time stands still.

        Raises:
            UserError: No odometry arrived in time, or the robot's time has stood still for too long.
        """
        now = time.monotonic()
        if not self._monitor.seen and now - self._started > self._odometry_s:
            waited = f"{now - self._started:.0f} s"
            raise UserError(f"No odometry arrived within {waited}: see the robot node's log lines above.")
        if self._monitor.seconds != self._last_s:
            self._last_s, self._moved = self._monitor.seconds, now
        if self._monitor.seen and needs_time and now - self._moved > STILL_S:
            raise UserError(f"The robot's time has stood still for {STILL_S:g} s: see the nodes' log lines above.")


class Monitor:
    """Subscribes to robots' topics; call :meth:`spin` often.

    Args:
        spaces: The absolute namespace of each robot's topics.
        observed: The topic that their commands answer, whose stamps are the robots' time.
        dry_run: Show that it is one, and what would be sent.
    """

    def __init__(self, spaces: Sequence[str], observed: str = topics.ODOM, *, dry_run: bool = False) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.signals import SignalHandlerOptions

        from rlstack.nodes.executor import ControlExecutor

        self._context: Any = Context()
        # The supervisor handles signals, also after ROS is shut down.
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        only = spaces[0] if len(spaces) == 1 else ""
        self._node = rclpy.create_node("monitor", namespace=only, context=self._context)
        self._executor = ControlExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._awaited = observed
        self._dry_run = DryRunWatch(self._node, spaces) if dry_run else None
        self._robots = {space.rpartition("/")[2]: _Monitored(self._node, space, observed) for space in spaces}

    @property
    def seconds(self) -> float:
        """Least time since the first observation over all robots; 0 before it."""
        return min(robot.seconds for robot in self._robots.values())

    @property
    def seen(self) -> bool:
        """Whether every robot has sent an observation."""
        return all(robot.seen for robot in self._robots.values())

    @property
    def distance_m(self) -> float:
        """The one robot's distance from its goal, m; NaN: none, or none beside the newest observations."""
        (robot,) = self._robots.values()
        return robot.distance_m

    @property
    def mode(self) -> str:
        """The mode of the one robot's guard; empty: not known yet."""
        (robot,) = self._robots.values()
        return robot.mode

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
        unseen = [name for name, robot in self._robots.items() if not robot.seen]
        if unseen:
            return f"waiting for {self._awaited}" + (f" of {_few(unseen)}" if len(self._robots) > 1 else "")
        away = {name: robot.distance_m for name, robot in self._robots.items() if not math.isnan(robot.distance_m)}
        far = max(away, key=lambda name: away[name], default="")
        modes = Counter(robot.mode or "no guard yet" for robot in self._robots.values())
        alone = len(self._robots) == 1
        shown = ", ".join(mode if alone else f"{count} {mode}" for mode, count in modes.most_common())
        waiting = [name for name, robot in self._robots.items() if robot.instruction == ""]
        waits = "  waiting for an instruction" if waiting else ""
        waits += f" ({_few(waiting)})" if waiting and not alone else ""
        place = "" if not far else f"  {away[far]:.3f} m from the goal" if alone else ""
        if far and not alone:
            place = f"  at most {away[far]:.3f} m from the goal ({far})"
        would = f"  would send {self._dry_run.text or 'nothing yet'}" if self._dry_run else ""
        return f"{'DRY RUN ' if self._dry_run else ''}{self.seconds:6.1f} s  {shown}{place}{waits}{would}"

    def summaries(self) -> dict[str, Summary]:
        """Return each robot's summary by name; every robot must have sent an observation."""
        return {name: robot.summary() for name, robot in self._robots.items()}

    def close(self) -> None:
        """Leave ROS."""
        self._executor.shutdown()
        shut_down(self._node)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class _Monitored:
    """One robot's subscriptions and received messages."""

    def __init__(self, node: Any, namespace: str, observed: str) -> None:
        self._first_s = self._last_s = math.nan
        self._seen_at = self._distance_at = -math.inf
        self._distances: deque[float] = deque(maxlen=_KEPT)
        self._modes: Counter[str] = Counter()
        self.mode = ""
        self.armed = False
        """Whether the guard has been armed."""
        self.live_check = ""
        self.instruction: str | None = None
        """What its policy follows; empty: it waits for a sentence; None: it says of none."""
        self._read = compile_reader(topics.type_of(observed), ("header.stamp.sec", "header.stamp.nanosec"))

        def subscribe(topic: str, callback: Any, use: topics.Quality, raw: bool = False) -> None:
            name = f"{namespace.rstrip('/')}/{topic}" if namespace else topic
            node.create_subscription(topics.type_of(topic), name, callback, topics.quality(use), raw=raw)

        subscribe(observed, self._on_observation, "sensor_in", raw=True)
        subscribe(topics.GOAL_DISTANCE, self._on_distance, "event")
        subscribe(topics.GUARD_MODE, self._on_mode, "latched")
        subscribe(topics.LIVE_CHECK, self._on_live_check, "latched")
        subscribe(topics.INSTRUCTION_ACTIVE, self._on_instruction, "latched")

    @property
    def seen(self) -> bool:
        """Whether an observation has arrived."""
        return not math.isnan(self._first_s)

    @property
    def seconds(self) -> float:
        """Time since the first observation; 0 before it."""
        return self._last_s - self._first_s if self.seen else 0.0

    @property
    def distance_m(self) -> float:
        """Distance from the goal that was published last; NaN: none, or none beside the newest observations."""
        return self._distances[-1] if self._distances and self._seen_at - self._distance_at < SILENT_S else math.nan

    def summary(self) -> Summary:
        """Return the summary; at least one observation must have arrived."""
        half = np.array(self._distances)[len(self._distances) // 2 :]
        count = sum(self._modes.values())
        return Summary(
            seconds=self.seconds,
            error_m=None if math.isnan(self.distance_m) else self.distance_m,
            error_mean_m=float(half.mean()) if len(half) else None,
            error_max_m=float(half.max()) if len(half) else None,
            mode=self.mode,
            modes={name or "no guard": seen / count for name, seen in self._modes.most_common()},
        )

    def _on_observation(self, data: bytes) -> None:
        try:
            seconds, nanoseconds = self._read(data)
        except MalformedMessage:  # the guard reports errors
            return
        self._last_s, self._seen_at = seconds + nanoseconds / NANOSECONDS, time.monotonic()
        if not self.seen:
            self._first_s = self._last_s
        self._modes[self.mode] += 1

    def _on_distance(self, message: Any) -> None:
        self._distances.append(message.data)
        self._distance_at = time.monotonic()

    def _on_live_check(self, message: Any) -> None:
        self.live_check = message.data

    def _on_instruction(self, message: Any) -> None:
        self.instruction = message.data

    def _on_mode(self, message: Any) -> None:
        self.mode = message.data
        self.armed = self.armed or self.mode not in OFF
