"""Timekeeping of a robot node: advances time in real time, or in lock step with the commands, and publishes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Announcing, Reading, Signals, nobody_listens
from rlstack.interfaces.messages import NANOSECONDS, seconds_to_ns, set_stamp
from rlstack.interfaces.timing import Pace, Schedule
from rlstack.nodes.robot_topics import RobotTopics

RESET_JUMP_NS = NANOSECONDS
"""Jump of the stamps on a reset; readers that keep state over time reset when stamps jump."""

_RESEND_S, _RESEND_MOST_S = 0.05, 1.0
_MAX_CATCH_UP = 5
_LOOKS = 5
"""How often in the period of its observations a robot that measures by itself is looked at."""
_SHOWN_S = 0.5
"""Period at which the robots are published while time stands still, for who comes then, or after a reset."""
_STANDSTILL_S = 10.0
"""How long several robots may wait for one that has never been commanded before a warning."""


OnSent = Callable[[Sequence[RobotTopics]], None]


class Timekeeper(ABC):
    """Base of real time and lock step: stamps, the clock, publishing, and resets.

    Robots in one simulation share its time: a robot that is reset publishes nothing for :data:`RESET_JUMP_NS`, so that
    its stamps jump and the others' do not. The stamps of a single robot jump at once.

    Args:
        node: Creates publishers.
        on_sent: Called with the robots whose observation, which commands answer, was just published.
    """

    def __init__(self, node: Any, on_sent: OnSent) -> None:
        self._node, self._on_sent = node, on_sent
        self.robots: list[RobotTopics] = []
        self._offset_ns = 0
        self._held_s: dict[RobotTopics, tuple[float, Any]] = {}
        self.paused = False
        """Whether a simulation's time stands still."""
        self._announcing: dict[RobotTopics, Any] = {}
        """Robots whose drivers tell of each measurement, with what wakes this thread for it."""

    def begin(self, robots: Sequence[RobotTopics]) -> None:
        """Set the robots, before any is connected; call it once, when the node is configured."""
        self.robots = list(robots)
        first = self.robots[0].backend
        self.owns_time = first.owns_time
        self._step = first.step  # of the simulation, with all robots in it
        self.period_s = 1.0 / first.robot.control_rate_hz
        self._clock: Any = None
        self._clock_publisher: Any = None
        if self.owns_time:
            kind = topics.type_of(topics.CLOCK)
            self._clock, self._clock_publisher = kind(), self._node.publisher(kind, topics.CLOCK, "sensor_out")
            kind = topics.type_of(topics.REAL_TIME_FACTOR)
            self._pace, self._pace_publisher = kind(), self._node.publisher(kind, topics.REAL_TIME_FACTOR, "latched")
        self._clock_wanted = self.owns_time

    def start(self) -> None:
        """Let time pass from now on, while the node is active."""
        for robot in self.robots:
            robot.flying, robot.fed_s, robot.silent_s = False, time.monotonic(), 0.0
        self._held_s.clear()
        self.pause(False)
        self._node.every(0.5, self._update_wanted)
        self._node.every(0.1, self._publish_markers)

    def pause(self, paused: bool) -> None:
        """Let a simulation's time stand still, or pass again; those who watch for silence are told first."""
        self.paused = paused and self.owns_time
        if self.owns_time:
            self._pace.data = 0.0 if self.paused else float(self._node.parameters["real_time_factor"])
            self._pace_publisher.publish(self._pace)

    @abstractmethod
    def counts(self, robot: RobotTopics, stamp_ns: int) -> bool:
        """Return whether a robot's command with this stamp counts."""

    @abstractmethod
    def on_command(self, robot: RobotTopics, sent: Signals) -> None:
        """Record a command that counted and was sent."""

    def jump(self, announce: Callable[[int], None] | None = None) -> None:
        """Publish the state of a single robot with stamps that have jumped; answers to earlier ones do not count.

        Args:
            announce: Called first with the state's stamp, ns.
        """
        (robot,) = self.robots
        self._offset_ns += RESET_JUMP_NS
        robot.flying = False
        reading = robot.backend.read()
        robot.epoch_ns = self._stamp(reading)
        if announce is not None:
            announce(robot.epoch_ns)
        self._publish([(robot, reading, robot.wanted(robot.topics))])

    def reset(self, robot: RobotTopics, state: Any) -> None:
        """Reset a simulated robot to ``state`` and let its stamps jump."""
        robot.backend.reset(state)
        robot.flying = False
        if len(self.robots) == 1:
            self.jump()
        else:
            self._held_s[robot] = (RESET_JUMP_NS / NANOSECONDS, state)

    def _pass_time(self, duration_s: float) -> None:
        """Advance time, and end the silence of robots after resets."""
        if self.owns_time:
            self._step(duration_s)
        if not self._held_s:
            return
        for robot, (left_s, state) in list(self._held_s.items()):
            self._held_s[robot] = (left_s - duration_s, state)
            if left_s - duration_s < 1e-9:
                del self._held_s[robot]
                robot.backend.reset(state)  # other robots, or gravity, may have moved it meanwhile
                robot.epoch_ns = self._stamp(robot.backend.read())

    def close(self) -> None:  # noqa: B027 (most listen to nobody)
        """Let go of the robots."""

    def _stamp(self, reading: Reading) -> int:
        return seconds_to_ns(reading.time_s) + self._offset_ns

    def _publish_due(self, due: Collection[str]) -> None:
        """Read the robots and publish the due topics that have subscribers, the clock first."""
        sending = []
        for robot in self.robots:
            if robot in self._held_s or (self.owns_time and not robot.wanted(due)):
                continue
            reading = robot.backend.read()
            which = self._wanted(robot, due, reading)
            if which and reading.signals:  # a driver may not have measured yet
                sending.append((robot, reading, which))
        self._publish(sending, topics.CLOCK in due)

    def _wanted(self, robot: RobotTopics, due: Collection[str], reading: Reading) -> list[str]:
        """Return which topics of a robot to publish with this reading, in the order of publication."""
        return robot.wanted(due)

    def _publish(self, sending: Sequence[tuple[RobotTopics, Reading, Sequence[str]]], clock: bool = True) -> None:
        if clock and self._clock is not None and self._clock_wanted:
            reading = sending[0][1] if sending else self.robots[0].backend.read()
            set_stamp(self._clock.clock, self._stamp(reading))
            self._clock_publisher.publish(self._clock)
        for robot, reading, which in sending:
            robot.publish(reading, self._stamp(reading), which)
        sent = [robot for robot, _, which in sending if robot.observed in which]
        if sent:
            self._on_sent(sent)

    def _update_wanted(self) -> None:
        if self._clock_publisher is not None:
            self._clock_wanted = self._clock_publisher.get_subscription_count() > 0
        for robot in self.robots:
            robot.update_wanted()

    def _publish_markers(self) -> None:
        for robot in self.robots:
            robot.publish_markers()


