"""Guard of a quadrotor: limits rotor commands and flies the fallback."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rlstack.guard.decision import CommonMode, Decision, Mode
from rlstack.guard.guard import Guard, LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.guard_fallback import HoverFallback
from rlstack.kinds.quadrotor.guard_limits import broken_limit
from rlstack.kinds.quadrotor.spec import Quadrotor


class QuadrotorMode(Mode):
    """Modes of a quadrotor's guard."""

    TAKEOFF = "takeoff", "normal"
    """The guard climbs to the take-off height."""
    HOVER = "hover", "intervention"
    """The guard holds the position."""
    LAND = "land", "intervention"
    """The guard descends until it touches the floor."""


class QuadrotorGuard(Guard[Observation]):
    """Limits rotor commands and takes over from the policy when it fails.

    Every published command is finite, within the rotors' limits and within the rate limit of the one before; only
    stopping the motors (zeros) is immediate.

    ::

        DISARMED --arm on the ground--> TAKEOFF --at height--> POLICY (or HOVER while the policy is not on time)
        DISARMED --arm in the air-----> POLICY
        POLICY --late--> HOVER --on time again for recover_after_s--> POLICY
        POLICY --limit broken, malformed command--> HOVER (no way back)
        HOVER --hover_before_landing_s--> LAND --on the floor--> DISARMED
        any armed mode --no valid observation--> DISARMED;  any --estop--> ESTOP --clear_estop--> DISARMED

    See :class:`rlstack.guard.guard.Guard`.
    """

    CONFIG = QuadrotorGuardConfig
    COMMAND = "rotor_speed"  # (rotors,) rad/s
    SAFE_MODE = QuadrotorMode.HOVER
    config: QuadrotorGuardConfig

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig | None = None) -> None:
        super().__init__(robot, config)
        self._fallback = HoverFallback(robot, self.config)
        self._upright_t = 0.0

    def _broken_limit(self, seen: Observation) -> str:
        return broken_limit(seen, self.config)

    @property
    def tick_s(self) -> float:
        """When a policy's command is stale: nothing flies without observations."""
        return self.config.staleness_s

    def _begin(self, t: float, seen: Observation) -> None:
        flying = self._is_flying(seen)
        self._fallback.start(t, flying)
        self._upright_t = t
        if flying:
            self._enter(CommonMode.POLICY, t, "armed in the air")
        else:
            self._fallback.climb(seen, self.config.takeoff_height_m)
            self._enter(QuadrotorMode.TAKEOFF, t, "armed on the ground")

    def _is_flying(self, seen: Observation) -> bool:
        return seen.position[2] - self.config.floor_m >= self.config.airborne_height_m

    def _limit(self, t: float, wanted: NDArray[np.float64]) -> LimitedCommand:
        return self._fallback.pass_on(t, wanted.tolist())

    def _repeat(self, t: float) -> LimitedCommand:
        return self._fallback.pass_on(t, self._fallback.limiter.sent)

    def _on_malformed_command(self, t: float, problem: str) -> None:
        if self.mode is QuadrotorMode.TAKEOFF:
            self._enter_safe_mode(t, problem, may_return=False)
        elif self.mode is QuadrotorMode.HOVER:
            super()._on_malformed_command(t, problem)

    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Stop the motors: a quadrotor cannot fly without observations."""
        grounded = self.mode is QuadrotorMode.TAKEOFF and not self._is_flying(self._newest)
        self._stop(reason)
        self.stopped_unseen = grounded
        return self._off(before)

    def _enter_safe_mode(self, t: float, reason: str, may_return: bool) -> None:
        self._fallback.hold(self._newest)
        self._upright_t = t
        super()._enter_safe_mode(t, reason, may_return)

    def _act(self, t: float, before: Mode, seen: Observation) -> Decision:
        """Answer the newest observation with the classical controller, or switch to the mode that is due."""
        config, in_mode_s = self.config, t - self._mode_t
        if seen.tilt_rad < 0.5 * math.pi:
            self._upright_t = t
        elif t - self._upright_t > config.tumble_s:
            self._stop(f"on its side or back for {t - self._upright_t:.1f} s")
            return self._off(before)
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
        elif self.mode is QuadrotorMode.HOVER:
            if self._policy_is_back(t) and not self._broken(seen) and self.reset_policy():
                return self._hand_over(t, before, "the policy is on time again")
            if in_mode_s >= config.hover_before_landing_s or self.battery.critical:
                self._fallback.descend()
                self._enter(QuadrotorMode.LAND, t, self.battery.critical or self.reason)
        passed, landed = self._fallback.fly(t, seen)
        if landed:
            self._stop(f"landed ({self.reason})")
            return self._off(before)
        return self._command(before, passed)


GUARD = QuadrotorGuard
