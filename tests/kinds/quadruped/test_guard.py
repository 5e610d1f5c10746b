"""The quadruped's guard: arming, limits of targets, standing and crouching in the policy's place, falls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.guard import CommonMode, Decision
from rlstack.guard.tightening import LiveLimits
from rlstack.kinds.quadruped.guard import QuadrupedGuard, QuadrupedMode
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import frames, load_robot

PERIOD_S = 0.02


def go1() -> Quadruped:
    robot = load_robot("go1")
    assert isinstance(robot, Quadruped)
    return robot


class Loop:
    """Observations at 50 Hz around a guard; the legs are at their targets at once."""

    def __init__(self, joints: Array | None = None, **settings: Any) -> None:
        robot = go1()
        self.guard = QuadrupedGuard(robot, QuadrupedGuardConfig.from_robot(robot, **settings))
        self.joints = robot.standing if joints is None else joints
        self.tilt_rad, self.seen, self.periods = 0.0, True, 0
        self.sent: list[Array] = []
        self.modes: list[str] = []

    @property
    def time_s(self) -> float:
        return self.periods * PERIOD_S

    def run(self, seconds: float, policy: Callable[[], Array] | None = None) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            self.periods += 1
            if self.seen:
                self.observe()
            else:
                self._take(self.guard.on_tick(self.time_s))
            if policy is not None:
                self._take(self.guard.on_policy_command(self.time_s, self.time_s, policy()))

    def observe(self) -> None:
        self.guard.on_joints(self.time_s, self.joints)
        turn = frames.from_rotation_vector(np.array([self.tilt_rad, 0.0, 0.0]))
        none = np.zeros(3)
        signals = {"position": none, "orientation": turn, "linear_velocity": none, "angular_velocity": none}
        self._take(self.guard.on_observation(self.time_s, self.time_s, signals))

    def arm(self) -> None:
        self.observe()
        armed, why = self.guard.arm(self.time_s)
        assert armed, why

    def _take(self, decision: Decision) -> None:
        if not self.modes or self.modes[-1] != str(decision.mode):
            self.modes.append(str(decision.mode))
        if decision.command is not None and decision.mode.role != "off":
            self.sent.append(decision.command)
            self.joints = decision.command


def test_a_standing_robot_is_the_policys_at_once() -> None:
    loop = Loop()
    assert loop.guard.arm(0.0) == (False, "no valid joint states within 0.2 s")
    loop.arm()
    assert loop.guard.mode is CommonMode.POLICY
    wanted = loop.joints + 0.1
    loop.run(0.2, lambda: wanted)
    np.testing.assert_allclose(loop.sent[-1], wanted)


def test_a_crouching_robot_rises_slowly_and_is_then_the_policys() -> None:
    loop = Loop(go1().crouching)
    loop.arm()
    assert loop.guard.mode is QuadrupedMode.RISE
    loop.run(2.0, lambda: go1().standing)
    assert loop.modes == ["disarmed", "rise", "policy"]
    assert np.abs(np.diff(loop.sent, axis=0)).max() <= 1.0 * PERIOD_S + 1e-9


def test_rising_without_a_policy_ends_in_standing() -> None:
    loop = Loop(go1().crouching)
    loop.arm()
    loop.run(2.0)
    assert loop.guard.mode is QuadrupedMode.STAND
    np.testing.assert_allclose(loop.sent[-1], go1().standing, atol=1e-6)


def test_targets_are_held_to_ranges_and_speeds() -> None:
    loop = Loop()
    loop.arm()
    beyond = np.array([1.5 * drive.upper - 0.5 * drive.lower for drive in go1().drives])
    loop.run(PERIOD_S, lambda: beyond)
    room = np.array([drive.velocity_max for drive in go1().drives]) * PERIOD_S
    upper = np.array([drive.upper for drive in go1().drives])
    np.testing.assert_allclose(loop.sent[-1], np.minimum(upper, go1().standing + room), atol=1e-5)
    loop.run(1.0, lambda: beyond)
    np.testing.assert_allclose(loop.sent[-1], upper)


def test_targets_far_beyond_the_ranges_end_the_policys_turn_before_the_robot_falls() -> None:
    loop = Loop()
    loop.arm()
    loop.run(0.1, lambda: go1().standing)
    loop.run(1.0, lambda: np.full(12, 9.0))
    assert loop.modes == ["disarmed", "policy", "stand"] and "far beyond the range" in loop.guard.reason
    np.testing.assert_allclose(loop.sent[-1], go1().standing, atol=1e-6)


def test_a_late_policy_is_stood_in_for_and_comes_back() -> None:
    loop = Loop()
    loop.arm()
    loop.run(0.5, lambda: go1().standing + 0.3)
    loop.run(0.5)
    assert loop.guard.mode is QuadrupedMode.STAND and "late" in loop.guard.reason
    np.testing.assert_allclose(loop.sent[-1], go1().standing, atol=0.2)
    loop.run(1.2, lambda: go1().standing)
    assert loop.modes == ["disarmed", "policy", "stand", "policy"] and loop.guard.interventions == 1


def test_a_policy_that_stays_away_ends_in_a_crouch_and_off() -> None:
    loop = Loop(stand_before_crouching_s=1.0)
    loop.arm()
    loop.run(0.5, lambda: go1().standing)
    loop.run(4.0)
    assert loop.modes == ["disarmed", "policy", "stand", "crouch", "disarmed"]
    np.testing.assert_allclose(loop.sent[-1], go1().crouching, atol=1e-6)


def test_without_observations_it_stands_and_crouches_all_the_same() -> None:
    loop = Loop(stand_before_crouching_s=0.5)
    loop.arm()
    loop.run(0.2, lambda: go1().standing + 0.2)
    loop.seen = False
    loop.run(4.0)
    assert loop.modes == ["disarmed", "policy", "stand", "crouch", "disarmed"]


def test_what_is_not_finite_never_passes_and_there_is_no_way_back() -> None:
    loop = Loop()
    loop.arm()
    loop.run(0.1, lambda: go1().standing)
    loop.run(2.0, lambda: np.full(12, np.nan))
    loop.run(2.0, lambda: go1().standing)
    assert loop.guard.mode is QuadrupedMode.STAND and np.isfinite(loop.sent).all()


def test_a_tilt_ends_the_policys_turn_and_a_fall_switches_off() -> None:
    loop = Loop()
    loop.arm()
    loop.run(0.1, lambda: go1().standing)
    loop.tilt_rad = 0.8
    loop.run(0.1, lambda: go1().standing)
    assert loop.guard.mode is QuadrupedMode.STAND and "tilted by 0.80 rad" in loop.guard.reason
    loop.tilt_rad = 1.4
    loop.run(0.1, lambda: go1().standing)
    assert loop.guard.mode is CommonMode.DISARMED and "fallen over" in loop.guard.reason
    assert not loop.guard.arm(loop.time_s)[0]


def test_the_emergency_stop_is_off_until_it_is_cleared() -> None:
    loop = Loop()
    loop.arm()
    loop.run(0.1, lambda: go1().standing)
    decision = loop.guard.estop("asked to")
    assert decision.mode is CommonMode.ESTOP and decision.command is not None
    loop.run(0.5, lambda: go1().standing)
    assert loop.guard.mode is CommonMode.ESTOP
    assert loop.guard.clear_estop()[0] and loop.guard.mode is CommonMode.DISARMED


def test_the_tilt_limit_is_not_widened() -> None:
    with pytest.raises(UserError, match=r"tilt_rad: 1\.0 is wider than robot 'go1' allows"):
        QuadrupedGuardConfig.from_robot(go1(), tilt_rad=1.0)


def test_a_limit_of_tilt_that_is_set_below_its_tilt_makes_it_stand_then_crouch() -> None:
    loop = Loop()
    loop.arm()
    loop.tilt_rad = 0.3
    loop.run(0.2, lambda: go1().standing)
    LiveLimits(loop.guard).change({"tilt_rad": 0.2})
    loop.run(8.0, lambda: go1().standing)
    assert loop.modes == ["disarmed", "policy", "stand", "crouch", "disarmed"]
    assert "tilted by 0.30 rad, over 0.20" in loop.guard.reason
