"""Limits of a quadrotor that are tightened in flight, beyond where it is: it is turned back and flies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.guard import CommonMode
from rlstack.guard.tightening import LiveLimits
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from tests.kinds.quadrotor.guard_loop import Loop, good_policy
from tests.kinds.quadrotor.test_guard_flight import airborne
from tests.support import robots

BACK = [CommonMode.POLICY, QuadrotorMode.RETURN, CommonMode.POLICY]


@pytest.mark.parametrize(
    "tight, after_s",
    [
        ({"geofence_min_m": (-1.0, -1.0, -0.2), "geofence_max_m": (1.0, 1.0, 3.0)}, 6.0),  # it is 1.3 m outside
        ({"geofence_max_m": (3.0, 3.0, 0.6)}, 6.0),  # a ceiling below it
        ({"linear_velocity_m_s": 0.3}, 1.0),  # a third of its speed
        ({"angular_velocity_rad_s": 1.0, "tilt_rad": 0.08}, 0.25),
    ],
)
def test_beyond_a_tightened_limit_it_is_turned_back_and_the_policy_flies_on(
    tight: dict[str, Any], after_s: float
) -> None:
    loop = airborne()
    limits = LiveLimits(loop.guard)
    loop.run(after_s, good_policy(loop.robot, (2.3, -1.2, 1.0)))
    assert loop.modes[-1] is CommonMode.POLICY
    limits.change(tight)
    assert loop.guard.mode is QuadrotorMode.RETURN and "set in flight" in loop.guard.reason
    loop.run(5.0, good_policy(loop.robot, (0.0, 0.0, 0.4)), until=CommonMode.POLICY)
    x, y, z = loop.positions[-1]
    loop.run(2.0, good_policy(loop.robot, (0.98 * x, 0.98 * y, z)))
    assert loop.transitions() == BACK
    assert loop.guard._broken_limit(loop.guard._newest) == ""
    assert min(position[2] for position in loop.positions) > 0.1 and max(loop.tilts) < 0.8


def test_a_robot_that_hovers_goes_inside_a_tightened_fence_and_one_that_climbs_ends_below_the_ceiling() -> None:
    loop = airborne()
    limits = LiveLimits(loop.guard)
    loop.run(3.0, good_policy(loop.robot, (2.0, 0.0, 1.5)))
    loop.run(0.5, None)
    assert loop.guard.mode is QuadrotorMode.HOVER
    limits.change({"geofence_max_m": (1.0, 1.0, 1.0)})
    loop.run(3.0, None)
    assert loop.guard.mode is QuadrotorMode.HOVER
    np.testing.assert_allclose(loop.positions[-1], (0.9, 0.0, 0.9), atol=0.1)

    robot = robots.crazyflie()
    climbing = Loop(QuadrotorGuard(robot), (0.0, 0.0, 0.0))
    climbing.observe()
    assert climbing.guard.arm(0.0)[0]
    climbing.run(0.5, good_policy(robot, (0.0, 0.0, 0.5)))
    LiveLimits(climbing.guard).change({"geofence_max_m": (3.0, 3.0, 0.7)})
    climbing.run(3.0, good_policy(robot, (0.0, 0.0, 0.5), 0.3))
    assert climbing.transitions() == [QuadrotorMode.TAKEOFF, CommonMode.POLICY]
    assert max(position[2] for position in climbing.positions) < 0.7


def test_tightening_again_and_again_does_not_use_up_the_turn_backs() -> None:
    loop = airborne()
    limits = LiveLimits(loop.guard)
    for k in range(6):
        loop.run(1.0, good_policy(loop.robot, (0.5 * (k % 2), 0.0, 1.0)))
        limits.change({"linear_velocity_m_s": 0.01})
        limits.change({"linear_velocity_m_s": 3.0})
    assert QuadrotorMode.HOVER not in loop.transitions()