class RealTime(Timekeeper):
    """Timekeeping by a timer, with the newest command. Time may fall behind, but never leaps.

    A robot that measures by itself is observed when it has measured, at its sensor's rate at most: its driver announces
    it, or else is looked at often.
    """

    def start(self) -> None:
        """Start the timer, and listen to the drivers that announce."""
        super().start()
        for robot in self.robots:
            if isinstance(robot.backend, Announcing) and robot not in self._announcing:
                self._announcing[robot] = condition = self._node.create_guard_condition(
                    partial(self._on_reading, robot)
                )
                robot.backend.on_reading = partial(_wake, condition)
        robot = self.robots[0]
        rates = robot.rates_hz
        tick_hz = max(robot.robot.control_rate_hz, *rates.values())
        observed_hz = rates[robot.observed]
        self._measured: frozenset[str] = frozenset()
        if not self.owns_time:
            if len(self._announcing) < len(self.robots):
                tick_hz = max(tick_hz, _LOOKS * observed_hz)
            self._measured = frozenset(topic for topic, rate_hz in rates.items() if rate_hz == observed_hz)
            self._paces = {each: Pace(observed_hz) for each in self.robots}
        self._schedule = Schedule({**rates, topics.CLOCK: robot.robot.control_rate_hz}, tick_hz)
        self._tick_s = 1.0 / tick_hz
        self._factor = self._node.parameters["real_time_factor"] if self.owns_time else 1.0
        self._next_tick = self._shown_at = time.monotonic()
        self._timer = self._node.every(self._tick_s / self._factor, self._tick)
        self._publish_due((*robot.topics, topics.CLOCK))

    def close(self) -> None:
        """Listen to drivers no more."""
        for robot, condition in self._announcing.items():
            robot.backend.on_reading = nobody_listens  # type: ignore[attr-defined]
            self._node.destroy_guard_condition(condition)
        self._announcing.clear()

    def _on_reading(self, robot: RobotTopics) -> None:
        if not self._node.active:
            return
        reading = robot.backend.read()
        if reading.signals and (which := self._wanted(robot, (), reading)):
            self._publish([(robot, reading, which)])

    def counts(self, robot: RobotTopics, stamp_ns: int) -> bool:
        """Return whether it answers an observation of this episode."""
        return stamp_ns >= robot.epoch_ns and robot not in self._held_s

    def on_command(self, robot: RobotTopics, sent: Signals) -> None:
        """No-op: time does not wait for commands."""

    def _wanted(self, robot: RobotTopics, due: Collection[str], reading: Reading) -> list[str]:
        if not self._measured or not reading.signals:
            return super()._wanted(robot, due, reading)
        new = self._measured if self._paces[robot].takes(self._stamp(reading)) else frozenset()
        return robot.wanted(new.union(due) - (self._measured - new))

    def _follow_factor(self) -> None:
        """Take over a change of the parameter, which is live."""
        factor = self._node.parameters["real_time_factor"]
        if not self.owns_time or factor == self._factor:
            return
        self._factor, self._next_tick = factor, time.monotonic()
        self._timer.timer_period_ns = round(NANOSECONDS * self._tick_s / factor)
        self.pause(self.paused)

    def _stand(self, now: float) -> None:
        """Let no time pass."""
        self._next_tick = now
        if now - self._shown_at >= _SHOWN_S:
            self._shown_at = now
            self._publish_due((*self.robots[0].topics, topics.CLOCK))

    def _tick(self) -> None:
        now = time.monotonic()
        self._follow_factor()
        if self.paused:
            self._stand(now)
            return
        late = int((now - self._next_tick) * self._factor / self._tick_s)
        if late > _MAX_CATCH_UP:  # this process was suspended: the simulation falls behind, it never leaps
            self._next_tick, late = now, 0
        for _ in range(late + 1):
            self._next_tick += self._tick_s / self._factor
            self._pass_time(self._tick_s)
            self._publish_due(self._schedule.due())
            for robot in self.robots:
                robot.silent_s += self._tick_s
        usual_s = self._node.parameters["command_timeout_periods"] * self.period_s
        for robot in self.robots:
            allowed_s = robot.kind.timeout_s or usual_s
            # a real robot's time continues while this process stalls, a simulator's does not
            silent_s = robot.silent_s if self.owns_time else now - robot.fed_s
            # not at once: where this process itself had to wait, commands wait too, and are read before the next tick
            overdue, robot.overdue = robot.overdue, silent_s > allowed_s
            if robot.flying and overdue and robot.overdue:
                robot.let_go_for_silence(f"{1e3 * silent_s:.0f} ms")


