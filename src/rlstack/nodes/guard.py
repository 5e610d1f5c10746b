"""The guard node: stands between the policy and the actuators, and alone commands them."""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import MalformedMessage
from rlstack.guard import CommonMode, Decision
from rlstack.guard.guard import Guard
from rlstack.interfaces import topics
from rlstack.interfaces.cdr import compile_reader
from rlstack.interfaces.kind_signals import element_names
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signal_reader import SignalReader, topic_reader
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.timing import Arrival, StampClock
from rlstack.kinds import find_kind
from rlstack.nodes.command_messages import command_message, without_stamps
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.guard_ending import GuardEnding
from rlstack.nodes.guard_parameters import GuardLimits, guard_config, guard_parameters, leave_to_others
from rlstack.nodes.instruction_watch import InstructionWatch
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.mode_publisher import ModePublisher
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.policy_reset import PolicyReset
from rlstack.nodes.real_time import REAL_TIME_PRIORITY
from rlstack.nodes.robot_parameters import ROBOT_SHA256, checked_robot
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.simulated_pace import follow_pace
from rlstack.nodes.transform_listener import TRANSFORM_TIMEOUT

STEADY = 10
"""Consecutive on-time observations before it arms itself: during start-up some arrive late."""

_TIMER_SLACK_S = 0.0005
PARAMETERS = (
    Parameter("robot", "crazyflie", "Name of the robot, or the path of its YAML file."),
    ROBOT_SHA256,
    Parameter("lock_step", False, "Simulated time waits for every command."),
    Parameter("auto_arm", False, "Arm automatically, once, when observations are steady and the policy answers."),
    Parameter(
        "arm_after_reset",
        False,
        "With auto_arm, disarm at each reset of the simulation and arm automatically again, as verification does.",
    ),
    Parameter(
        "require_live_check",
        False,
        "Refuse to arm until the policy node's live check of its inputs (live_check) has found nothing.",
    ),
    Parameter("allow_wider", False, "Allow limits wider than the robot file's, for simulated tests."),
    Parameter(
        "policy_timeout_s",
        1.0,
        "In lock step, seconds of real time without the policy's answer after which the fallback takes over.",
        minimum=0.05,
        maximum=600.0,
        live=True,
    ),
    REAL_TIME_PRIORITY,
    *FRAME_PARAMETERS,
    TRANSFORM_TIMEOUT,
    *guard_parameters(),
)


