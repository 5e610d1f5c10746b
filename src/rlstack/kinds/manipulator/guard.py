"""Guard of a manipulator: limits joint targets, holds the arm and parks it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.decision import CLOCK_JUMPED, CommonMode, Decision, Mode, Transition
from rlstack.guard.guard import Guard, LimitedCommand, Signals
from rlstack.guard.observation import read_signals
from rlstack.kinds.manipulator.guard_collision import CollisionModel
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.guard_fallback import ParkingFallback
from rlstack.kinds.manipulator.guard_limits import ManipulatorTargetLimiter
from rlstack.kinds.manipulator.spec import Manipulator

_JITTER_S, _GAP_S = 0.05, 0.1
"""A joint was misread if it moved further than its top speed allows in the time since the last observation (at most the
second) plus a margin for inexact stamps (the first). Once the last observation is too old, any reading is accepted."""


@dataclass(frozen=True)
class JointsSeen:
    """The joints at one stamp.

    Args:
        stamp_s: Measurement time, s.
        position: (joints,) rad or m.
        velocity: (joints,) rad/s or m/s.
    """

    stamp_s: float
    position: Array
    velocity: Array


_RESET_JUMP = 0.1
"""Rad or m: joints that are this far from where the old clock saw them were put there by a reset."""


class ManipulatorMode(Mode):
    """Modes of a manipulator's guard."""

    HOLD = "hold", "intervention"
    """The guard keeps the joints at their last targets."""
    PARK = "park", "intervention"
    """The guard moves the arm slowly to its rest position."""


