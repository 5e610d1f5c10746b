"""What robots of each kind have on the topics: names, sizes, shapes and ranges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlstack.errors import UserError
from rlstack.interfaces.kind_signals import command_of, command_range, element_names, shape_of, sizes
from rlstack.interfaces.signals import COMMANDED, DYNAMIC, ROBOT_SIZES, SENSED
from rlstack.robots import load_robot, robot_names
from tests.support.robots import under_an_autopilot


@pytest.mark.parametrize("name", robot_names())
def test_names_and_sizes_are_those_of_the_file(name: str) -> None:
    robot = load_robot(name)
    names, known = element_names(robot), sizes(robot)
    assert set(known) <= set(ROBOT_SIZES) and all(known[size] == len(each) for size, each in names.items())
    assert names.get("joints", ()) == tuple(joint.name for joint in robot.drives)
    assert known.get("rays") == (robot.lidars["scan"].rays if "scan" in robot.lidars else None)


def test_shapes_are_the_robots_but_for_what_differs_from_call_to_call() -> None:
    burger = load_robot("turtlebot3_burger")
    assert shape_of(SENSED["scan"], burger) == (360,) and shape_of(SENSED["joint_velocity"], burger) == (2,)
    assert shape_of(SENSED["people_position"], burger) == ("people", 3) and "people" in DYNAMIC
    with pytest.raises(UserError, match="has no rotors, so it has no 'rotor_speed'"):
        shape_of(COMMANDED["rotor_speed"], burger)
    rings = replace(burger.lidars["scan"], elevations_rad=(0.0, 0.1))
    with pytest.raises(UserError, match="no lidar called scan with one ring"):
        shape_of(SENSED["scan"], replace(burger, lidars={"scan": rings}))


@pytest.mark.parametrize(
    ("name", "command", "most"),
    [
        ("turtlebot3_burger", "twist", (0.22, 2.84)),
        ("crowdnav_robot", "planar_twist", (1.0, 1.0, 1.0)),
        ("crazyflie", "rotor_speed", None),
        ("crazyflie under an autopilot", "rates_thrust", None),
    ],
)
def test_each_robot_takes_its_own_command(name: str, command: str, most: tuple[float, ...] | None) -> None:
    robot = under_an_autopilot() if name.endswith("autopilot") else load_robot(name)
    assert command_of(robot) is COMMANDED[command]
    low, high = command_range(robot, command)
    assert most is None or (high == most and low == tuple(-x for x in most))
    for other in {"twist", "planar_twist", "rotor_speed", "rates_thrust"} - {command}:
        with pytest.raises(UserError, match=f"no limits for the command '{other}'"):
            command_range(robot, other)


def test_rates_go_as_far_as_the_file_says_and_thrust_as_far_as_the_rotors_lift() -> None:
    robot = under_an_autopilot()
    low, high = command_range(robot, "rates_thrust")
    assert low == (-6.0, -5.0, -3.0, 0.0) and high[:3] == (6.0, 5.0, 3.0)
    assert high[3] == pytest.approx(4 * 2.8816e-8 * 2272.6**2 / 0.027)
