"""Guard of a wheeled base: limits twists, brakes for obstacles and runs the fallback planner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.guard.decision import CommonMode, Decision, Mode, Transition
from rlstack.guard.guard import Guard, LimitedCommand, Signals
from rlstack.guard.observation import Observation, parse
from rlstack.guard.policy_monitor import SLACK_S
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.guard_fallback import PlannerFallback, load_planner
from rlstack.kinds.wheeled_base.guard_geofence import Geofence
from rlstack.kinds.wheeled_base.guard_limits import TwistLimiter, broken_limit, forward_m_s, jump
from rlstack.kinds.wheeled_base.guard_protective_stop import ProtectiveStop
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots.spec import STANDARD_GRAVITY

if TYPE_CHECKING:
    from rlstack.control.navigation import Planner

_STANDS_M_S, _STANDS_RAD_S = 0.02, 0.05
"""Speeds below which a base counts as standing, above the noise of its encoders."""
_LAG_S = 1.0
"""How long after its commands a base has slowed down, at the latest."""


class WheeledBaseMode(Mode):
    """Modes of a wheeled base's guard."""

    STOP = "stop", "intervention"
    """The guard brakes and stands still."""
    FALLBACK = "fallback", "intervention"
    """A classical planner drives instead of the policy."""


class WheeledBaseGuard(Guard[Observation]):
    """Limits twist commands and takes over from the policy when it fails.

    Every published command is finite, within the base's limits and within its acceleration of the one before; only
    disarming and the emergency stop (zeros) are immediate. Obstacles in the newest scan and the geofence slow the base
    or stop it, while turning away and backing off remain possible.

    The modes and their transitions are :attr:`TRANSITIONS`.

    See :class:`rlstack.guard.guard.Guard`; the third argument is a planner that drives when the policy cannot, None for
    a robot that stops.
    """

    CONFIG = WheeledBaseGuardConfig
    SAFE_MODE = WheeledBaseMode.STOP
    TRANSITIONS = (
        Transition(CommonMode.DISARMED, CommonMode.POLICY, "armed"),
        Transition(CommonMode.POLICY, WheeledBaseMode.STOP, "late, no scan or odometry, a fault, asked to end"),
        Transition(CommonMode.POLICY, WheeledBaseMode.FALLBACK, "the policy is at fault, and there is a planner"),
        Transition(WheeledBaseMode.STOP, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(WheeledBaseMode.FALLBACK, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(WheeledBaseMode.FALLBACK, WheeledBaseMode.STOP, "the planner cannot, a fault, asked to end"),
        Transition(WheeledBaseMode.STOP, CommonMode.DISARMED, "standing after a fault, or for long"),
    )
    LIVE = frozenset(
        {
            *("tilt_rad", "linear_velocity_m_s", "angular_velocity_rad_s", "linear_acceleration_m_s2"),
            *("angular_acceleration_rad_s2", "linear_jerk_m_s3", "angular_jerk_rad_s3"),
            *("geofence_min_m", "geofence_max_m", "clearance_m"),
        }
    )
    config: WheeledBaseGuardConfig

    def __init__(
        self, robot: WheeledBase, config: WheeledBaseGuardConfig | None = None, planner: Planner | None = None
    ) -> None:
        super().__init__(robot, config)
        self.protective_stop = ProtectiveStop(robot, self.config)
        self.fallback = PlannerFallback(planner)
        self._geofence = Geofence(robot, self.config)
        self._limiter = TwistLimiter(self.config, self.protective_stop, self._geofence)
        self._slowing, self._slowing_until_t = self.config, -math.inf
        self._grip_m_s2 = max(robot.contact.wheel_friction, 1.0) * STANDARD_GRAVITY
        self._scan_t = -math.inf
        self._refused_scan = "none has arrived"
        self._jumped = ""

    @classmethod
    def from_parameters(
        cls, robot: WheeledBase, config: WheeledBaseGuardConfig, parameters: Mapping[str, Any]
    ) -> WheeledBaseGuard:
        """Return the guard with the planner of the parameter ``fallback``."""
        return cls(robot, config, load_planner(parameters["fallback"], robot))

    @property
    def needs_scan(self) -> bool:
        """Whether missing scans stop it."""
        return self.protective_stop.lidar is not None

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Arm the robot; return whether it is armed, and the reason."""
        t = self._advance(time_s)
        if self.mode is CommonMode.DISARMED and self._seen is not None and self._scan_late(t):
            return False, f"no valid scan within {self.config.scan_timeout_s:g} s: {self._refused_scan}"
        if self.mode is CommonMode.DISARMED and self._seen is not None:
            self._geofence.begin(self._seen)
        return super().arm(time_s)

    # Inputs besides odometry and commands.

    def on_scan(self, time_s: float, stamp_s: float, ranges: ArrayLike, *, answer: bool = True) -> Decision:
        """Process a scan; slow down at once for obstacles, unless ``answer`` is false (lock step).

        Args:
            time_s: Now, s.
            stamp_s: Time of the scan, s.
            ranges: (rays,) m of the robot file's lidar, as the signal ``scan`` has them.
        """
        before, t = self.mode, self._advance(time_s)
        before_s = self.protective_stop.stamp_s
        age, timeout = self._clock.source_s - stamp_s, self.config.scan_timeout_s
        if not abs(age) <= timeout:
            problem = f"the scan's stamp is {age:.3f} s old, more than {timeout:g} s from now"
        elif stamp_s < self.protective_stop.stamp_s:
            problem = f"the scan's stamp goes back ({stamp_s:.3f} after {self.protective_stop.stamp_s:.3f} s)"
        else:
            problem = self.protective_stop.process_scan(stamp_s, ranges)
        if problem:
            self._refused_scan = problem
            return self._tick(t, before, note=problem) if answer else self._no_command(before, problem)
        if stamp_s > before_s:  # the same scan again is no newer
            self._scan_t = t
        self.fallback.receive({"scan": ranges})
        if not answer:
            return self._no_command(before, self.reason)
        if self.mode is CommonMode.POLICY and self._seen is not None and not self._is_late(t):
            slower = self._limiter.slow_down(t, self._seen)
            if slower is not None:
                return self._command(before, slower)
        return self._tick(t, before)

    def on_signals(self, signals: Mapping[str, NDArray[np.floating]]) -> None:
        """Store the planner's other inputs, such as ``goal_position``."""
        self.fallback.receive(signals)

    def on_observation(self, time_s: float, stamp_s: float, signals: Signals, *, restarted: bool = False) -> Decision:
        """Process an observation; see :meth:`Guard.on_observation`."""
        self.fallback.receive(signals)
        return super().on_observation(time_s, stamp_s, signals, restarted=restarted)

    # Mode transitions.

    def _forget_stamps(self) -> None:
        super()._forget_stamps()
        self.protective_stop.forget()

    def _parse(self, stamp_s: float, signals: Signals) -> Observation | str:
        seen = parse(stamp_s, signals)
        if isinstance(seen, str):
            return seen
        self._jumped = "" if self._seen is None else jump(self._seen, seen, self.config, self._grip_m_s2)
        if self._jumped:
            self.protective_stop.forget()
            self._scan_t = -math.inf
        self.protective_stop.add_pose(seen)
        self._geofence.follow(seen)
        return seen

    def _broken_limit(self, seen: Observation) -> str:
        return self._jumped or broken_limit(seen, self._measured_within) or self._geofence.broken(seen)

    @property
    def _measured_within(self) -> WheeledBaseGuardConfig:
        """The limits of what is measured: while the base slows down to other limits of speed, the former ones."""
        return self._slowing if self._clock.elapsed_s < self._slowing_until_t else self.config

    def adopt(self, config: WheeledBaseGuardConfig) -> None:
        """Take a configuration that differs in its limits; see :meth:`Guard.adopt`.

        A base that is faster is slowed down as it is at any limit; its measured speed may exceed the new limits until
        then. One that is outside the new geofence stops, and passes only motion towards the inside.
        """
        before = self._measured_within
        super().adopt(config)
        self._limiter.adopt(config, self._seen if self.mode.role != "off" else None)
        self._slowing = replace(
            config,
            linear_velocity_m_s=max(config.linear_velocity_m_s, before.linear_velocity_m_s),
            angular_velocity_rad_s=max(config.angular_velocity_rad_s, before.angular_velocity_rad_s),
        )
        slows_s = self._limiter.slows_within_s(before)
        self._slowing_until_t = self._clock.elapsed_s + slows_s + _LAG_S if slows_s else -math.inf

    def _begin(self, t: float, seen: Observation) -> None:
        self._limiter.start(t, seen)
        self._enter(CommonMode.POLICY, t, "armed")

    def _scan_late(self, t: float) -> bool:
        return self.needs_scan and t - self._scan_t > self.config.scan_timeout_s + SLACK_S

    def _is_late(self, t: float) -> bool:
        return self._scan_late(t) or super()._is_late(t)

    def _lateness(self, t: float) -> str:
        if self._scan_late(t):
            return f"no valid scan for {t - self._scan_t:.2f} s: {self._refused_scan}"
        return super()._lateness(t)

    def _enter_safe_mode(self, t: float, reason: str, may_return: bool) -> None:
        super()._enter_safe_mode(t, reason, may_return)
        if self.fallback.planner is not None and not self._broken(self._newest) and not self._scan_late(t):
            if cannot := self.fallback.start():
                self.reason = f"{reason}; {cannot}"
            else:
                self._enter(WheeledBaseMode.FALLBACK, t, reason)

    def _rest(self, t: float, reason: str) -> float:
        """Brake."""
        if self.mode is not WheeledBaseMode.STOP:
            self._enter(WheeledBaseMode.STOP, t, reason)
        return self.config.rest_within_s

    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Handle missing observations: a controlled stop needs no odometry."""
        if self.mode is not WheeledBaseMode.STOP:
            super()._enter_safe_mode(t, reason, self._may_return or self.mode is CommonMode.POLICY)
        if self._limiter.stopped and t - self._mode_t > self.config.stand_before_disarming_s:
            self._stop(f"stopped for {t - self._mode_t:.0f} s ({self.reason})")
            return self._off(before)
        return self._command(before, self._brake(t))

    def _act(self, t: float, before: Mode, seen: Observation) -> Decision:
        """Answer the newest observation by braking or with the planner, or switch to the mode that is due."""
        if broken := self._broken(seen):
            self._bar_policy(broken)
        if self.mode is WheeledBaseMode.FALLBACK and (broken or self._scan_late(t)):
            self._enter(WheeledBaseMode.STOP, t, broken or self._lateness(t))
        if self._policy_is_back(t) and not self._scan_late(t) and self.reset_policy():
            return self._hand_over(t, before, "everything is on time again")
        if self.mode is WheeledBaseMode.FALLBACK:
            command = self.fallback.command(t)
            if not isinstance(command, str):
                return self._command(before, self._limiter.pass_on(t, command, seen))
            self._enter(WheeledBaseMode.STOP, t, f"{self.reason}; {command}")
        stands = abs(forward_m_s(seen)) < _STANDS_M_S and abs(seen.angular_velocity[2]) < _STANDS_RAD_S
        waited = t - self._mode_t > (self.config.stand_before_disarming_s if self._may_return else 0.0)
        if self._limiter.stopped and stands and waited:
            self._stop(self.reason)
            return self._off(before)
        return self._command(before, self._brake(t))

    # Decisions.

    def _limit(self, t: float, wanted: NDArray[np.float64]) -> LimitedCommand:
        return self._limiter.pass_on(t, wanted.tolist(), self._newest)

    def _repeat(self, t: float) -> LimitedCommand:
        return self._brake(t) if self.mode is WheeledBaseMode.STOP else LimitedCommand(np.array(self._limiter.sent))

    def _brake(self, t: float) -> LimitedCommand:
        return LimitedCommand(np.array(self._limiter.brake(t)))


GUARD = WheeledBaseGuard