class ManipulatorGuard(Guard[JointsSeen]):
    """Limits joint targets and takes over from the policy when it fails.

    Published targets are finite and within the joints' ranges, speeds and efforts; they keep the tool in the
    workspace and the arm clear of itself. Targets beyond a limit are limited; a non-finite or late command is never
    published.

    The modes and their transitions are :attr:`TRANSITIONS`.

    See :class:`rlstack.guard.guard.Guard`.

    Raises:
        UserError: The model that defines its kinematics cannot be read.
    """

    CONFIG = ManipulatorGuardConfig
    OBSERVED = ("joint_position", "joint_velocity")
    SAFE_MODE = ManipulatorMode.HOLD
    TRANSITIONS = (
        Transition(CommonMode.DISARMED, CommonMode.POLICY, "armed"),
        Transition(CommonMode.POLICY, ManipulatorMode.HOLD, "late, no joint states, a fault"),
        Transition(ManipulatorMode.HOLD, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(ManipulatorMode.HOLD, ManipulatorMode.PARK, "after hold_before_parking_s"),
        Transition(ManipulatorMode.HOLD, CommonMode.DISARMED, "after hold_before_parking_s without joint states"),
        Transition(ManipulatorMode.PARK, CommonMode.POLICY, "on time again; not after a fault"),
        Transition(ManipulatorMode.PARK, ManipulatorMode.HOLD, "no joint states"),
        Transition(ManipulatorMode.PARK, CommonMode.DISARMED, "at rest"),
    )
    ENDS = "reset in a simulation"
    LIVE = frozenset(
        {"workspace_min_m", "workspace_max_m", "tool_velocity_m_s", "joint_speed", "speed_up_s", "apart_m"}
    )
    config: ManipulatorGuardConfig

    def __init__(self, robot: Manipulator, config: ManipulatorGuardConfig | None = None) -> None:
        super().__init__(robot, config)
        self.body = CollisionModel(robot)
        self._limiter = ManipulatorTargetLimiter(robot, self.config, self.body)
        self._fallback = ParkingFallback(robot, self.config, self._limiter)
        # fingers are light and move fast where nothing is between them
        fastest = np.array([drive.velocity_max for drive in robot.drives])
        fastest[np.isin(np.arange(len(fastest)), self.body.arm, invert=True)] = np.inf
        self._fastest = self.config.overspeed * fastest
        self._names = [drive.name for drive in robot.drives]

    @property
    def notes(self) -> str:
        """What it cannot check, as a sentence; empty if it checks everything."""
        if not self.config.self_collision or not self.body.blind:
            return ""
        return f"The arm is not kept from touching itself: {self.body.blind}"

    def _parse(self, stamp_s: float, signals: Signals) -> JointsSeen | str:
        found = read_signals(signals, dict.fromkeys(self.OBSERVED, self.elements))
        if isinstance(found, str):
            return found
        seen = JointsSeen(stamp_s, *map(np.array, found))
        since_s = stamp_s - self._newest_stamp_s
        if self._seen is not None and since_s <= self.config.observation_timeout_s:
            most = self._fastest * (min(since_s, _GAP_S) + _JITTER_S)
            over = np.abs(seen.position - self._seen.position) - most
            if over[k := int(np.argmax(over))] > 0.0:
                return (
                    f"{self._names[k]} is at {seen.position[k]:.2f} and was at {self._seen.position[k]:.2f} (rad or m)"
                    f" {since_s:.3f} s before: it cannot have moved that far"
                )
        return seen

    def arm(self, time_s: float) -> tuple[bool, str]:
        """Arm the robot; return whether it is armed, and the reason."""
        seen = self._seen
        if self.mode is CommonMode.DISARMED and seen is not None:
            strain = self._limiter.strain(seen.position)
            k = int(np.argmax(strain))
            if strain[k] > 1.0:
                drive = self.robot.drives[k]
                return False, (
                    f"{drive.name} is at {seen.position[k]:.2f}, out of its range, {drive.lower:.2f} to"
                    f" {drive.upper:.2f} (rad or m), into which it would be pulled with more than its effort: move it"
                    " there by hand, or check that its zero is the robot file's"
                )
        return super().arm(time_s)

    def adopt(self, config: ManipulatorGuardConfig) -> None:
        """Take a configuration that differs in its limits; see :meth:`Guard.adopt`.

        An arm that is faster is slowed down at once; one that is outside the new workspace, or closer to itself than
        allowed, passes only targets that lead back.
        """
        super().adopt(config)
        self._limiter.adopt(config)

    def _broken_limit(self, seen: JointsSeen) -> str:
        """Return which joint is far too fast, or an empty string."""
        over = np.abs(seen.velocity) - self._fastest
        k = int(np.argmax(over))
        if over[k] <= 0.0:
            return ""
        return (
            f"{self._names[k]} moves at {seen.velocity[k]:.2f}, over {self._fastest[k]:.2f} (rad/s or m/s): look for a"
            " push, a load that slips or a wrong reading, then arm it"
        )

    def _begin(self, t: float, seen: JointsSeen) -> None:
        self._limiter.start(t, seen.position)
        self._enter(CommonMode.POLICY, t, "armed")

    def _on_missing_observations(self, t: float, before: Mode, reason: str) -> Decision:
        """Handle missing observations: holding works without joint states, parking does not."""
        if self.mode is not ManipulatorMode.HOLD:
            self._enter_safe_mode(t, reason, self._may_return or self.mode is CommonMode.POLICY)
        if t - self._mode_t > self.config.hold_before_parking_s:
            self._stop(f"held for {t - self._mode_t:.0f} s ({self.reason})")
            return self._off(before)
        return self._command(before, self._repeat(t))

    def _on_clock_jump(self, t: float, before: Mode, previous: JointsSeen | None, seen: JointsSeen) -> Decision:
        """Hold still; switch off where the joints have jumped, too: a reset, after which old targets are elsewhere."""
        if previous is None or np.abs(seen.position - previous.position).max() > _RESET_JUMP:
            self._stop(f"{CLOCK_JUMPED}, and the joints with it")
            return self._off(before)
        return super()._on_clock_jump(t, before, previous, seen)

    def _act(self, t: float, before: Mode, seen: JointsSeen) -> Decision:
        """Answer the newest observation by holding or parking, or switch to the mode that is due."""
        if broken := self._broken(seen):
            self._bar_policy(broken)
        if self._policy_is_back(t) and self.reset_policy():
            return self._hand_over(t, before, "everything is on time again")
        if self.mode is ManipulatorMode.HOLD and t - self._mode_t > self.config.hold_before_parking_s:
            if not self.config.park:
                self._stop(f"held for {t - self._mode_t:.0f} s ({self.reason})")
                return self._off(before)
            self._enter(ManipulatorMode.PARK, t, self.reason)
        if self.mode is ManipulatorMode.PARK:
            target, over = self._fallback.towards_rest(t)
            if over:
                self._stop(f"parked ({self.reason})")
                return self._off(before)
            return self._command(before, LimitedCommand(target))
        return self._command(before, self._repeat(t))

    def _limit(self, t: float, wanted: Array) -> LimitedCommand:
        return self._limiter.pass_on(t, wanted, self._newest.position, self._newest.velocity)

    def _repeat(self, t: float) -> LimitedCommand:
        return LimitedCommand(self._limiter.hold(t))


GUARD = ManipulatorGuard
