"""What a tether makes of the limits of bases and arms; quadrotors' are in tests/kinds/quadrotor."""

from __future__ import annotations

import pytest

from rlstack.kinds import find_kind, kind_names
from rlstack.robots import load_robot


@pytest.mark.parametrize("name", ["crazyflie", "turtlebot3_burger", "racecar", "panda", "so100", "go1"])
def test_a_tether_is_never_wider_than_the_robots_own_limits(name: str) -> None:
    robot = load_robot(name)
    config = find_kind(robot.kind).load("guard").CONFIG
    whole = config.from_robot(robot)
    tied = whole.tethered(robot, 0.3)
    for limit in config.TETHERED:
        assert not config.is_wider(limit, getattr(tied, limit), getattr(whole, limit)), limit
        assert getattr(tied, limit) != getattr(whole, limit), limit


def test_a_tethered_base_drives_and_accelerates_slowly() -> None:
    robot = load_robot("turtlebot3_burger")
    tied = find_kind(robot.kind).load("guard").CONFIG.from_robot(robot).tethered(robot, 0.5)
    assert tied.linear_velocity_m_s == pytest.approx(0.11)
    assert tied.angular_acceleration_rad_s2 == pytest.approx(3.0)
    assert tied.geofence_min_m == pytest.approx((-5.0, -5.0))


def test_a_tethered_arm_is_slow_and_speeds_up_slowly() -> None:
    robot = load_robot("so100")
    tied = find_kind(robot.kind).load("guard").CONFIG.from_robot(robot).tethered(robot, 0.3)
    assert tied.joint_speed == pytest.approx(0.3)
    assert tied.speed_up_s == pytest.approx(0.5)
    assert tied.tool_velocity_m_s == pytest.approx(0.15)


def test_every_limit_that_a_tether_scales_is_one() -> None:
    for kind in map(find_kind, kind_names()):
        if kind.has("guard"):
            config = kind.load("guard").CONFIG
            assert set(vars(config)["__dataclass_fields__"]) >= config.TETHERED
