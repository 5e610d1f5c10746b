"""Guard of a quadruped: limits joint targets, stands the robot up and lets it crouch."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.decision import CommonMode, Decision, Mode, Transition
from rlstack.guard.guard import Guard, LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.kinds.quadruped.guard_fallback import PostureFallback
from rlstack.kinds.quadruped.guard_limits import QuadrupedTargetLimiter, broken_limit
from rlstack.kinds.quadruped.spec import Quadruped


class QuadrupedMode(Mode):
    """Modes of a quadruped's guard."""

    RISE = "rise", "normal"
    """The guard moves the legs to the standing posture after arming."""
    STAND = "stand", "intervention"
    """The guard moves the legs to the standing posture and holds it."""
    CROUCH = "crouch", "intervention"
    """The guard folds the legs before it switches off, so that the robot does not fall."""


class QuadrupedGuard(Guard[Observation]):
    """Limits joint targets and takes over from the policy when it fails.

    Every published target is finite, within the joints' ranges, and no further from the last than the joints' speeds
    allow. A non-finite or late command is never published; one that is beyond a range by more than its width ends the
    policy's turn. Standing and crouching continue without observations, from
    the last targets, which the joints' own control loops hold.

    The modes and their transitions are :attr:`TRANSITIONS`.

    See :class:`rlstack.guard.guard.Guard`.
    """

    CONFIG = QuadrupedGuardConfig
    SAFE_MODE = QuadrupedMode.STAND
    TRANSITIONS = (
        Transition(CommonMode.DISARMED, CommonMode.POLICY, "armed, about standing"),
        Transition(CommonMode.DISARMED, QuadrupedMode.RISE, "armed in another posture"),
        Transition(QuadrupedMode.RISE, CommonMode.POLICY, "standing"),
        Transition(QuadrupedMode.RISE, QuadrupedMode.STAND, "no policy on time, no observation, a fault"),
        Transition(CommonMode.POLICY, QuadrupedMode.STAND, "late, no observation, a fault"),
        Transition(QuadrupedMode.STAND, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(QuadrupedMode.STAND, QuadrupedMode.CROUCH, "after stand_before_crouching_s, or asked to end"),
        Transition(CommonMode.POLICY, QuadrupedMode.CROUCH, "asked to end"),
        Transition(QuadrupedMode.RISE, QuadrupedMode.CROUCH, "asked to end"),
        Transition(QuadrupedMode.CROUCH, CommonMode.DISARMED, "crouching"),
    )
    ENDS = "fallen over"
    LIVE = frozenset({"tilt_rad"})
    config: QuadrupedGuardConfig

    def __init__(self, robot: Quadruped, config: QuadrupedGuardConfig | None = None) -> None:
        super().__init__(robot, config)
        self._limiter = QuadrupedTargetLimiter(robot, self.config)
        # a policy that asks for that has failed, and the robot would fall before its tilt shows it
        low, high = (np.array([getattr(drive, end) for drive in robot.drives]) for end in ("lower", "upper"))
        self._monitor.range = 2.0 * low - high, 2.0 * high - low
        self._fallback = PostureFallback(robot, self.config, self._limiter)
        self._joints: Array | None = None
        self._joints_t = -math.inf

    def on_joints(self, time_s: float, position: Array) -> None:
        """Process measured joint positions (joints,), rad; those that are not finite are ignored."""
        t = self._advance(time_s)
        if position.shape == (self.elements,) and np.isfinite(position).all():
            self._joints, self._joints_t = position, t

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Arm the robot; return whether it is armed, and the reason."""
        t = self._advance(time_s)
        timeout = self.config.observation_timeout_s
        if self.mode is CommonMode.DISARMED and (self._joints is None or t - self._joints_t > timeout):
            return False, f"no valid joint states within {timeout} s"
        return super().arm(time_s)

    def _broken_limit(self, seen: Observation) -> str:
        return broken_limit(seen, self.config)

    def _begin(self, t: float, seen: Observation) -> None:
        assert self._joints is not None  # it is not armed without them
        self._limiter.start(t, self._joints)
        if np.abs(self._joints - self.robot.standing).max() <= self.config.standing_within_rad:
            self._enter(CommonMode.POLICY, t, "armed standing")
        else:
            self._enter(QuadrupedMode.RISE, t, "armed")

    def _rest(self, t: float, reason: str) -> float:
        """Crouch."""
        if self.mode is not QuadrupedMode.CROUCH:
            self._enter(QuadrupedMode.CROUCH, t, reason)
        return self.config.rest_within_s

    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Continue from the last targets."""
        if self.mode in (CommonMode.POLICY, QuadrupedMode.RISE):
            self._enter_safe_mode(t, reason, may_return=True)
        return self._move(t, before)

    def _act(self, t: float, before: Mode, seen: Observation) -> Decision:
        """Answer the newest observation on the way to a posture, or switch to the mode that is due."""
        if seen.tilt_rad > self.config.fallen_rad:
            self._stop(f"fallen over: tilted by {seen.tilt_rad:.2f} rad; set it on its feet, then arm it")
            return self._off(before)
        if self.mode is QuadrupedMode.STAND:
            if broken := self._broken(seen):
                self._bar_policy(broken)
            if self._policy_is_back(t) and self.reset_policy():
                return self._hand_over(t, before, "the policy is on time again")
        return self._move(t, before)

    def _move(self, t: float, before: Mode) -> Decision:
        """Publish the next targets on the way to the posture of the mode."""
        if self.mode is QuadrupedMode.STAND and t - self._mode_t > self.config.stand_before_crouching_s:
            self._enter(QuadrupedMode.CROUCH, t, self.reason)
        crouches = self.mode is QuadrupedMode.CROUCH
        if (target := self._fallback.towards(t, crouches)) is not None:
            return self._command(before, LimitedCommand(target))
        if crouches:
            self._stop(f"crouching ({self.reason})")
            return self._off(before)
        if self.mode is QuadrupedMode.RISE:
            if not self._monitor.fresh(t):
                self._enter_safe_mode(t, "standing, no policy on time", may_return=True)
            elif self.reset_policy():
                return self._hand_over(t, before, "standing")
        return self._command(before, self._repeat(t))

    def _limit(self, t: float, wanted: Array) -> LimitedCommand:
        return self._limiter.pass_on(t, wanted)

    def _repeat(self, t: float) -> LimitedCommand:
        return LimitedCommand(self._limiter.publish(t, self._limiter.sent))


GUARD = QuadrupedGuard