class GuardNode(GuardEnding, ManagedNode):
    """Forwards the policy's commands while the robot is within its limits, and commands the robot itself otherwise.

    In lock step it answers every observation exactly once: after the policy, or without it while the policy is absent.
    """

    NAME: ClassVar[str] = "guard"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self._auto_arm_left = self.parameters["auto_arm"]  # once: a robot never starts by itself a second time

    def configure(self) -> None:
        """Read the limits and create the topics."""
        from std_srvs.srv import SetBool, Trigger

        robot = checked_robot(self.parameters)
        self.lock_step = self.parameters["lock_step"]
        guard = find_kind(robot.kind).load("guard")
        config = guard_config(guard.CONFIG, robot, self.parameters)
        self.guard: Guard[Any] = guard.from_parameters(robot, config, self.parameters)
        if ignored := leave_to_others(guard.CONFIG, robot, self.parameters):
            self.get_logger().warning(ignored)
        self._limits = GuardLimits(self.guard, self.parameters)
        signal = self.guard.command
        self._topic = signal.topic
        observed = [SENSED[name] for name in self.guard.OBSERVED]
        names = element_names(robot).get(str(signal.shape[0]), ())
        seen, command = topics.message_type(observed[0].type), topics.message_type(signal.type)
        listed = {s.name: names for s in observed if s.shape == signal.shape}
        fields = {s.name: s.field for s in observed}
        self._read_observation = SignalReader(seen, fields, listed, same_frames=True)
        self._read_command = topic_reader(
            signal.type, {signal.name: signal.field}, {signal.name: names} if names else {}
        )
        kind = kind_topics(robot)
        plain = without_stamps(kind.COMMAND_TYPE, self.parameters, lock_step=self.lock_step)
        self._message = command_message(signal.name, names, plain=plain, reach_s=self.guard.config.reach_s)
        frames_of(self.parameters).mark(self._message.message)
        self._commands = self.publisher(type(self._message.message), self._topic, "command")
        self._shown = ModePublisher(self, self.guard)
        quality: topics.Quality = "sensor_in_reliable" if self.lock_step else "sensor_in"
        self._observed = observed[0].topic
        self.subscriber(seen, self._observed, self._on_observation, quality, raw=True)
        if not self.lock_step:
            clock = topics.type_of(topics.CLOCK)
            self._read_clock = compile_reader(clock, ("clock.sec", "clock.nanosec"))
            self.subscriber(clock, topics.CLOCK, self._on_clock, "sensor_in", raw=True)
            self._stamps = StampClock()
            follow_pace(self, lambda rate, now_ns: self._stamps.set_rate(rate, now_ns))
        commanded = topics.POLICY_PREFIX + self._topic
        self.subscriber(command, commanded, self._on_policy, "command", raw=True, identified=True)
        self._policies = self.watch.single(commanded, is_error=True, react=self._on_rivals)
        self.watch.single(self._topic, is_error=True)
        self.watch.single(self._observed)
        self._kind_subscriptions = kind.GUARD_SUBSCRIPTIONS(self, self.guard)
        timeout_s = self.guard.config.observation_timeout_s
        self._reset = PolicyReset(self, self.lock_step, self._now_s, timeout_s, self._publish_held)
        self.guard.reset_policy = self._reset.is_done
        self.server(SetBool, topics.ARM, self._on_arm)
        self.server(Trigger, topics.ESTOP, self._on_estop)
        self.server(Trigger, topics.CLEAR_ESTOP, self._on_clear_estop)
        self.server(Trigger, topics.REST, self._on_rest)
        self._instruction = InstructionWatch(self)
        self._live_check: str | None = None
        if self.parameters["require_live_check"]:
            self.subscriber(topics.type_of(topics.LIVE_CHECK), topics.LIVE_CHECK, self._on_live_check, "latched")
        self._counts = dict.fromkeys(("observations", "out of order", "policy commands", "clipped", "refused"), 0)
        if self.guard.notes:
            self.get_logger().warning(self.guard.notes)
        self._origin_ns: int | None = None
        self._begun_ns: int | None = None  # stamp of the episode's first observation
        self._held: tuple[int, Decision] | None = None  # lock step: the answer that waits for the policy's reset
        self._observed_ns, self._age_s = -1, math.nan

    def activate(self) -> None:
        """Start, disarmed."""
        self._stamps = StampClock(self.lock_step)
        self._kind_subscriptions.start()
        self._origin_ns, self._observed_ns = None, -1
        self._policy_there, self._waiting_since = False, 0.0
        self._waiting: tuple[int, Decision] | None = None  # lock step: observation that the policy has not answered
        self._early: tuple[int, Array] | None = None  # lock step: an answer that overtook its observation
        self._answered: tuple[int, Decision] | None = None
        self._begun_ns, self._held = None, None
        self._reset.forget()
        self._shown.restart()
        # In real time the timer restarts with every published command, so it fires when one is late.
        self._timer = self.every(0.05 if self.lock_step else self.guard.tick_s + _TIMER_SLACK_S, self._on_timer)

    def status(self) -> tuple[str, dict[str, Any]]:
        """Return a warning, and the mode, reason and counters for diagnostics."""
        warning = "; ".join(filter(None, (self._shown.warning, self.guard.warning, self._kind_subscriptions.warning)))
        age = {"observation age, ms": round(1e3 * self._age_s, 2)}
        return warning, {**self._shown.figures, **self._counts, **self._kind_subscriptions.counts, **age}

    # Messages ------------------------------------------------------------------------------------------------

    def _on_observation(self, data: bytes) -> None:
        if not self.active:
            return
        if self.guard.mode.role == "off":
            self._read_observation.forget_frames()
        try:
            stamp, signals = self._read_observation(data)
        except ValueError as error:
            self._counts["refused"] += 1
            self.warn(f"An observation was refused: {error}.", "observation")
            return
        arrival = self._stamps.observe(stamp, time.monotonic_ns(), time.time_ns())
        if arrival is Arrival.DROPPED:
            self._counts["out of order"] += 1
            self.warn(
                "An observation was dropped: its stamp does not continue those before it. Does another node publish"
                f" {self._observed}, or has a clock jumped?",
                "out of order",
            )
            return
        restarted = arrival is Arrival.RESTARTED
        if stamp == self._observed_ns:
            if self._answered is not None and self._answered[0] == stamp:
                self._publish(self._answered[1])  # the robot did not receive the answer
            return
        if restarted:
            self._begin_episode()
        if self._origin_ns is None:
            self._origin_ns = stamp
        if self._begun_ns is None:
            self._begun_ns = stamp
        self._observed_ns = stamp
        self._counts["observations"] += 1
        now_s, measured_s = self._now_s(), self._seconds(stamp)
        self._age_s = now_s - measured_s
        decision = self.guard.on_observation(now_s, measured_s, signals, restarted=restarted)
        if not self.lock_step:
            self._send(decision)
            return
        if self._answered is not None and not self._policy_there:
            self._answer(stamp, decision, decision)
            return
        self._waiting, self._waiting_since = (stamp, decision), time.monotonic()
        self._shown.show(decision)
        self._take_early()

    def _on_clock(self, data: bytes) -> None:
        if self.active:
            seconds, nanoseconds = self._read_clock(data)
            self._stamps.observe_clock(seconds * NANOSECONDS + nanoseconds, time.monotonic_ns())

    def _on_policy(self, data: bytes, publisher: bytes | None = None) -> None:
        if not self.active or self._ends:  # a last answer on its way would have lock step wait for the next
            return
        self._counts["policy commands"] += 1
        if publisher is not None and self._policies.hear(publisher, time.monotonic()):
            self._on_rivals(self._policies.rivals())
        try:
            stamped, command = self._read_command(data)
            stamp, numbers = stamped or 0, command[self.guard.command.name]  # 0 is not special: its age must be known
        except MalformedMessage:  # dropped, as by every node: if it was the policy's, its command is late
            raise
        except ValueError as error:
            self._counts["refused"] += 1
            self.warn(f"A command on {topics.POLICY_PREFIX}{self._topic} was refused: {error}.", "refused")
            stamp, numbers = self._observed_ns, np.full(self.guard.elements, math.nan)  # counts as malformed
        if not self.lock_step:
            self._take_policy(stamp, numbers)
        elif stamp > self._observed_ns or (self._waits_for(stamp) and self._kind_subscriptions.is_due(stamp)):
            self._early = (stamp, numbers)
        elif self._waits_for(stamp):
            self._take_policy(stamp, numbers)
        elif stamp == self._observed_ns:
            self._policy_there = True  # it is back, or repeats itself; from the next observation on, wait for it

    def _on_rivals(self, who: str) -> None:
        """Take control for good: commands of two sources are mixed."""
        if not who or not self.active or self._origin_ns is None or self.guard.mode.role == "off":
            return
        decision = self.guard.on_fault(self._now_s(), who, "Stop all but one of them, disarm, and arm again.")
        if not self.lock_step:
            self.on_decision(decision)
        elif self._waiting is not None:
            self._answer(self._waiting[0], decision, self._waiting[1])

    def on_decision(self, decision: Decision) -> None:
        """Process the guard's decision on a message besides observations and commands."""
        if not self.lock_step:
            if decision.command is not None or decision.changed:
                self._send(decision)
        elif self._early is not None:
            self._take_early()

    def _take_early(self) -> None:
        """Lock step: process the policy's answer that came before its observation, if everything has arrived now."""
        if (
            self._early is not None
            and self._waits_for(self._early[0])
            and not self._kind_subscriptions.is_due(self._early[0])
        ):
            self._take_policy(*self._early)

    def _waits_for(self, stamp: int) -> bool:
        return self._waiting is not None and self._waiting[0] == stamp

    def _take_policy(self, stamp: int, numbers: Array) -> None:
        if self._origin_ns is None or self._held is not None:
            return
        self._policy_there = True
        if self._may_auto_arm(numbers):
            armed, why = self._arm()
            self._auto_arm_left = not armed
            if armed:
                self._shown.show(self.guard)
            else:
                self.warn(f"Not armed: {why}", "arm")
        decision = self.guard.on_policy_command(self._now_s(), self._seconds(stamp), numbers)
        if not self.lock_step:
            self._send(decision)
        elif self._waiting is not None:
            self._answer(stamp, decision, self._waiting[1])

    def _may_auto_arm(self, numbers: Array) -> bool:
        # A robot that had not left the ground when observations stopped may start again.
        due = self._auto_arm_left or (self.parameters["auto_arm"] and self.guard.stopped_unseen and not self._ends)
        answers = numbers.shape == (self.guard.elements,) and bool(np.isfinite(numbers).all())
        return due and answers and (self.lock_step or self.guard.in_a_row >= STEADY)

    def _on_timer(self) -> None:
        if self._origin_ns is None:
            return
        if not self.lock_step:
            self._send(self.guard.on_tick(self._now_s()))
        elif (
            self._waiting is not None
            and self._answered is not None
            and time.monotonic() - self._waiting_since > self.parameters["policy_timeout_s"]
        ):
            self._policy_there = False
            stamp, observed = self._waiting
            self._answer(stamp, self.guard.policy_missing(self._seconds(stamp)), observed)

    def _arm(self) -> tuple[bool, str]:
        """Arm; return whether it is armed, and the reason."""
        if self._ends:
            return False, "the guard is about to end"
        if self.parameters["require_live_check"] and self.guard.mode is CommonMode.DISARMED:
            if self._live_check is None:
                return False, "the policy node is still measuring its inputs: arm in a few seconds"
            if self._live_check:
                return False, f"outside of what the policy is proven for: {self._live_check}"
        if self.guard.mode is CommonMode.DISARMED and (rivals := self._policies.rivals()):
            return False, f"{rivals}: stop all but one of them"
        if self._stamps.doubtful and self.guard.mode is CommonMode.DISARMED:
            return False, "the stamps of the observations do not continue each other: arm again in a moment"
        before = self.guard.mode
        armed, why = self.guard.arm(self._now_s())
        if before is not self.guard.mode is CommonMode.POLICY and self._observed_ns != self._begun_ns:
            self._reset.ask()  # it has answered observations of a robot that it did not command
        return armed, why

    def _on_live_check(self, message: Any) -> None:
        self._live_check = message.data

    # Services ------------------------------------------------------------------------------------------------

    def _on_arm(self, request: Any, response: Any) -> Any:
        if not self.active or self._origin_ns is None:
            response.message = "No observation has arrived yet, or the guard is not active."
        elif request.data and self.guard.mode is CommonMode.DISARMED and (why := self._instruction.refusal):
            response.message = why  # not of arming by itself: that is on a command, and then there is a sentence
        elif request.data:
            response.success, response.message = self._arm()
            self._shown.show(self.guard)
        else:
            self._auto_arm_left = False
            self._send(self.guard.disarm("requested"), ordered=True)
            response.success, response.message = True, "Disarmed."
        return response

    # Publishing ----------------------------------------------------------------------------------------------

    def _answer(self, stamp: int, decision: Decision, observed: Decision) -> None:
        """Lock step: answer the observation, once; motors off is an answer too, so that time advances.

        Args:
            stamp: Stamp of the observation.
            decision: On the policy's command, or on its absence; it takes precedence.
            observed: On the observation: the guard's own command while it acts, or "off" if it was armed since.
        """
        answer = decision if decision.command is not None or decision.mode.role == "off" else observed
        self._shown.show(decision)
        reset_due = self._reset.due and self._policy_there
        self._reset.due = False
        if reset_due and answer.command is not None:
            self._held = (stamp, answer)
            self._reset.call()
            return
        if answer.command is None and answer.mode.role != "off":
            return  # nothing to publish: the policy's next command, or its timeout, answers
        self._publish_answer(stamp, answer)

    def _publish_answer(self, stamp: int, answer: Decision) -> None:
        self._waiting, self._early, self._held = None, None, None
        self._answered = (stamp, answer)
        self._publish(answer)

    def _publish_held(self) -> None:
        """Publish the answer that has waited for the policy's reset."""
        if self._held is not None:
            self._publish_answer(*self._held)

    def _send(self, decision: Decision, *, ordered: bool = False) -> None:
        self._held = None
        self._publish(decision, ordered)
        self._shown.show(decision)

    def _publish(self, decision: Decision, ordered: bool = False) -> None:
        if decision.mode.role == "off":
            due = self.lock_step or decision.command is not None or decision.mode != self._shown.mode
            # one that answers an old observation leaves a robot to its own failsafe; an operator's, with 0, is now
            now = not self.lock_step and (ordered or decision.mode is CommonMode.ESTOP)
            if due and (off := self._message.fill_off(0 if now else max(self._observed_ns, 0))) is not None:
                self._commands.publish(off)
        elif decision.command is not None:
            stamp = self._observed_ns if self.lock_step else self._nanoseconds(decision.stamp_s)
            self._commands.publish(self._message.fill(stamp, decision.command))
            self._counts["clipped"] += decision.clipped
            if decision.held_for:
                self.warn(f"A command was limited: {decision.held_for}.", f"held {decision.held_for}")
            if decision.blocked:
                self._kind_subscriptions.counts["blocked"] = self._kind_subscriptions.counts.get("blocked", 0) + 1
                self._shown.blocked(decision.blocked)
            if not self.lock_step:
                self._timer.reset()

    def _begin_episode(self) -> None:
        """Forget what belongs to the old stamps: they jumped, because the robot or its clock was reset."""
        if self.parameters["arm_after_reset"]:
            self._shown.show(self.guard.disarm("the robot's time jumped"))
            self._auto_arm_left = self.parameters["auto_arm"]
        self._waiting = self._early = self._answered = self._held = self._begun_ns = None
        self._reset.forget()
        self._kind_subscriptions.forget()

    # Time ----------------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        if self.lock_step:
            return self._seconds(self._observed_ns)
        now = self.stamps_now_ns()
        return self._seconds(self._observed_ns if now is None else now)

    def stamps_now_ns(self) -> int | None:
        """Return the present time on the clock of the observations' stamps; None before the first."""
        return self._stamps.now_ns(time.monotonic_ns(), time.time_ns())

    def times_of(self, stamp_ns: int) -> tuple[float, float] | None:
        """Return the time and the seconds of a stamp on the node's clock; None before the first observation."""
        return None if self._origin_ns is None else (self._now_s(), self._seconds(stamp_ns))

    def _seconds(self, stamp_ns: int) -> float:
        # Relative to the first stamp, so that floats resolve nanoseconds even when stamps count from 1970.
        return (stamp_ns - (self._origin_ns or 0)) / NANOSECONDS

    def _nanoseconds(self, stamp_s: float) -> int:
        return (self._origin_ns or 0) + round(stamp_s * NANOSECONDS)


main = GuardNode.main

if __name__ == "__main__":
    raise SystemExit(main())
