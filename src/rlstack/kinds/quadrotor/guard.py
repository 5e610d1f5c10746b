"""Guard of a quadrotor: limits its commands, rotor speeds or rates and thrust, and flies the fallback."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from rlstack.guard.decision import CLOCK_ADVICE, CLOCK_JUMPED, CommonMode, Decision, Mode, Transition
from rlstack.guard.guard import Guard, LimitedCommand, Signals
from rlstack.guard.observation import Observation, parse
from rlstack.guard.policy_monitor import SLACK_S
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.guard_fallback import HoverFallback
from rlstack.kinds.quadrotor.guard_limits import beyond_fence, broken_limit, inside_m, is_outside, over_limit
from rlstack.kinds.quadrotor.guard_obstacles import ObstacleMonitor
from rlstack.kinds.quadrotor.guard_plausibility import JumpCheck
from rlstack.kinds.quadrotor.spec import Quadrotor

PATIENCE = 6.0
"""How many times as long the guard hovers before it lands while a policy that was late still answers."""
OFF_GROUND_M = 0.03
"""Height above the place of arming from which a take-off turns the robot by its rotors alone."""
CALM = 0.5
"""Share of the limits below which a robot that was turned back is handed over."""
LIMIT_ADVICE = "Give a goal farther inside the limits, then arm again; if goals were inside, verify the policy."
OBSTACLE_ADVICE = "Give a goal to which the straight way is free of the obstacle, or a path around it, then arm again."
JUMP_ADVICE = "Check what estimates the odometry, then arm again."
UNSEEN_ADVICE = "Check the odometry topic (rlstack status), then arm again."


class QuadrotorMode(Mode):
    """Modes of a quadrotor's guard."""

    TAKEOFF = "takeoff", "normal"
    """The guard climbs to the take-off height."""
    RETURN = "return", "intervention"
    """The guard slows the robot down and turns it back from a limit; then the policy commands again."""
    HOVER = "hover", "intervention"
    """The guard holds the position."""
    LAND = "land", "intervention"
    """The guard descends until it touches the floor."""


