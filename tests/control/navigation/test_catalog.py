from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError
from rlstack.robots import load_robot
from tests.control.navigation.floor import burger, floor, sensed, simulator

NAMES = ["astar_dwa", "dwa", "frontier_greedy", "frontier_utility", "orca", "pure_pursuit"]


def test_planners_have_names() -> None:
    assert set(PLANNERS.names()) >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("robot", ["turtlebot3_burger", "husky", "racecar"])
def test_each_drives_the_robots_that_it_can(name: str, robot: str) -> None:
    spec = load_robot(robot)
    if name == "orca" and robot == "racecar":
        with pytest.raises(UserError, match="racecar"):
            PLANNERS.load(name)(spec)
        return
    driver = PLANNERS.load(name)(spec)
    assert driver.outputs == ("twist",)
    assert {"position", "orientation"} <= set(driver.inputs)
    count = 2
    driver.reset(count)
    given = {
        "position": np.zeros((count, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "goal_position": np.tile([3.0, 0.0, 0.0], (count, 1)),
        "people_position": np.zeros((count, 0, 3)),
        "people_velocity": np.zeros((count, 0, 3)),
        "people_radius": np.zeros((count, 0)),
        "path_position": np.tile([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]], (count, 1, 1)),
        "path_time": np.tile([0.0, 5.0], (count, 1)),
        "scan": np.full((count, spec.lidars["scan"].rays), spec.lidars["scan"].range_max_m),
    }
    for _ in range(3):
        command = driver.step({signal: given[signal] for signal in driver.inputs})["twist"]
        assert command.shape == (count, 2) and np.isfinite(command).all()
    assert driver.status.shape == (count,)
    if not name.startswith("frontier"):
        assert command[0, 0] > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused_by_name(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}.*nonsense"):
        PLANNERS.load(name)(burger(), nonsense=1)


def test_options_reach_what_they_are_for() -> None:
    driver = PLANNERS.load("dwa")(burger(), dwa={"horizon_s": 1.5}, goal={"tolerance_m": 0.3})
    assert driver.local.settings.horizon_s == 1.5 and driver.settings.tolerance_m == 0.3
    with pytest.raises(UserError, match=r"goal.tolerance_m.*above 0"):
        PLANNERS.load("dwa")(burger(), goal={"tolerance_m": -1.0})


def test_what_is_no_base_or_has_no_lidar_is_refused() -> None:
    with pytest.raises(UserError, match="panda"):
        PLANNERS.load("dwa")(load_robot("panda"))
    blind = replace(burger(), lidars={})
    with pytest.raises(UserError, match="no lidar 'scan'"):
        PLANNERS.load("astar_dwa")(blind)
    with pytest.raises(UserError, match="would sense nothing"):
        PLANNERS.load("orca")(blind, people=False)


def test_a_robot_that_glides_goes_sideways() -> None:
    driver = PLANNERS.load("orca")(load_robot("crowdnav_robot"), lidar="")
    assert driver.outputs == ("planar_twist",) and "scan" not in driver.inputs
    driver.reset(1)
    command = driver.step(
        {
            "position": np.zeros((1, 3)),
            "orientation": np.array([[0.0, 0.0, 0.0, 1.0]]),
            "linear_velocity": np.zeros((1, 3)),
            "angular_velocity": np.zeros((1, 3)),
            "goal_position": np.array([[0.0, 4.0, 0.0]]),
            "people_position": np.array([[[40.0, 2.0, 0.0]]]),
            "people_velocity": np.zeros((1, 1, 3)),
            "people_radius": np.array([[0.3]]),
        }
    )["planar_twist"]
    assert command[0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)


def test_orca_goes_through_a_room_with_a_lidar() -> None:
    robots = simulator(burger(), floor([(0.0, 0.5, 0.3, 0.3, 0.3)]))
    driver = PLANNERS.load("orca")(burger(), people=False)
    driver.reset(1)
    for _ in range(250):
        robots.step(driver.step(sensed(robots, (1.5, 0.0)))["twist"])
        assert robots.clearance()[0] > 0.0
    assert np.linalg.norm(robots.pose()[0, :2] - [1.5, 0.0]) < 0.15
