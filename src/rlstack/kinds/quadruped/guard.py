"""The quadruped's guard: who commands its legs, and what may be published."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.decision import CommonMode, Decision, Mode
from rlstack.guard.guard import Guard, LimitedCommand, Signals
from rlstack.guard.observation import Observation, parse
from rlstack.guard.watch import SLACK_S
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots.joints import clip_targets

_SAME_RAD = 1e-6
"""Rounding of targets, and of limits that a policy in float32 keeps itself."""


class QuadrupedMode(Mode):
    """Its own modes."""

    RISE = "rise", "normal"
    """The guard leads the legs to the standing posture after arming."""
    STAND = "stand", "intervention"
    """The guard leads the legs to the standing posture and holds it."""
    CROUCH = "crouch", "intervention"
    """The guard folds the legs, to switch off where there is nothing to fall from."""


class QuadrupedGuard(Guard[Observation]):
    """Owns the last word before the legs.

    Every target is finite, in the joints' ranges, and no further from the last than the joints' speeds allow. A command
    that is not finite, or late, is never passed on. Standing and crouching go on without observations, from the last
    targets: the joints' own loops hold them.

    ::

        DISARMED --arm, about standing--> POLICY;  --arm, elsewhere--> RISE --standing--> POLICY (or STAND)
        POLICY --late, no observation--> STAND --in time again for recover_after_s--> POLICY
        POLICY --tilted too far, malformed command--> STAND (no way back)
        STAND --stand_before_crouching_s--> CROUCH --crouching--> DISARMED
        any of the guard's modes --fallen over--> DISARMED;  any --estop--> ESTOP --clear_estop--> DISARMED

    Args:
        robot: The robot.
        config: Limits and times; the robot's own if None.
    """

    CONFIG = QuadrupedGuardConfig
    COMMAND = "joint_target"
    """The commanded signal: (joints,) rad."""

    def __init__(self, robot: Quadruped, config: QuadrupedGuardConfig | None = None) -> None:
        self.robot = robot
        self.config = config or QuadrupedGuardConfig.from_robot(robot)
        super().__init__(self.config, len(robot.drives))
        self._fastest = np.array([drive.velocity_max for drive in robot.drives])
        self._joints: Array | None = None
        self._joints_t = -math.inf
        self._sent = robot.standing
        self._sent_t = 0.0

    @property
    def tick_s(self) -> float:
        """One control period: standing goes on without observations."""
        return self.config.period_s

    def on_joints(self, time_s: float, position: Array) -> None:
        """Take in measured joints (joints,), rad; those that are not finite are ignored."""
        t = self._advance(time_s)
        if position.shape == (self.elements,) and np.isfinite(position).all():
            self._joints, self._joints_t = position, t

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Let the robot move; return whether it may, and why (not)."""
        t = self._advance(time_s)
        timeout = self.config.observation_timeout_s
        if self.mode is CommonMode.DISARMED and (self._joints is None or t - self._joints_t > timeout):
            return False, f"no valid joint states within {timeout} s"
        return super().arm(time_s)

    def _parse(self, stamp_s: float, signals: Signals) -> Observation | str:
        return parse(stamp_s, signals)

    def _broken(self, seen: Observation) -> str:
        if seen.tilt_rad <= self.config.tilt_rad:
            return ""
        return f"tilted by {seen.tilt_rad:.2f} rad, over {self.config.tilt_rad:.2f}"

    def _begin(self, t: float, seen: Observation) -> None:
        assert self._joints is not None  # it is not armed without them
        self._sent, self._sent_t = clip_targets(self.robot.drives, self._joints), t
        if np.abs(self._joints - self.robot.standing).max() <= self.config.standing_within_rad:
            self._enter(CommonMode.POLICY, t, "armed standing")
        else:
            self._enter(QuadrupedMode.RISE, t, "armed")

    def _hold(self, t: float, reason: str, may_return: bool) -> None:
        self._watch.forget()
        self._may_return = may_return
        self._enter(QuadrupedMode.STAND, t, reason)

    def _blind(self, t: float, before: Mode, silent_s: float) -> Decision:
        """Go on from the last targets."""
        if self.mode in (CommonMode.POLICY, QuadrupedMode.RISE):
            self._hold(t, f"no valid observation for {silent_s:.2f} s: {self._refused_observation}", may_return=True)
        return self._lead(t, before)

    def _act(self, t: float, before: Mode) -> Decision:
        """Answer the newest observation on the way to a posture, or move on to the mode that is due."""
        seen = self._seen
        assert seen is not None  # nothing is armed without an observation
        if seen.tilt_rad > self.config.fallen_rad:
            self._stop(f"fallen over: tilted by {seen.tilt_rad:.2f} rad")
            return self._off(before)
        if self.mode is QuadrupedMode.STAND and self._broken(seen) and self._may_return:
            self._may_return, self.reason = False, self._broken(seen)
        good = self._may_return and self._watch.good_for_s(t) + SLACK_S >= self.config.recover_after_s
        if self.mode is QuadrupedMode.STAND and good and self._watch.fresh(t):
            return self._hand_over(t, before, "the policy is in time again")
        return self._lead(t, before)

    def _lead(self, t: float, before: Mode) -> Decision:
        """Publish the next targets on the way to the posture of the mode."""
        config, robot = self.config, self.robot
        if self.mode is QuadrupedMode.STAND and t - self._mode_t > config.stand_before_crouching_s:
            self._enter(QuadrupedMode.CROUCH, t, self.reason)
        crouches = self.mode is QuadrupedMode.CROUCH
        way = (robot.crouching if crouches else robot.standing) - self._sent
        furthest = float(np.abs(way).max())
        if furthest > _SAME_RAD:
            room = config.posture_speed_rad_s * self._since_s(t)
            return self._say(before, self._publish(t, self._sent + way * min(1.0, room / furthest)))
        if crouches:
            self._stop(f"crouching ({self.reason})")
            return self._off(before)
        if self.mode is QuadrupedMode.RISE:
            if self._watch.fresh(t):
                return self._hand_over(t, before, "standing")
            self._hold(t, "standing, no policy in time", may_return=True)
        return self._say(before, self._again(t))

    def _pass_on(self, t: float, wanted: Array) -> LimitedCommand:
        held = clip_targets(self.robot.drives, wanted)
        reasons = ["joint range"] if (np.abs(held - wanted) > _SAME_RAD).any() else []
        room = self._fastest * self._since_s(t) + _SAME_RAD
        slowed = np.clip(held, self._sent - room, self._sent + room)
        if (slowed != held).any():
            reasons.append("joint speed")
        return self._publish(t, slowed)._replace(clipped=bool(reasons), held_for=", ".join(reasons))

    def _again(self, t: float) -> LimitedCommand:
        return self._publish(t, self._sent)

    def _since_s(self, t: float) -> float:
        """Return the time whose motion may be made up for at once, s: since the last targets, a period at least."""
        return min(max(t - self._sent_t, self.config.period_s), self.config.staleness_s)

    def _publish(self, t: float, target: Array) -> LimitedCommand:
        self._sent, self._sent_t = target, t
        return LimitedCommand(target.copy())


GUARD = QuadrupedGuard
