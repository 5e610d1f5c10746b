"""Behaviour common to all guards: arming, the emergency stop, and switching between policy and fallback."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlstack.guard.battery import BatteryMonitor
from rlstack.guard.decision import (
    CLOCK_ADVICE,
    CLOCK_JUMPED,
    CommonMode,
    Decision,
    LimitedCommand,
    Mode,
    Transition,
    all_transitions,
)
from rlstack.guard.ending import Ending
from rlstack.guard.observation import Stamped, parse
from rlstack.guard.policy_monitor import SLACK_S, Clock, PolicyMonitor
from rlstack.guard.rate import RateMonitor
from rlstack.interfaces.kind_signals import command_of, shape_of

Signals = Mapping[str, NDArray[np.floating]]
Seen = TypeVar("Seen", bound=Stamped)


class Guard(Ending, ABC, Generic[Seen]):
    """State machine of a guard; each kind of robot adds its observation, its limits and its fallback.

    Every event passes the time, s, on the clock of the observations' stamps, and returns a :class:`Decision`,
    whose command, if any, must be published at once.

    Args:
        robot: The robot.
        config: Limits and timeouts, an instance of :attr:`CONFIG`; None: the robot's own.
    """

    OBSERVED: ClassVar[tuple[str, ...]] = ("position", "orientation", "linear_velocity", "angular_velocity")
    """Signals of one topic that make up an observation."""

    CONFIG: ClassVar[Any]
    """Class of its configuration, a :class:`rlstack.guard.config.GuardConfig`."""
    LIVE: ClassVar[frozenset[str]] = frozenset()
    """Limits that may change while it runs; :meth:`adopt` passes them on to where they apply."""
    SAFE_MODE: ClassVar[Mode]
    """The mode that keeps the robot safe when the policy cannot command it."""
    TRANSITIONS: ClassVar[tuple[Transition, ...]]
    """The kind's own changes of mode; those that all guards have are in :meth:`transitions`."""
    FALLS: ClassVar[bool] = False
    """Whether "off" drops the robot, which its own failsafe may know to land."""
    ENDS: ClassVar[str] = ""
    """Faults that switch the robot off from any armed mode, besides ``disarm``; empty: none."""

    @classmethod
    def transitions(cls) -> tuple[Transition, ...]:
        """Return every change of mode that this guard can make."""
        return all_transitions(cls.TRANSITIONS, cls.ENDS)

    @classmethod
    def from_parameters(cls, robot: Any, config: Any, parameters: Mapping[str, Any]) -> Guard[Seen]:
        """Return the guard of a robot; ``parameters`` of the guard node are more than the fields of ``config``."""
        return cls(robot, config)

    def __init__(self, robot: Any, config: Any = None) -> None:
        self.robot = robot
        self.config = config = config or self.CONFIG.from_robot(robot)
        self.command = command_of(robot)
        """The command that it limits."""
        self.elements = int(shape_of(self.command, robot)[0])
        """Width of a command."""
        self.mode: Mode = CommonMode.DISARMED
        self.reason = "not armed yet"
        self.advice = ""
        """What the operator can do about the reason, as a sentence; empty if there is nothing to do."""
        self.interventions = 0
        """Number of times it has taken over from the policy since it was created."""
        self.in_a_row = 0
        """Number of valid observations so far without a gap beyond the timeout."""
        self.stopped_unseen = False
        """Whether it stopped before the robot had moved, only because observations were missing."""
        self.reset_policy: Callable[[], bool] = lambda: True
        """Called before the policy gets control back: requests its reset, and returns whether that is done. It is
        called again with every observation until it is; meanwhile the guard goes on."""
        self.battery = BatteryMonitor(config)
        self._rate = RateMonitor(config.control_rate_hz, config.observation_rate_share)
        self._clock = Clock(config.observation_timeout_s)
        self._monitor = PolicyMonitor(self.elements, config.staleness_s, config.period_s, config.observation_delay_s)
        self._seen: Seen | None = None
        self._seen_t = self._newest_stamp_s = -math.inf
        self._refused_observation = "none has arrived"
        self._measured_t = -math.inf  # when the newest observation was measured; it arrived at _seen_t
        self._mode_t = self._accepted_t = 0.0
        self._may_return = self._stop_due = False
        self._restart_due = False  # the clock has jumped, and no valid observation has come since

    @property
    def _acts(self) -> bool:
        """Whether the guard itself computes the commands."""
        return self.mode.role != "off" and self.mode is not CommonMode.POLICY

    @property
    def tick_s(self) -> float:
        """Longest time after a command until :meth:`on_tick` must be called: a fallback acts without observations."""
        return float(self.config.period_s)

    @property
    def notes(self) -> str:
        """What it cannot check, as a sentence; empty if it checks everything."""
        return ""

    @property
    def warning(self) -> str:
        """What diagnostics warn of in any mode, as a sentence: a low battery, few observations; or empty."""
        return "; ".join(filter(None, (self.battery.low, self._rate.low(self._clock.elapsed_s))))

    # Implemented by each kind of robot.

    def _parse(self, stamp_s: float, signals: Signals) -> Any:
        """Return the observation, or what is wrong with it; by default an :class:`Observation`."""
        return parse(stamp_s, signals)

    @abstractmethod
    def _broken_limit(self, seen: Seen) -> str:
        """Return which limit the robot violates, or an empty string."""

    def adopt(self, config: Any) -> None:
        """Take a configuration that differs in :attr:`LIVE`; a robot beyond it is slowed down or brought inside."""
        self.config = config

    @abstractmethod
    def _begin(self, t: float, seen: Seen) -> None:
        """Enter the first mode after arming."""

    def _enter_safe_mode(self, t: float, reason: str, may_return: bool) -> None:
        """Enter the mode that keeps the robot safe."""
        self._monitor.forget()
        self._may_return = may_return
        self._enter(self.SAFE_MODE, t, reason)

    @abstractmethod
    def _act(self, t: float, before: Mode, seen: Seen) -> Decision:
        """Answer the newest observation in one of the kind's own modes, or switch to the mode that is due."""

    @abstractmethod
    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Handle an armed robot whose observations have been missing for too long, which ``reason`` says."""

    @abstractmethod
    def _limit(self, t: float, wanted: NDArray[np.float64]) -> LimitedCommand:
        """Return the command within the limits."""

    @abstractmethod
    def _repeat(self, t: float) -> LimitedCommand:
        """Return the command to publish where the last one must be repeated."""

    def _observed(self, t: float, seen: Seen) -> None:
        """Learn from a new valid observation; by default nothing."""

    _advice = ""
    """What the operator can do about the limit that :meth:`_broken_limit` named."""

    def _near_limit(self, seen: Seen) -> str:
        """Return which limit the robot is near, so that the guard turns it back; by default none."""
        return ""

    def _turn_back(self, t: float, before: Mode, reason: str) -> Decision:
        """Answer a state near a limit, where :meth:`_near_limit` names one."""
        return self._take_over(t, before, reason, may_return=True)

    def _act_unseen(self, t: float, before: Mode) -> Decision:
        """Act between observations that are late, where the kind can; by default nothing is published."""
        return self._no_command(before, self.reason)

    def _on_clock_jump(self, t: float, before: Mode, previous: Seen | None, seen: Seen) -> Decision:
        """Answer a clock that has jumped for good while armed: the safe mode, on what the new clock's stamps observe.

        Args:
            t: Now, s, monotonic.
            before: The mode before the event.
            previous: The last observation of the old clock.
            seen: The first one of the new clock.
        """
        if self.mode.role == "normal":
            return self._take_over(t, before, CLOCK_JUMPED, may_return=False, advice=CLOCK_ADVICE)
        self._bar_policy(CLOCK_JUMPED, CLOCK_ADVICE)
        return self._act(t, before, seen)

    def _on_malformed_command(self, t: float, problem: str) -> None:
        """React to a malformed command that arrives while the guard itself acts."""
        self._bar_policy(problem)

    # Requests from people and services.

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Arm the robot; return whether it is armed, and the reason."""
        t = self._advance(time_s)
        if self.mode is CommonMode.ESTOP:
            return False, f"the emergency stop is set ({self.reason}): clear it first"
        if self.mode is not CommonMode.DISARMED:
            return True, f"armed already, mode {self.mode}"
        seen, timeout = self._seen, self.config.observation_timeout_s
        if seen is None or t - self._measured_t > timeout:
            return False, f"no valid observation within {timeout} s: {self._refused_observation}"
        if broken := self._broken_limit(seen):
            return False, f"outside the limits already: {broken}"
        if self.battery.forbids_arming:
            return False, self.battery.forbids_arming
        self.stopped_unseen = self._stop_due = False
        self._monitor.forget()
        self._monitor.restart_stamps()  # a policy that answered while disarmed may answer the same observation again
        self._accepted_t = t
        self._begin(t, seen)
        return True, self.reason

    def disarm(self, reason: str) -> Decision:
        """Stop the motors now and disarm; an emergency stop stays set."""
        before, self.advice = self.mode, ""
        if before is not CommonMode.ESTOP:
            self._stop(reason)
        return self._off(before)

    def estop(self, reason: str) -> Decision:
        """Stop the motors now and keep them stopped until the emergency stop is cleared."""
        before, self.advice = self.mode, ""
        self.mode, self.reason, self.stopped_unseen = CommonMode.ESTOP, reason, False
        return self._off(before)

    def on_fault(self, time_s: float, reason: str, advice: str = "") -> Decision:
        """Enter the safe mode because of a fault outside observations and commands; the policy does not come back.

        Args:
            time_s: Now, s.
            reason: What is wrong, such as "two publishers on policy/cmd_vel: /policy and /other".
            advice: What the operator can do about it, as a sentence.
        """
        before, t = self.mode, self._advance(time_s)
        if self.mode.role == "off":
            return self._off(before)
        if self.mode.role == "normal":
            return self._take_over(t, before, reason, may_return=False, advice=advice)
        self._bar_policy(reason, advice)
        return self._no_command(before, reason)

    def clear_estop(self) -> tuple[bool, str]:
        """Go from ESTOP to DISARMED; return whether an emergency stop was set, and the state now."""
        if self.mode is not CommonMode.ESTOP:
            return False, "no emergency stop is set"
        self._stop("emergency stop cleared")
        return True, self.reason

    # Events.

    def on_observation(self, time_s: float, stamp_s: float, signals: Signals, *, restarted: bool = False) -> Decision:
        """Process an observation; answer it where the guard acts, or at once if a limit is violated.

        Args:
            time_s: Now, s.
            stamp_s: Measurement time, s.
            signals: Those in :attr:`OBSERVED`, linear velocities in ``base_link``; others are ignored. A missing,
                malformed, non-finite or old signal counts as no observation.
            restarted: Whether the stamps' clock has jumped for good: time continues at ``time_s``. An armed guard
                then takes over, because neither the policy's memory nor its own is of this clock.
        """
        if restarted:
            self._clock.restart(time_s)
            self._forget_stamps()
            self._restart_due = True
        before, t = self.mode, self._advance(time_s)
        seen = self._fresh(stamp_s, signals)
        if isinstance(seen, str):
            self._refused_observation = seen
            return self._tick(t, before, note=seen)
        silent_s = t - self._seen_t
        late, self.in_a_row = self._lateness(t) if self._is_late(t) else "", self.in_a_row + 1
        if silent_s > self.config.observation_timeout_s:
            late, self.in_a_row = self._unseen(silent_s), 1
            self._rate.restart()
        self._rate.observed(t)
        previous, self._seen, self._seen_t, self._newest_stamp_s = self._seen, seen, t, stamp_s
        self._measured_t = t - max(0.0, self._clock.source_s - stamp_s)
        self._observed(t, seen)
        restarted, self._restart_due = self._restart_due, False
        if restarted and self.mode.role != "off":
            return self._on_clock_jump(t, before, previous, seen)
        if self.mode is CommonMode.POLICY:
            if broken := self._broken(seen):
                return self._take_over(t, before, broken, may_return=False, advice=self._advice)
            if late:
                return self._take_over(t, before, late, may_return=True)
            if near := self._near_limit(seen):
                return self._turn_back(t, before, near)
            return Decision(None, stamp_s, self.mode, self.reason)
        return self._act(t, before, seen) if self._acts else self._off(before)

    def on_battery(self, time_s: float, percentage: float, voltage_v: float) -> None:
        """Process a battery state (charge, 0 to 1, and V; NaN where not measured); the next observation acts on it."""
        self.battery.receive(self._advance(time_s), percentage, voltage_v)

    def on_policy_command(self, time_s: float, stamp_s: float, command: NDArray[np.floating]) -> Decision:
        """Process a policy's command that answers the observation stamped ``stamp_s``.

        While the policy commands, it is limited and published; otherwise it is checked and dropped. A malformed
        one (wrong shape, not numeric, not finite) takes control from it for good; one late or out of order is dropped.
        """
        before, t = self.mode, self._advance(time_s)
        numbers = self._monitor.numbers(command)
        if isinstance(numbers, str):
            if self.mode is CommonMode.POLICY:
                return self._take_over(t, before, numbers, may_return=False)
            if self._acts:
                self._on_malformed_command(t, numbers)
            return self._no_command(before, numbers)
        problem = self._monitor.lateness(t, self._clock.source_s, stamp_s)
        if problem or self.mode is not CommonMode.POLICY:
            return self._no_command(before, problem or self.reason)
        if t - self._seen_t > self.config.observation_timeout_s:
            return self._tick(t, before)
        self._accepted_t = t
        return self._command(before, self._limit(t, numbers), stamp_s)

    def on_tick(self, time_s: float) -> Decision:
        """Advance time: detect a late policy and missing observations. Call it at the control rate."""
        before = self.mode
        return self._tick(self._advance(time_s), before)

    def policy_missing(self, time_s: float) -> Decision:
        """Take over because the policy did not answer while simulated time waits for it (lock step).

        Where the guard acts already, repeat the last command in case it was dropped.
        """
        before, t = self.mode, self._advance(time_s)
        if self._seen is None or self.mode.role == "off":
            return self._off(before)
        if self.mode is CommonMode.POLICY:
            return self._take_over(t, before, "the policy gave no answer", may_return=True)
        return self._command(before, self._repeat(t))

    # Mode transitions.

    def _advance(self, time_s: float) -> float:
        if self._clock.advance(time_s):
            self._forget_stamps()
        return self._clock.elapsed_s

    def _forget_stamps(self) -> None:
        """Accept any next stamp: the clock has jumped."""
        self._monitor.restart_stamps()
        self._monitor.forget()
        self._newest_stamp_s = -math.inf
        self.in_a_row = 0
        self._rate.restart()

    def _fresh(self, stamp_s: float, signals: Signals) -> Seen | str:
        oldest, age = self.config.oldest_observation_s, self._clock.source_s - stamp_s
        if not abs(age) <= oldest:
            return f"the observation's stamp is {age:.3f} s old, more than {oldest} s from now"
        if stamp_s <= self._newest_stamp_s:
            return f"the observation's stamp does not go forward ({stamp_s:.3f} after {self._newest_stamp_s:.3f} s)"
        return self._parse(stamp_s, signals)

    def _broken(self, seen: Seen) -> str:
        """Return why the policy must not command any more, the robot's limits or its battery; or an empty string."""
        broken = self._broken_limit(seen)
        if not broken and self.battery.critical:
            self._advice = "Charge or change it, then arm again."
        return broken or self.battery.critical

    @property
    def _newest(self) -> Seen:
        """The newest observation; nothing is armed without one."""
        assert self._seen is not None
        return self._seen

    def _is_late(self, t: float) -> bool:
        return bool(t - self._accepted_t > self.config.staleness_s + SLACK_S)

    def _lateness(self, t: float) -> str:
        return f"the policy is late: nothing accepted for {t - self._accepted_t:.3f} s"

    def _unseen(self, silent_s: float) -> str:
        return f"no valid observation for {silent_s:.2f} s: {self._refused_observation}"

    def _tick(self, t: float, before: Mode, note: str = "") -> Decision:
        silent_s = t - self._seen_t
        unseen = silent_s > self.config.observation_timeout_s
        if unseen:
            self.in_a_row = 0
        if self.mode.role == "off":
            return self._off(before)
        if unseen:
            return self._on_missing_observations(t, before, self._unseen(silent_s))
        if self.mode is CommonMode.POLICY and self._is_late(t):
            return self._take_over(t, before, self._lateness(t), may_return=True)
        if self._acts and silent_s > self.config.period_s + SLACK_S:
            return self._act_unseen(t, before)
        return self._no_command(before, note or self.reason)

    def _take_over(self, t: float, before: Mode, reason: str, may_return: bool, advice: str = "") -> Decision:
        self._enter_safe_mode(t, reason, may_return)
        self.advice = advice
        return self._act(t, before, self._newest)

    def _bar_policy(self, reason: str, advice: str = "") -> None:
        """Keep control for good, if the policy might still have had it back."""
        if self._may_return:
            self._may_return, self.reason, self.advice = False, reason, advice

    def _policy_is_back(self, t: float) -> bool:
        """Return whether the policy may command again, and has been on time for long enough."""
        good_for_s = self._monitor.good_for_s(t) + SLACK_S
        return self._may_return and good_for_s >= self.config.recover_after_s and self._monitor.fresh(t)

    def _hand_over(self, t: float, before: Mode, reason: str) -> Decision:
        self._accepted_t = t
        self._enter(CommonMode.POLICY, t, reason)
        return self._no_command(before, reason)

    def _enter(self, mode: Mode, t: float, reason: str) -> None:
        self.interventions += self.mode is CommonMode.POLICY and mode.role == "intervention"
        self.mode, self._mode_t, self.reason = mode, t, reason

    def _stop(self, reason: str) -> None:
        self.mode, self.reason, self.stopped_unseen = CommonMode.DISARMED, reason, False
        self._stop_due = True

    def _stamp_s(self) -> float:
        return self._clock.source_s if self._seen is None else self._seen.stamp_s

    def _command(self, before: Mode, passed: LimitedCommand, stamp_s: float | None = None) -> Decision:
        """Return the decision to publish a command; by default it answers the newest observation."""
        stamp_s = self._stamp_s() if stamp_s is None else stamp_s
        return Decision(passed.command, stamp_s, self.mode, self.reason, before is not self.mode, *passed[1:])

    def _no_command(self, before: Mode, reason: str) -> Decision:
        return Decision(None, self._stamp_s(), self.mode, reason, before is not self.mode)

    def _off(self, before: Mode) -> Decision:
        """Motors off: published once when disarmed, repeatedly while the emergency stop is set."""
        command: NDArray[Any] | None = None
        if self._stop_due or self.mode is CommonMode.ESTOP:
            command, self._stop_due = np.zeros(self.elements), False
        return Decision(command, self._stamp_s(), self.mode, self.reason, before is not self.mode)
