from __future__ import annotations

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS, Status
from rlstack.control.navigation.goal_planner import GoalPlanner
from rlstack.control.navigation.occupancy import Field
from rlstack.sim.maps.occupancy_grid import occupancy
from rlstack.verification.navigation_trials import drive
from tests.control.navigation.floor import burger, course, floor, sensed, simulator

ROBOT = burger()
POCKET = [(0.2, 0.0, 0.05, 0.9, 0.0), (-0.25, 0.85, 0.5, 0.05, 0.0), (-0.25, -0.85, 0.5, 0.05, 0.0)]
"""Open towards the start, between it and the goal."""
CLOSED = [(1.4, 0.5, 0.6, 0.05, 0.0), (1.4, -0.5, 0.6, 0.05, 0.0), (0.85, 0.0, 0.05, 0.5, 0.0)]
"""Three walls that close the goal off, with the floor's own."""


def planner(name: str = "astar_dwa", **options: object) -> GoalPlanner:
    made: GoalPlanner = PLANNERS.load(name)(ROBOT, **options)
    return made


def watched(driver: GoalPlanner, drawn: object, goal: tuple[float, float], seconds: float) -> tuple[list[int], object]:
    """Drive for some time; return the status after every step and the robots."""
    robots = simulator(ROBOT, drawn)  # type: ignore[arg-type]
    driver.reset(1)
    said = []
    for _ in range(round(10 * seconds)):
        robots.step(driver.step(sensed(robots, goal))["twist"])
        said.append(int(driver.status[0]))
        assert robots.clearance()[0] > 0.0
    return said, robots


def test_it_goes_around_a_pocket_that_it_did_not_know() -> None:
    drawn = floor(POCKET)
    driven = drive(planner(), course(ROBOT, drawn), ROBOT, rate_hz=10.0, arrival_m=0.2, name="astar_dwa", batch_size=1)
    assert driven.ending[0] == "arrived"
    assert driven.length_m[0] < 6.5


def test_with_a_map_it_does_not_look_into_the_pocket_first() -> None:
    drawn = floor(POCKET)
    known, grid = planner(), occupancy(drawn)
    known.global_planner.use_map(  # type: ignore[attr-defined]
        Field(grid.occupied[None], np.zeros_like(grid.occupied)[None], np.array([grid.frame.origin_m]), 0.05)
    )
    driven = drive(known, course(ROBOT, drawn), ROBOT, rate_hz=10.0, arrival_m=0.2, name="known", batch_size=1)
    assert driven.ending[0] == "arrived"
    around = 2.0 * np.hypot(1.7, 1.0)  # past an end of the pocket's wall
    assert driven.length_m[0] < 1.15 * around
    assert not known.global_planner.grids.seen.any(), "nothing is added to a given map"  # type: ignore[attr-defined]


def test_people_are_passed_and_leave_no_trace_in_the_map() -> None:
    driver, robots = planner(people=True), simulator(ROBOT, floor(start=(-1.0, 0.0, 0.0), circles=[(0.0, 0.05, 0.2)]))
    driver.reset(1)
    for _ in range(100):
        signals = sensed(robots, (1.0, 0.0))
        signals["people_position"] = np.array([[[0.0, 0.05, 0.0]]])
        signals["people_velocity"], signals["people_radius"] = np.zeros((1, 1, 3)), np.array([[0.2]])
        robots.step(driver.step(signals)["twist"])
        assert robots.clearance()[0] > 0.05
    assert robots.pose()[0, 0] > 0.5, "it is past"
    grid = driver.global_planner.grids.field  # type: ignore[attr-defined]
    row, column = grid.cell(0, np.array([-0.15, 0.05]))
    assert not grid.occupied[0][row - 3 : row + 4, column - 2 : column + 8].any()


def test_an_enclosed_goal_is_unreachable_within_the_time_that_is_said() -> None:
    driver = planner()
    said, robots = watched(driver, floor(CLOSED, start=(0.0, 0.0, 0.0)), (1.5, 0.0), 40.0)
    first = said.index(Status.UNREACHABLE)
    assert set(said[:first]) == {Status.DRIVING}
    assert said[-1] == Status.UNREACHABLE
    # the wall in front is seen at once; what is beside it takes some driving
    assert first < 300
    assert np.abs(robots.twist()).max() < 0.05, "it waits"  # type: ignore[attr-defined]


def test_a_goal_in_a_wall_is_unreachable_once_it_is_seen() -> None:
    said, _ = watched(planner(), floor(start=(0.0, 0.0, 0.0)), (2.05, 0.0), 8.0)
    assert Status.UNREACHABLE in said[: round(10 * 5.0)]


def test_without_a_map_it_says_that_it_is_stuck() -> None:
    said, _ = watched(planner("dwa", goal={"patience_s": 6.0}), floor(POCKET), (1.5, 0.0), 25.0)
    assert Status.STUCK in said and Status.ARRIVED not in said


def test_it_stops_at_the_goal_and_goes_on_to_another() -> None:
    driver = planner()
    robots = simulator(ROBOT, floor(start=(0.0, 0.0, 0.0)))
    driver.reset(1)
    for goal in ((0.6, 0.0), (0.6, 0.8)):
        for _ in range(120):
            robots.step(driver.step(sensed(robots, goal))["twist"])
        assert driver.status[0] == Status.ARRIVED
        assert np.linalg.norm(robots.pose()[0, :2] - goal) < 0.12
        assert np.abs(robots.twist()).max() < 0.01


def test_it_turns_to_the_goals_heading_where_that_is_asked_for() -> None:
    driver = planner(goal={"heading_tolerance_rad": 0.1})
    robots = simulator(ROBOT, floor(start=(0.0, 0.0, 0.0)))
    driver.reset(1)
    for _ in range(150):
        signals = sensed(robots, (0.5, 0.0))
        signals["goal_orientation"] = np.array([[0.0, 0.0, np.sin(1.0), np.cos(1.0)]])
        robots.step(driver.step(signals)["twist"])
    assert robots.pose()[0, 2] == pytest.approx(2.0, abs=0.12)
    assert driver.status[0] == Status.ARRIVED


def test_odometry_that_jumps_makes_the_map_void() -> None:
    driver = planner()
    robots = simulator(ROBOT, floor(POCKET))
    driver.reset(1)
    for _ in range(30):
        robots.step(driver.step(sensed(robots, (1.5, 0.0)))["twist"])
    assert driver.global_planner.grids.seen.sum() > 1000  # type: ignore[attr-defined]
    signals = sensed(robots, (1.5, 0.0))
    signals["position"] = signals["position"] + [7.0, 0.0, 0.0]
    driver.step(signals)
    grid = driver.global_planner.grids.field  # type: ignore[attr-defined]
    old = grid.cell(0, robots.pose()[0, :2])
    assert grid.unknown[0][tuple(old)]


def test_robots_together_do_as_each_alone() -> None:
    floors = [floor(POCKET), floor(), floor([(0.0, 0.2, 0.2, 0.3, 0.5)])]
    goal = (1.5, 0.0)
    together, robots = planner(), simulator(ROBOT, *floors)
    alone = [planner() for _ in floors]
    together.reset(3)
    for _ in range(25):
        signals = sensed(robots, goal)
        command = together.step(signals)["twist"]
        for n, one in enumerate(alone):
            mine = one.step({name: array[n : n + 1] for name, array in signals.items()})["twist"]
            assert mine[0] == pytest.approx(command[n], abs=1e-9)
        robots.step(command)