class QuadrotorGuard(Guard[Observation]):
    """Limits commands and takes over from the policy when it fails.

    Every published command is finite, within the robot's limits and within the rate limit of the one before; only
    stopping the motors (zeros, in a mode that is off) is immediate.

    The modes and their transitions are :attr:`TRANSITIONS`.

    See :class:`rlstack.guard.guard.Guard`.
    """

    CONFIG = QuadrotorGuardConfig
    SAFE_MODE = QuadrotorMode.HOVER
    TRANSITIONS = (
        Transition(CommonMode.DISARMED, QuadrotorMode.TAKEOFF, "armed on the ground"),
        Transition(CommonMode.DISARMED, CommonMode.POLICY, "armed in the air"),
        Transition(QuadrotorMode.TAKEOFF, CommonMode.POLICY, "at the take-off height"),
        Transition(QuadrotorMode.TAKEOFF, QuadrotorMode.HOVER, "no policy on time, a fault"),
        Transition(QuadrotorMode.TAKEOFF, QuadrotorMode.LAND, "the height was not reached, or asked to end"),
        Transition(CommonMode.POLICY, QuadrotorMode.RETURN, "near a limit"),
        Transition(CommonMode.POLICY, QuadrotorMode.HOVER, "late, or a fault"),
        Transition(QuadrotorMode.RETURN, CommonMode.POLICY, "calm, inside the limits"),
        Transition(QuadrotorMode.RETURN, QuadrotorMode.HOVER, "a fault, the policy is late, turned back too often"),
        Transition(QuadrotorMode.HOVER, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(
            QuadrotorMode.HOVER, QuadrotorMode.LAND, "after hover_before_landing_s, the battery is empty, asked to end"
        ),
        Transition(CommonMode.POLICY, QuadrotorMode.LAND, "the battery is empty, or asked to end"),
        Transition(QuadrotorMode.RETURN, QuadrotorMode.LAND, "the battery is empty, or asked to end"),
        Transition(QuadrotorMode.LAND, CommonMode.DISARMED, "on the floor"),
    )
    ENDS = "no observation, or tumbled"
    FALLS = True
    LIVE = frozenset(
        {"tilt_rad", "linear_velocity_m_s", "angular_velocity_rad_s", "geofence_min_m", "geofence_max_m", "clearance_m"}
    )
    """Not the change of rotor speeds: the fallback flies with it, too."""
    config: QuadrotorGuardConfig

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig | None = None) -> None:
        super().__init__(robot, config)
        self._fallback = HoverFallback(robot, self.config)
        self._jumps = JumpCheck(robot, self.config)
        self.obstacles = ObstacleMonitor(robot, self.config)
        """What its lidar and depth cameras see; their messages go to it."""
        self._upright_t = self._ground_m = 0.0
        self._turned_back_t: deque[float] = deque()

    def _parse(self, stamp_s: float, signals: Signals) -> Observation | str:
        seen = parse(stamp_s, signals)
        if isinstance(seen, str):
            return seen
        recent = stamp_s - self._newest_stamp_s <= self.config.observation_timeout_s
        if refused := self._jumps.refuses(self._seen if recent else None, seen):
            return refused
        self.obstacles.add_pose(seen)
        return seen

    def _observed(self, t: float, seen: Observation) -> None:
        climbs = self.mode is QuadrotorMode.TAKEOFF
        free = seen.position[2] > self._ground_m + OFF_GROUND_M if climbs else self._is_flying(seen)
        self._fallback.observe(t, seen, self._measured_t, self.mode.role != "off" and free)

    def _forget_stamps(self) -> None:
        super()._forget_stamps()
        self._jumps.forget()
        self.obstacles.forget()

    def _broken_limit(self, seen: Observation) -> str:
        """Return why the policy must not have the robot: where it commands, only what it cannot be turned back from."""
        if self._jumps.lasting:
            self._advice = JUMP_ADVICE
            return self._jumps.lasting
        if self.mode is not CommonMode.POLICY:
            return broken_limit(seen, self.config)
        self._advice = LIMIT_ADVICE
        outside = beyond_fence(seen, self.config) if is_outside(seen, self.config) else ""
        return outside or over_limit(seen, self.config, self.config.overrun)

    def _near_limit(self, seen: Observation) -> str:
        how = self.config.turn_back_share, self._jumps.acceleration
        self._advice = LIMIT_ADVICE
        if near := broken_limit(seen, self.config, *how):
            return near
        self._advice = OBSTACLE_ADVICE
        return self.obstacles.too_close(seen, *how)

    @property
    def warning(self) -> str:
        """What diagnostics warn of in any mode; see :attr:`Guard.warning`."""
        return "; ".join(filter(None, (super().warning, self.obstacles.missing)))

    def _turn_back(self, t: float, before: Mode, reason: str) -> Decision:
        config, turned = self.config, self._turned_back_t
        while turned and t - turned[0] > config.turn_backs_s:
            turned.popleft()
        if len(turned) >= config.turn_backs:
            often = f"{reason}, after {len(turned)} turn-backs within {config.turn_backs_s:g} s"
            return self._take_over(t, before, often, may_return=False, advice=self._advice)
        turned.append(t)
        self._begin_return(t, reason)
        return self._act(t, before, self._newest)

    def _begin_return(self, t: float, reason: str) -> None:
        self._monitor.forget()
        self._fallback.turn_back(self._newest)
        self._upright_t, self._may_return, self.advice = t, True, ""
        self._enter(QuadrotorMode.RETURN, t, reason)

    def adopt(self, config: QuadrotorGuardConfig) -> None:
        """Take a configuration that differs in its limits; see :meth:`Guard.adopt`.

        A robot beyond them is turned back, however far: the policy has not lost it, the limits have moved. What is
        physically plausible stays what it was.
        """
        super().adopt(config)
        self.obstacles.config = config
        self._fallback.adopt(config)
        if self.mode is QuadrotorMode.RETURN:
            self._begin_return(self._clock.elapsed_s, self.reason)
        elif self.mode is CommonMode.POLICY and (near := self._near_limit(self._newest)):
            self._begin_return(self._clock.elapsed_s, f"{near}, which was set in flight")

    @property
    def tick_s(self) -> float:
        """When a policy's command is stale: nothing flies without observations."""
        return self.config.staleness_s

    def _begin(self, t: float, seen: Observation) -> None:
        flying = self._is_flying(seen)
        self._fallback.start(t, flying)
        self._upright_t = t
        self._turned_back_t.clear()  # a flight does not count those of the one before
        if flying:
            self._enter(CommonMode.POLICY, t, "armed in the air")
        else:
            self._ground_m = seen.position[2]
            self._fallback.climb(seen, self.config.takeoff_height_m)
            self._enter(QuadrotorMode.TAKEOFF, t, "armed on the ground")

    def _rest(self, t: float, reason: str) -> float:
        """Land, unless it still stands on the ground."""
        if self.mode is QuadrotorMode.TAKEOFF and not self._is_flying(self._newest):
            return super()._rest(t, reason)
        if self.mode is not QuadrotorMode.LAND:
            self._fallback.land(self._newest)
            self._upright_t = t
            self._enter(QuadrotorMode.LAND, t, reason)
        return self.config.landing_s(self._newest.position[2] - self.config.floor_m)

    def _is_flying(self, seen: Observation) -> bool:
        return seen.position[2] - self.config.floor_m >= self.config.airborne_height_m

    def _limit(self, t: float, wanted: NDArray[np.float64]) -> LimitedCommand:
        return self._fallback.pass_on(t, wanted.tolist())

    def _repeat(self, t: float) -> LimitedCommand:
        return self._fallback.pass_on(t, self._fallback.limiter.sent)

    def _bar_policy(self, reason: str, advice: str = "") -> None:
        if self.mode in (QuadrotorMode.TAKEOFF, QuadrotorMode.RETURN):  # there the policy would have come soon
            self._enter_safe_mode(self._clock.elapsed_s, reason, may_return=False)
            self.advice = advice
        else:
            super()._bar_policy(reason, advice)

    def _on_malformed_command(self, t: float, problem: str) -> None:
        if self.mode is not QuadrotorMode.LAND:
            super()._on_malformed_command(t, problem)

    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Fly on the prediction for a while, then stop the motors: a quadrotor cannot fly without observations."""
        grounded = self.mode is QuadrotorMode.TAKEOFF and not self._is_flying(self._newest)
        if not grounded and t - self._measured_t <= self.config.oldest_observation_s:
            if self.mode not in (QuadrotorMode.HOVER, QuadrotorMode.LAND):
                self._enter_safe_mode(t, reason, may_return=self.mode is CommonMode.POLICY or self._may_return)
            return self._act_unseen(t, before)
        self._stop(reason)
        self.stopped_unseen, self.advice = grounded, UNSEEN_ADVICE
        return self._off(before)

    def _act_unseen(self, t: float, before: Mode) -> Decision:
        return self._act(t, before, self._newest)

    def _now(self, t: float) -> Observation:
        """Return the newest observation, or where one that came late or long ago leads by now."""
        if t - self._measured_t <= self.config.period_s + SLACK_S:
            return self._newest
        return self._fallback.predicted(t, self._newest, self._measured_t)

    def _on_clock_jump(self, t: float, before: Mode, previous: Observation | None, seen: Observation) -> Decision:
        """Stop on the ground, where a reset of the simulation puts a robot; otherwise hover, then land."""
        if not self._is_flying(seen):
            self._stop(f"{CLOCK_JUMPED}, on the ground")
            self.advice = CLOCK_ADVICE
            return self._off(before)
        return super()._on_clock_jump(t, before, previous, seen)

    def _enter_safe_mode(self, t: float, reason: str, may_return: bool) -> None:
        self._fallback.hold(self._newest)
        self._upright_t = t
        super()._enter_safe_mode(t, reason, may_return)

    def _is_calm(self, seen: Observation) -> bool:
        """Return whether the robot that was turned back may be handed over: slow, upright and inside the fence."""
        inside = inside_m(seen, self.config) > self.config.inside_m - self.config.takeoff_tolerance_m
        return inside and not broken_limit(seen, self.config, CALM) and not self.obstacles.too_close(seen, CALM)

    def _act(self, t: float, before: Mode, seen: Observation) -> Decision:
        """Answer the newest observation with the classical controller, or switch to the mode that is due."""
        config, in_mode_s, seen = self.config, t - self._mode_t, self._now(t)
        if seen.tilt_rad < 0.5 * math.pi:
            self._upright_t = t
        elif t - self._upright_t > config.tumble_s:
            self._stop(f"on its side or back for {t - self._upright_t:.1f} s")
            return self._off(before)
        if self._jumps.lasting or self.battery.critical:
            fault, advice = self._jumps.lasting or self.battery.critical, JUMP_ADVICE if self._jumps.lasting else ""
            self._bar_policy(fault, advice)
        if self.mode is QuadrotorMode.TAKEOFF:
            if self._fallback.below_top_m(seen) < config.takeoff_tolerance_m:
                if not self._monitor.fresh(t) or broken_limit(seen, config):
                    self._fallback.hold_top()
                    self._may_return = True
                    self._enter(QuadrotorMode.HOVER, t, "at the take-off height, no policy on time")
                elif self.reset_policy():
                    return self._hand_over(t, before, "at the take-off height")
            elif in_mode_s > config.takeoff_height_m / config.takeoff_speed_m_s + config.hover_before_landing_s:
                self._fallback.descend()
                self._enter(QuadrotorMode.LAND, t, "the take-off height was not reached")
        elif self.mode is QuadrotorMode.RETURN:
            if in_mode_s >= config.hover_before_landing_s:
                self._enter_safe_mode(t, f"{self.reason}: not back inside in time", may_return=False)
                self.advice = self._advice
            elif self._is_calm(seen):
                if in_mode_s > config.staleness_s and not self._monitor.fresh(t):
                    self._enter_safe_mode(t, f"{self.reason}; {self._lateness(t)}", may_return=True)
                elif self._monitor.fresh(t) and self.reset_policy():
                    return self._hand_over(t, before, "back inside the limits")
        elif self.mode is QuadrotorMode.HOVER:
            if self._policy_is_back(t) and not self._broken(seen) and self.reset_policy():
                return self._hand_over(t, before, "the policy is on time again")
            # late now and then: a busy machine
            answers = self._may_return and t - self._monitor.answered_t <= config.recover_after_s
            patience_s = (PATIENCE if answers else 1.0) * config.hover_before_landing_s
            if in_mode_s >= patience_s or self.battery.critical:
                self._fallback.descend()
                self._enter(QuadrotorMode.LAND, t, self.battery.critical or self.reason)
        passed, landed = self._fallback.fly(t, seen, self._newest)
        if landed:
            self._stop(f"landed ({self.reason})")
            return self._off(before)
        return self._command(before, passed)


GUARD = QuadrotorGuard
