from __future__ import annotations

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS, Status
from rlstack.control.navigation.frontier import Known, best, expected_gain, frontiers
from tests.control.navigation.floor import burger, floor, sensed, simulator

ROBOT = burger()


def world(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what is free, unknown and occupied of a drawing: ``.``, ``?`` and ``#``."""
    cells = np.array([list(row) for row in text.split()])
    return cells == ".", cells == "?", cells == "#"


def test_frontiers_are_free_cells_beside_unknown_ones_in_groups_that_can_be_reached() -> None:
    free, unknown, _ = world("""
        ..???
        ..#??
        ..#..
        ?.#..""")
    way = np.full(free.shape, np.inf)
    way[:, :2] = np.add.outer(np.arange(4.0), np.arange(2.0))
    found = frontiers(free, unknown, way)
    assert sorted(f.cell for f in found) == [(0, 1), (2, 0)]
    assert [f.cost for f in found] == [way[f.cell] for f in found]
    assert frontiers(free, unknown, way, smallest=3) == []


def test_walls_hide_what_is_behind_them() -> None:
    _, unknown, occupied = world("""
        ???????
        ???????
        #######
        .......
        .......""")
    assert expected_gain((4, 3), occupied, unknown, 6.0) == 0
    occupied[2, 3] = False
    assert 0 < expected_gain((4, 3), occupied, unknown, 6.0) < 10


def test_greedy_takes_the_nearest_and_utility_what_shows_more() -> None:
    free, unknown, occupied = world("""
        ???????????
        ???????????
        ???????????
        ???????????
        ...........
        .##########
        .#?########""")
    free[6, 2], unknown[6, 2], unknown[6, 3] = True, False, True
    occupied[6, 1] = occupied[6, 3] = False
    free[6, 1] = True
    way = np.abs(np.subtract.outer(np.arange(7.0), np.arange(11.0) * 0.0 + 6.0)) + np.arange(11.0)
    way[6, 2] = 0.5
    way[~free] = np.inf
    found = frontiers(free, unknown, way)
    assert len(found) == 2
    known = Known(occupied, unknown, 4.0, 1.0)
    near, much = (found[best(found, rule, known, weight=1.0)] for rule in ("greedy", "utility"))
    assert near.cost < much.cost


@pytest.mark.parametrize("name", ["frontier_greedy", "frontier_utility"])
def test_it_explores_all_that_can_be_seen_and_says_so(name: str) -> None:
    drawn = floor([(0.0, 0.6, 0.05, 1.4, 0.0)], start=(-1.0, 1.2, 0.0))
    robots, driver = simulator(ROBOT, drawn), PLANNERS.load(name)(ROBOT)
    assert "goal_position" not in driver.inputs
    driver.reset(1)
    for _ in range(700):
        robots.step(driver.step(sensed(robots, (0.0, 0.0)))["twist"])
        assert robots.clearance()[0] > 0.0
        if driver.status[0] == Status.ARRIVED:
            break
    assert driver.status[0] == Status.ARRIVED
    grids = driver.global_planner.grids
    side = np.arange(-1.9, 1.95, 0.1)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    places = places[drawn.distance(places) > 0.15]
    cells = grids.field.cell(0, places)
    assert grids.seen[0][cells[:, 0], cells[:, 1]].mean() > 0.97
