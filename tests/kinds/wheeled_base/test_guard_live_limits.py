"""Limits of a base that are tightened while it drives, beyond where it is: it slows down and drives on."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.guard import CommonMode
from rlstack.guard.tightening import LiveLimits
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard, WheeledBaseMode
from tests.kinds.wheeled_base.guard_loop import Rolling, turtlebot
from tests.kinds.wheeled_base.test_guard import FORWARD, FRONT_M, rolling

LATE = {"delay": 1, "lag_s": 0.15}


def late(wall_x: float = 1e3) -> Rolling:
    """Return a base that follows its commands late, and drives forward."""
    loop = Rolling(WheeledBaseGuard(turtlebot()), wall_x, **LATE)
    loop.arm()
    loop.run(1.5, lambda seen: FORWARD)
    assert loop.motion[0] > 0.2
    return loop


def test_a_lower_speed_slows_it_down_within_its_acceleration_and_the_policy_goes_on() -> None:
    loop = late()
    LiveLimits(loop.guard).change({"linear_velocity_m_s": 0.05, "angular_velocity_rad_s": 0.5})
    told = len(loop.commands)
    loop.run(3.0, lambda seen: (0.22, 2.0))
    np.testing.assert_allclose(loop.commands[-1], [0.05, 0.5])
    assert np.abs(np.diff(loop.commands[told - 1 :], axis=0))[:, 0].max() <= 0.1 + 1e-9  # 1 m/s^2 for 0.1 s
    assert {str(decision.mode) for decision in loop.decisions[-50:]} == {"policy"} and loop.guard.interventions == 0


def test_a_base_that_does_not_slow_down_is_stopped() -> None:
    loop = rolling()
    LiveLimits(loop.guard).change({"linear_velocity_m_s": 0.05})
    for _ in range(20):
        loop.motion = np.array([0.22, 0.0])  # a runaway wheel
        loop.sense()
        loop.take(loop.guard.on_policy_command(loop.time_s, loop.time_s, FORWARD))
        loop.time_s += loop.period_s
    assert loop.guard.mode is WheeledBaseMode.STOP and "over 0.08 m/s" in loop.guard.reason


@pytest.mark.parametrize("back_m", [0.03, 0.6, 1.8])
def test_a_fence_that_leaves_it_outside_stops_it_and_lets_it_drive_back_in(back_m: float) -> None:
    loop = late()
    loop.run(8.0, lambda seen: FORWARD)
    high = loop.pose[0] - back_m
    assert high > 0.1
    LiveLimits(loop.guard).change({"geofence_max_m": (high, 5.0)})
    furthest = loop.pose[0]
    loop.run(2.0, lambda seen: FORWARD)
    assert loop.guard.mode is CommonMode.POLICY and loop.motion[0] == pytest.approx(0.0, abs=1e-3)
    assert loop.pose[0] - furthest < 0.09 and loop.commands[-1][0] == 0.0
    loop.run(1.0 + (back_m + 0.2) / 0.2, lambda seen: -FORWARD)
    assert loop.guard.mode is CommonMode.POLICY and loop.pose[0] < high and loop.guard.interventions == 0
    loop.run(5.0, lambda seen: FORWARD)  # inside, the whole fence counts again
    assert loop.guard.mode is CommonMode.POLICY and loop.pose[0] <= high


def test_a_lower_acceleration_does_not_make_it_hit_what_it_has_come_near_to() -> None:
    loop = late(wall_x=1.2)
    while 1.2 - loop.pose[0] - FRONT_M > 0.2:
        loop.run(0.1, lambda seen: FORWARD)
    limits = LiveLimits(loop.guard)
    limits.change({"linear_acceleration_m_s2": 0.02})
    loop.run(3.0, lambda seen: FORWARD)
    assert loop.pose[0] + FRONT_M < 1.2 and loop.motion[0] == pytest.approx(0.0, abs=1e-3)
    back = len(loop.commands)
    loop.run(4.0, lambda seen: -FORWARD)
    steps = np.diff(loop.commands[back - 1 :], axis=0)[:, 0]
    assert np.abs(steps).max() == pytest.approx(0.002)  # 0.02 m/s^2 for 0.1 s
    loop.run(2.0, lambda seen: [0.0, 0.0])  # braking, too, since it stood
    assert np.abs(np.diff(loop.commands[back - 1 :], axis=0)[:, 0]).max() == pytest.approx(0.002)
    limits.change({"linear_acceleration_m_s2": 1.0})
    assert loop.guard.mode is CommonMode.POLICY


def test_a_lower_jerk_and_a_larger_clearance_apply_at_once() -> None:
    loop = rolling(wall_x=1.0, seconds=0.5)
    LiveLimits(loop.guard).change({"linear_jerk_m_s3": 0.5, "clearance_m": 0.3})
    loop.run(6.0, lambda seen: FORWARD)
    assert 1.0 - loop.pose[0] - FRONT_M > 0.28
    fresh = rolling(seconds=0.0)
    LiveLimits(fresh.guard).change({"linear_jerk_m_s3": 0.5})
    fresh.run(0.3, lambda seen: FORWARD)
    assert fresh.commands[0][0] == pytest.approx(0.005) and fresh.commands[-1][0] < 0.05
