"""The guard's state machine: who flies, and what may be published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.guard.config import GuardConfig
from rlstack.guard.decision import Decision, Mode
from rlstack.guard.observation import Observation, broken_limit, parse
from rlstack.guard.pilot import Pilot
from rlstack.guard.watch import SLACK_S, Clock, PolicyWatch
from rlstack.robots import Quadrotor

GUARD_FLIES = (Mode.TAKEOFF, Mode.HOVER, Mode.LAND)


class Guard:
    """Owns the last word before the rotors.

    It has no clock: every event brings the time, s, on the clock of the observations' stamps. Each event returns
    a :class:`Decision`; its command, if any, is to be published at once. Every command is finite, within the
    rotors' limits and within the rate limit of the one before; only stopping the motors (zeros) is immediate.

    ::

        DISARMED --arm on the ground--> TAKEOFF --at height--> POLICY (or HOVER while the policy is not in time)
        DISARMED --arm in the air-----> POLICY
        POLICY --late--> HOVER --in time again for recover_after_s--> POLICY
        POLICY --limit broken, malformed command--> HOVER (no way back)
        HOVER --hover_before_landing_s--> LAND --on the floor--> DISARMED
        any armed mode --no valid observation--> DISARMED;  any --estop--> ESTOP --clear_estop--> DISARMED

    Args:
        robot: The robot.
        config: Limits and times; the robot's own if None.
    """

    def __init__(self, robot: Quadrotor, config: GuardConfig | None = None) -> None:
        self.robot = robot
        self.config = config or GuardConfig.from_robot(robot)
        self.mode = Mode.DISARMED
        self.reason = "not armed yet"
        self.interventions = 0
        """How often it took over from the policy."""
        self.in_a_row = 0
        """Valid observations so far without a gap beyond the time-out."""
        self.stopped_unseen = False
        """Whether it stopped before it had left the ground, only because observations stayed away."""
        self._pilot = Pilot(robot, self.config)
        self._clock = Clock(self.config.observation_timeout_s)
        self._watch = PolicyWatch(len(robot.rotors), self.config.staleness_s, self.config.period_s)
        self._seen: Observation | None = None
        self._seen_t = self._newest_stamp_s = -math.inf
        self._refused_observation = "none has come"
        self._mode_t = 0.0
        self._accepted_t = 0.0
        self._may_return = False
        self._upright_t = 0.0
        self._stop_due = False

    # What people and services ask for.

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Let the robot fly; return whether it may, and why (not)."""
        t = self._advance(time_s)
        if self.mode is Mode.ESTOP:
            return False, f"the emergency stop is set ({self.reason}): clear it first"
        if self.mode is not Mode.DISARMED:
            return True, f"armed already, mode {self.mode}"
        seen = self._seen
        if seen is None or t - self._seen_t > self.config.observation_timeout_s:
            return (
                False,
                f"no valid observation within {self.config.observation_timeout_s} s: {self._refused_observation}",
            )
        broken = broken_limit(seen, self.config)
        if broken:
            return False, f"outside the limits already: {broken}"
        flying = self._is_flying(seen)
        self.stopped_unseen = False
        self._pilot.start(t, flying)
        self._watch.forget()
        self._watch.restart_stamps()  # a policy that answered while disarmed may answer the same observation again
        self._stop_due = False
        self._upright_t = self._accepted_t = t
        if flying:
            self._enter(Mode.POLICY, t, "armed in the air")
        else:
            self._pilot.climb(seen, self.config.takeoff_height_m)
            self._enter(Mode.TAKEOFF, t, "armed on the ground")
        return True, self.reason

    def disarm(self, reason: str) -> Decision:
        """Stop the motors now and stay disarmed; an emergency stop stays set."""
        before = self.mode
        if before is not Mode.ESTOP:
            self._stop(reason)
        return self._off(before)

    def estop(self, reason: str) -> Decision:
        """Stop the motors now and keep them stopped until the emergency stop is cleared."""
        before = self.mode
        self.mode, self.reason, self.stopped_unseen = Mode.ESTOP, reason, False
        return self._off(before)

    def clear_estop(self) -> tuple[bool, str]:
        """Go from ESTOP to DISARMED; return whether an emergency stop was set, and what holds now."""
        if self.mode is not Mode.ESTOP:
            return False, "no emergency stop is set"
        self._stop("emergency stop cleared")
        return True, self.reason

    # Events.

    def on_observation(self, time_s: float, stamp_s: float, signals: Mapping[str, NDArray[np.floating]]) -> Decision:
        """Take an observation; answer it where the guard flies, or at once where a limit is broken.

        Args:
            time_s: Now, s.
            stamp_s: When it was measured, s.
            signals: ``position``, ``orientation``, ``linear_velocity`` (``base_link``), ``angular_velocity``; others
                are ignored. Anything missing, malformed, not finite or old counts as no observation.
        """
        before, t = self.mode, self._advance(time_s)
        seen = self._fresh(stamp_s, signals)
        if isinstance(seen, str):
            self._refused_observation = seen
            return self._tick(t, before, note=seen)
        unseen = t - self._seen_t > self.config.observation_timeout_s
        late = self._is_late(t) or unseen
        self.in_a_row = 1 if unseen else self.in_a_row + 1
        self._seen, self._seen_t, self._newest_stamp_s = seen, t, stamp_s
        if self.mode is Mode.POLICY:
            broken = broken_limit(seen, self.config)
            if broken:
                return self._take_over(t, before, broken, may_return=False)
            if late:
                return self._take_over(t, before, self._lateness(t), may_return=True)
            return Decision(None, stamp_s, self.mode, self.reason)
        if self.mode in GUARD_FLIES:
            return self._fly(t, before)
        return self._off(before)

    def on_policy_command(self, time_s: float, stamp_s: float, rotor_speed: NDArray[np.floating]) -> Decision:
        """Take a policy's command (rotors,) in rad/s that answers the observation of ``stamp_s``.

        It is passed on, held to the limits, while the policy flies; elsewhere it is judged and dropped.

        A malformed command (wrong shape, not numbers, not finite) ends the policy's flight for good; one that is
        late or out of order is dropped.
        """
        before, t = self.mode, self._advance(time_s)
        speeds = self._watch.numbers(rotor_speed)
        if isinstance(speeds, str):
            if self.mode is Mode.POLICY:
                return self._take_over(t, before, speeds, may_return=False)
            if self.mode is Mode.TAKEOFF:
                self._hover(t, speeds, may_return=False)
            elif self.mode is Mode.HOVER and self._may_return:
                self._may_return, self.reason = False, speeds
            return self._nothing(before, speeds)
        problem = self._watch.lateness(t, self._clock.source_s, stamp_s)
        if problem or self.mode is not Mode.POLICY:
            return self._nothing(before, problem or self.reason)
        if t - self._seen_t > self.config.observation_timeout_s:
            return self._tick(t, before)
        held, clipped = self._pilot.pass_on(t, speeds)
        self._accepted_t = t
        return Decision(np.array(held), stamp_s, self.mode, self.reason, before is not self.mode, clipped)

    def on_tick(self, time_s: float) -> Decision:
        """Let time pass: find a late policy and missing observations. Call it at the control rate."""
        before = self.mode
        return self._tick(self._advance(time_s), before)

    def policy_missing(self, time_s: float) -> Decision:
        """Take over because the policy gave no answer while simulated time waits for it (lock step).

        Where the guard flies already, the last command is repeated, in case it was lost.
        """
        before, t = self.mode, self._advance(time_s)
        if self._seen is None or self.mode in (Mode.DISARMED, Mode.ESTOP):
            return self._off(before)
        if self.mode is Mode.POLICY:
            return self._take_over(t, before, "the policy gave no answer", may_return=True)
        held, clipped = self._pilot.pass_on(t, self._pilot.sent)
        return Decision(np.array(held), self._seen.stamp_s, self.mode, self.reason, False, clipped)

    # How modes follow each other.

    def _advance(self, time_s: float) -> float:
        if self._clock.advance(time_s):
            self._watch.restart_stamps()
            self._newest_stamp_s = -math.inf
            self.in_a_row = 0
        return self._clock.elapsed_s

    def _fresh(self, stamp_s: float, signals: Mapping[str, NDArray[np.floating]]) -> Observation | str:
        timeout, age = self.config.observation_timeout_s, self._clock.source_s - stamp_s
        if not abs(age) <= timeout:
            return f"the observation's stamp is {age:.3f} s old, more than {timeout} s from now"
        if stamp_s <= self._newest_stamp_s:
            return f"the observation's stamp does not go forward ({stamp_s:.3f} after {self._newest_stamp_s:.3f} s)"
        return parse(stamp_s, signals)

    def _is_flying(self, seen: Observation) -> bool:
        return seen.position[2] - self.config.floor_m >= self.config.airborne_height_m

    def _is_late(self, t: float) -> bool:
        return t - self._accepted_t > self.config.staleness_s + SLACK_S

    def _lateness(self, t: float) -> str:
        return f"the policy is late: nothing accepted for {t - self._accepted_t:.3f} s"

    def _tick(self, t: float, before: Mode, note: str = "") -> Decision:
        silent_s = t - self._seen_t
        if silent_s > self.config.observation_timeout_s:
            self.in_a_row = 0
        if self.mode in (Mode.DISARMED, Mode.ESTOP):
            return self._off(before)
        if silent_s > self.config.observation_timeout_s:
            assert self._seen is not None  # nothing is armed without an observation
            grounded = self.mode is Mode.TAKEOFF and not self._is_flying(self._seen)
            self._stop(f"no valid observation for {silent_s:.2f} s: {self._refused_observation}")
            self.stopped_unseen = grounded
            return self._off(before)
        if self.mode is Mode.POLICY and self._is_late(t):
            return self._take_over(t, before, self._lateness(t), may_return=True)
        return self._nothing(before, note or self.reason)

    def _take_over(self, t: float, before: Mode, reason: str, may_return: bool) -> Decision:
        self.interventions += 1
        self._hover(t, reason, may_return)
        return self._fly(t, before)

    def _hover(self, t: float, reason: str, may_return: bool) -> None:
        assert self._seen is not None  # nothing is armed without an observation
        self._pilot.hold(self._seen)
        self._watch.forget()
        self._may_return = may_return
        self._upright_t = t
        self._enter(Mode.HOVER, t, reason)

    def _fly(self, t: float, before: Mode) -> Decision:
        """Answer the newest observation by the classical controller, or move on to the mode that is due."""
        seen, config = self._seen, self.config
        assert seen is not None  # nothing is armed without an observation
        in_mode_s = t - self._mode_t
        if seen.tilt_rad < 0.5 * math.pi:
            self._upright_t = t
        elif t - self._upright_t > config.tumble_s:
            self._stop(f"on its side or back for {t - self._upright_t:.1f} s")
            return self._off(before)
        if self.mode is Mode.TAKEOFF:
            if self._pilot.below_top_m(seen) < config.takeoff_tolerance_m:
                if self._watch.fresh(t) and not broken_limit(seen, config):
                    return self._hand_over(t, before, "at the take-off height")
                self._pilot.hold_top()
                self._may_return = True
                self._enter(Mode.HOVER, t, "at the take-off height, no policy in time")
            elif in_mode_s > config.takeoff_height_m / config.takeoff_speed_m_s + config.hover_before_landing_s:
                self._pilot.descend()
                self._enter(Mode.LAND, t, "the take-off height was not reached")
        elif self.mode is Mode.HOVER:
            good = self._may_return and self._watch.good_for_s(t) + SLACK_S >= config.recover_after_s
            if good and self._watch.fresh(t) and not broken_limit(seen, config):
                return self._hand_over(t, before, "the policy is in time again")
            if in_mode_s >= config.hover_before_landing_s:
                self._pilot.descend()
                self._enter(Mode.LAND, t, self.reason)
        held, clipped, landed = self._pilot.fly(t, seen)
        if landed:
            self._stop(f"landed ({self.reason})")
            return self._off(before)
        return Decision(np.array(held), seen.stamp_s, self.mode, self.reason, before is not self.mode, clipped)

    def _hand_over(self, t: float, before: Mode, reason: str) -> Decision:
        self._accepted_t = t
        self._enter(Mode.POLICY, t, reason)
        return self._nothing(before, reason)

    def _enter(self, mode: Mode, t: float, reason: str) -> None:
        self.mode, self._mode_t, self.reason = mode, t, reason

    def _stop(self, reason: str) -> None:
        self.mode, self.reason, self.stopped_unseen = Mode.DISARMED, reason, False
        self._stop_due = True

    # Answers.

    def _stamp_s(self) -> float:
        return self._clock.source_s if self._seen is None else self._seen.stamp_s

    def _nothing(self, before: Mode, reason: str) -> Decision:
        return Decision(None, self._stamp_s(), self.mode, reason, before is not self.mode)

    def _off(self, before: Mode) -> Decision:
        """Motors off: said once when disarmed, again and again while the emergency stop is set."""
        command: NDArray[Any] | None = None
        if self._stop_due or self.mode is Mode.ESTOP:
            command, self._stop_due = np.zeros(len(self.robot.rotors)), False
        return Decision(command, self._stamp_s(), self.mode, self.reason, before is not self.mode)
