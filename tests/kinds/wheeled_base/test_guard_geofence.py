"""A base at its geofence: it slows down and stands, drives back in from outside, and no ordinary goal ends its run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlstack.guard import CommonMode
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard, WheeledBaseMode
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from tests.kinds.wheeled_base.guard_loop import Array, Rolling, turtlebot

ROBOT = turtlebot()
TOP_M_S = ROBOT.limits.linear_velocity_m_s
BOX: dict[str, Any] = {"geofence_min_m": (-1.0, -1.0), "geofence_max_m": (1.0, 1.0)}


def fenced(start: tuple[float, float, float] = (0.0, 0.0, 0.0), robot: WheeledBase = ROBOT, **lags: Any) -> Rolling:
    config = WheeledBaseGuardConfig.from_robot(robot, protective_stop=False, **BOX)
    return Rolling(WheeledBaseGuard(robot, config), start=start, **lags)


def pursue(x: float, y: float, top_m_s: float = TOP_M_S) -> Callable[[dict[str, Array]], list[float]]:
    """Return a policy that drives to a place at full speed and brakes for nothing."""

    def act(seen: dict[str, Array]) -> list[float]:
        qz, qw = seen["orientation"][2:]
        dx, dy = x - seen["position"][0], y - seen["position"][1]
        off = math.remainder(math.atan2(dy, dx) - 2.0 * math.atan2(qz, qw), 2.0 * math.pi)
        if math.hypot(dx, dy) < 0.1:
            return [0.0, 0.0]
        return [top_m_s if abs(off) < 0.5 else 0.0, 3.0 * off]

    return act


def outside_m(loop: Rolling) -> float:
    return max(abs(loop.pose[0]), abs(loop.pose[1])) - 1.0


@pytest.mark.parametrize("lags", [{}, {"delay": 1, "lag_s": 0.15}])
@pytest.mark.parametrize("yaw", [0.0, 0.7, 2.5, -1.5])
def test_a_base_driven_against_the_fence_stands_inside_and_its_run_goes_on(yaw: float, lags: dict[str, Any]) -> None:
    loop = fenced((0.0, 0.0, yaw), **lags)
    loop.arm()
    for _ in range(100):
        loop.run(0.1, lambda seen: [TOP_M_S, 0.0])
        assert outside_m(loop) < 0.0
    assert outside_m(loop) > -0.1 and abs(loop.command[0]) < 1e-3
    assert loop.guard.mode is CommonMode.POLICY
    assert any("the geofence, " in decision.blocked for decision in loop.decisions)
    steps = np.abs(np.diff(loop.commands, axis=0))[:, 0].max()
    assert steps <= ROBOT.limits.linear_acceleration_m_s2 * 0.1 + 1e-9
    loop.run(1.0, lambda seen: [0.0, 2.0])
    assert loop.commands[-1][1] == pytest.approx(2.0)  # it turns on the spot
    loop.run(8.0, pursue(0.0, 0.0))
    assert math.hypot(*loop.pose[:2]) < 0.2 and loop.guard.mode is CommonMode.POLICY


def test_a_base_on_a_curve_stays_inside() -> None:
    for turning in np.linspace(-1.0, 1.0, 9):
        loop = fenced((0.5, 0.0, 0.0), delay=1, lag_s=0.15)
        loop.arm()
        for _ in range(80):
            loop.run(0.1, lambda seen, turning=turning: [TOP_M_S, turning])
            assert outside_m(loop) < 0.0
        assert loop.guard.mode is CommonMode.POLICY


def test_a_base_that_was_pushed_outside_stops_and_drives_back_in_with_the_same_goal() -> None:
    loop = fenced((0.85, 0.0, 0.0))
    loop.arm()
    loop.run(1.0, pursue(0.9, 0.0))
    for _ in range(10):  # slowly enough to be no jump
        loop.pose[0] += 0.03
        loop.run(0.1, pursue(0.9, 0.0))
    assert loop.guard.mode is not CommonMode.POLICY and outside_m(loop) > 0.0
    loop.run(1.0, pursue(0.9, 0.0))
    assert loop.guard.mode is CommonMode.DISARMED
    assert "x = 1." in loop.guard.reason and "arm it and drive it back inside" in loop.guard.reason
    loop.arm()
    x = loop.pose[0]
    loop.run(2.0, lambda seen: [TOP_M_S, 0.0])
    assert loop.pose[0] <= x + 1e-6 and loop.guard.mode is CommonMode.POLICY  # no further out
    loop.run(8.0, pursue(0.9, 0.0))
    assert outside_m(loop) < 0.0 and loop.guard.mode is CommonMode.POLICY
    loop.run(5.0, pursue(1.5, 0.0))
    assert -0.1 < outside_m(loop) < 0.0 and loop.guard.mode is CommonMode.POLICY


def test_back_inside_the_whole_fence_counts_again() -> None:
    loop = fenced((1.3, 0.0, math.pi))
    loop.arm()
    loop.run(5.0, pursue(0.5, 0.0))
    assert loop.guard.mode is CommonMode.POLICY and loop.pose[0] < 0.9
    while loop.pose[0] < 1.02:
        loop.pose[0] += 0.05
        loop.run(0.1, lambda seen: [0.0, 0.0])
    assert loop.guard.mode is WheeledBaseMode.STOP


def test_outside_it_may_not_be_pushed_further() -> None:
    loop = fenced((1.3, 0.0, math.pi))
    loop.arm()
    loop.run(0.5, lambda seen: [0.0, 0.0])
    loop.pose[0] += 0.09
    loop.run(0.1, lambda seen: [0.0, 0.0])
    assert loop.guard.mode is WheeledBaseMode.STOP


def test_a_base_far_outside_is_not_armed() -> None:
    loop = fenced((0.0, -7.0, 0.0))
    loop.sense()
    armed, why = loop.guard.arm(loop.time_s)
    assert not armed
    assert "y = -7.00 m is outside the geofence, y from -1.00 to 1.00 m, by more than 1 m: move it back" in why


@pytest.mark.parametrize("name", ["turtlebot3_burger", "husky"])
def test_no_goal_inside_ends_a_run(name: str) -> None:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase)
    places = list(itertools.product((-0.95, 0.0, 0.95), repeat=2))
    for k, (start, goal) in enumerate(itertools.product(places, places)):
        loop = fenced((*start, 0.8 * k), robot, delay=k % 2, lag_s=0.1 * (k % 2))
        loop.arm()
        top = robot.limits.linear_velocity_m_s
        for _ in range(8):
            loop.run(0.5, pursue(*goal, top))
            assert outside_m(loop) <= 0.0
            assert loop.guard.mode is CommonMode.POLICY, loop.guard.reason
