from __future__ import annotations

import numpy as np
import pytest

from rlstack.robots import load_robot
from rlstack.robots.goal_limits import GoalLimits


@pytest.mark.parametrize(
    ("robot", "name", "inside", "outside", "nearest"),
    [
        ("crazyflie", "geofence", (3.0, -3.0, 0.0), (0.0, 0.0, 3.5), (0.0, 0.0, 3.0)),
        ("turtlebot3_burger", "geofence", (10.0, 0.0, 99.0), (-11.0, 2.0, 0.0), (-10.0, 2.0, 0.0)),
        ("panda", "workspace", (0.4, 0.0, 0.4), (5.0, 0.0, 0.4), None),
    ],
)
def test_each_kinds_goals_are_within_its_guards_limits(robot, name, inside, outside, nearest) -> None:
    limits = load_robot(robot).goal_limits()
    assert limits is not None and limits.name == name
    assert limits.refusal(np.array(inside)) == "" and limits.contains(np.array([inside, inside]))
    assert f"outside the {name}" in limits.refusal(np.array(outside))
    near = limits.nearest(np.array(outside))
    assert limits.contains(near) and (nearest is None or near.tolist() == list(nearest))


def test_a_quadruped_goes_anywhere() -> None:
    assert load_robot("go1").goal_limits() is None


def test_limits_are_changed_where_corners_are_given_and_the_floor_only_of_what_flies() -> None:
    ground = GoalLimits(name="geofence", frame="odom", low_m=(-1.0, -1.0), high_m=(1.0, 1.0))
    assert ground.changed((), (2.0, 2.0), 0.5).refusal(np.array([1.5, 0.0, 0.0])) == ""
    flying = GoalLimits(name="geofence", frame="odom", low_m=(-1.0,) * 3, high_m=(1.0,) * 3, floor_m=0.0)
    assert "below the floor, which is at -0.5 m" in flying.changed((), (), -0.5).refusal(np.array([0.0, 0.0, -0.7]))
