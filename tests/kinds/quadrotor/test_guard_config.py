from __future__ import annotations

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from tests.support import robots

ROBOT = robots.crazyflie()


def test_takes_the_robots_limits_and_rate() -> None:
    config = QuadrotorGuardConfig.from_robot(ROBOT)
    assert config.tilt_rad == ROBOT.limits.tilt_rad
    assert config.geofence_max_m == ROBOT.limits.geofence_max_m
    assert config.control_rate_hz == ROBOT.control_rate_hz
    assert config.staleness_s == pytest.approx(0.02)


@pytest.mark.parametrize(
    "wider",
    [
        {"tilt_rad": 1.3},
        {"linear_velocity_m_s": 3.5},
        {"angular_velocity_rad_s": 21.0},
        {"rotor_acceleration_rad_s2": 2e5},
        {"geofence_min_m": (-3.0, -3.5, -0.2)},
        {"geofence_max_m": (3.0, 3.0, 3.1)},
    ],
    ids=lambda w: next(iter(w)),
)
def test_a_wider_limit_is_refused_unless_allowed(wider: dict[str, object]) -> None:
    name = next(iter(wider))
    with pytest.raises(UserError, match=rf"{name}: .* is wider than robot 'crazyflie' allows"):
        QuadrotorGuardConfig.from_robot(ROBOT, **wider)
    assert getattr(QuadrotorGuardConfig.from_robot(ROBOT, allow_wider=True, **wider), name) == wider[name]


def test_tighter_limits_and_other_times_are_taken() -> None:
    config = QuadrotorGuardConfig.from_robot(ROBOT, tilt_rad=0.5, geofence_max_m=[1, 1, 1], hover_before_landing_s=60.0)
    assert (config.tilt_rad, config.geofence_max_m, config.hover_before_landing_s) == (0.5, (1.0, 1.0, 1.0), 60.0)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"tilt": 0.5}, "Unknown guard setting 'tilt'.*Nearest: tilt_rad"),
        ({"tilt_rad": -0.5}, "tilt_rad: -0.5 is not allowed: must be above 0"),
        ({"tilt_rad": float("nan")}, "tilt_rad: nan is not allowed: must be a finite number"),
        ({"staleness_periods": 0.5}, "staleness_periods: 0.5 is not allowed"),
        ({"geofence_min_m": (0.0, 0.0)}, "must be a list of 3"),
        ({"geofence_min_m": (1.0, 1.0, 1.0), "geofence_max_m": (1.0, 2.0, 2.0)}, "every number must be above"),
    ],
)
def test_bad_settings_are_refused_by_name(bad: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        QuadrotorGuardConfig.from_robot(ROBOT, **bad)


def test_a_tether_scales_speeds_and_the_fence_and_leaves_room_to_take_off() -> None:
    own = ROBOT.limits
    tied = QuadrotorGuardConfig.from_robot(ROBOT).tethered(ROBOT, 0.3)
    assert tied.linear_velocity_m_s == pytest.approx(0.3 * own.linear_velocity_m_s)
    assert tied.angular_velocity_rad_s == pytest.approx(0.3 * own.angular_velocity_rad_s)
    assert tied.tilt_rad == pytest.approx(0.7)
    assert tied.geofence_min_m == pytest.approx((-0.9, -0.9, -0.2))
    assert tied.geofence_max_m == pytest.approx((0.9, 0.9, 1.5))
    assert tied.rotor_acceleration_rad_s2 == own.rotor_acceleration_rad_s2
    assert QuadrotorGuardConfig.from_robot(ROBOT).tethered(ROBOT, 1.0) == QuadrotorGuardConfig.from_robot(ROBOT)


def test_a_tether_keeps_what_is_tighter_already() -> None:
    given = QuadrotorGuardConfig.from_robot(ROBOT, linear_velocity_m_s=0.5, geofence_max_m=[0.4, 2.0, 1.2])
    tied = given.tethered(ROBOT, 0.3)
    assert tied.linear_velocity_m_s == 0.5
    assert tied.geofence_max_m == pytest.approx((0.4, 0.9, 1.2))