def _wake(condition: Any) -> None:
    from rclpy.exceptions import InvalidHandle

    with suppress(InvalidHandle):  # the node has just ended
        condition.trigger()


class LockStep(Timekeeper):
    """Advances one control period when every robot's command that answers its last observation has arrived.

    A robot without commands is disarmed after a while and, if there are others, no longer waited for until its next
    command.

    Args:
        node: Creates publishers.
        on_sent: Called with the robots whose observation, which commands answer, was just published.
        on_step: Called for a single robot after every period, with the new reading and the command actually sent.
    """

    def __init__(
        self,
        node: Any,
        on_sent: OnSent,
        on_step: Callable[[Reading, Signals], bool],
    ) -> None:
        super().__init__(node, on_sent)
        self._on_step = on_step

    def start(self) -> None:
        """Publish the first observations."""
        self._waited_for = dict.fromkeys(self.robots, True)
        self._answered: dict[RobotTopics, Signals] = {}
        self._commanded: set[RobotTopics] = set()
        super().start()
        self._requested_s = dict.fromkeys(self.robots, time.monotonic())
        self._resend_s = dict.fromkeys(self.robots, _RESEND_S)
        self._node.every(_RESEND_S, self._resend)
        self._request()

    def counts(self, robot: RobotTopics, stamp_ns: int) -> bool:
        """Return whether it answers the last observation, and is the first to."""
        if robot in self._held_s:
            return False
        if stamp_ns != robot.sent_ns:
            if robot.epoch_ns <= stamp_ns < robot.sent_ns:
                self._waited_for[robot] = True  # it is slower than the others, but present
            return False
        return robot not in self._answered

    def pause(self, paused: bool) -> None:
        """Let no period pass, or go on with what was answered meanwhile."""
        super().pause(paused)
        self._advance()

    def on_command(self, robot: RobotTopics, sent: Signals) -> None:
        """Advance time if this was the last missing answer."""
        self._answered[robot] = sent
        self._commanded.add(robot)
        self._waited_for[robot] = True
        self._advance()

    def jump(self, announce: Callable[[int], None] | None = None) -> None:
        """Publish the state of a single robot with stamps that have jumped."""
        self._answered.clear()
        self._resend_s = dict.fromkeys(self.robots, _RESEND_S)
        super().jump(announce)
        self._requested_s = dict.fromkeys(self.robots, time.monotonic())

    def reset(self, robot: RobotTopics, state: Any) -> None:
        """Reset a simulated robot and let its stamps jump."""
        self._answered.pop(robot, None)
        super().reset(robot, state)
        self._advance()

    def _missing(self) -> list[RobotTopics]:
        return [r for r in self.robots if self._waited_for[r] and r not in self._held_s and r not in self._answered]

    def _advance(self) -> None:
        """Advance periods while no answer is missing."""
        while (self._answered or self._held_s) and not self._missing() and not self.paused:
            sent = self._answered[self.robots[0]] if len(self.robots) == 1 else {}
            self._answered.clear()
            self._pass_time(self.period_s)
            if len(self.robots) == 1:
                (robot,) = self.robots
                reading, answered = robot.backend.read(), robot.sent_ns
                if not self._on_step(reading, sent) or robot.sent_ns != answered:
                    return  # the hook has ended the episode, or has published the next one's start
                self._note_request(robot)
                self._publish([(robot, reading, robot.wanted(robot.topics))])
            else:
                self._request()

    def _request(self) -> None:
        for robot in self.robots:
            self._note_request(robot)
        self._publish_due((*self.robots[0].topics, topics.CLOCK))

    def _note_request(self, robot: RobotTopics) -> None:
        self._resend_s[robot], self._requested_s[robot] = _RESEND_S, time.monotonic()

    def _resend(self) -> None:
        """Publish observations again, as a subscriber may have joined late, and never repeat the last command."""
        now, tick = time.monotonic(), time.perf_counter()
        allowed_s = self._node.parameters["lock_step_timeout_s"]
        for robot in self._missing():
            waited_s = now - self._requested_s[robot]
            if robot.flying and waited_s > allowed_s:
                robot.let_go_for_silence(f"{waited_s:.1f} s of real time")
            if len(self.robots) > 1 and waited_s > allowed_s and robot in self._commanded:
                self._waited_for[robot] = False
            elif len(self.robots) > 1 and waited_s > _STANDSTILL_S:
                self._node.warn(
                    f"All robots wait for the first command on {robot.command_topic}.", f"{robot.prefix}first"
                )
        for robot in self.robots:
            if robot in self._answered or robot in self._held_s or tick - robot.sent_at < self._resend_s[robot]:
                continue
            self._resend_s[robot] = min(2.0 * self._resend_s[robot], _RESEND_MOST_S)  # back off
            if robot.reading is not None:
                self._publish([(robot, robot.reading, robot.wanted(robot.topics))])
        self._advance()
