from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.occupancy import FREE, OCCUPIED, UNKNOWN, GridSettings, OccupancyGrids
from rlstack.control.navigation.planner_interface import Motion, Scanner
from rlstack.errors import UserError
from tests.control.navigation.floor import burger, floor, sensed, simulator

ROBOT = burger()
SCANNER = Scanner(BaseModel.of(ROBOT).lidar())
SETTINGS = GridSettings(cells=160, rays=360)


def at(x: float, y: float, yaw: float = 0.0) -> Motion:
    zero = np.zeros(1)
    return Motion(np.array([[x, y]]), np.array([yaw]), zero, zero)


def mapped(x: float = -0.3, y: float = 0.2, yaw: float = 0.7, scans: int = 5) -> tuple[OccupancyGrids, np.ndarray]:
    """Return the grid after some scans of a floor with one box, and the cells' middles."""
    drawn = floor([(0.8, 0.0, 0.2, 0.3, 0.4)], start=(x, y, yaw))
    robots = simulator(ROBOT, drawn)
    grids = OccupancyGrids(SCANNER, SETTINGS)
    for _ in range(scans):
        scan = sensed(robots, (0.0, 0.0))["scan"]
        grids.update(at(x, y, yaw), SCANNER.read(scan))
    side = (np.arange(SETTINGS.cells) + 0.5) * SETTINGS.resolution_m
    column, row = np.meshgrid(side, side)
    middles = np.stack((column, row), axis=-1) + grids.origin[0]
    return grids, drawn.distance(middles.reshape(-1, 2)).reshape(column.shape)


def test_cells_are_what_the_scan_says_of_them() -> None:
    grids, distance = mapped()
    states = grids.states()[0]
    assert (states == OCCUPIED).sum() > 150
    assert np.abs(distance[states == OCCUPIED]).max() < 0.075, "what is occupied is on a surface"
    assert distance[states == FREE].min() > -0.04, "what is free is in no obstacle"
    assert (states[distance < -0.12] == UNKNOWN).all(), "nothing is known of what is inside"
    behind = (states == UNKNOWN) & (distance > 0.1)
    assert behind.any(), "nothing is known of what is behind the box"


def test_states_have_rows_along_y_from_the_lower_left_corner() -> None:
    grids, _ = mapped()
    states = grids.states()
    assert states.shape == (1, 160, 160) and states.dtype == np.int8
    x, y = 2.0, -1.0  # on the wall to the right
    column, row = (int((p - o) / 0.05) for p, o in zip((x, y), grids.origin[0]))
    assert (states[0, row - 1 : row + 2, column - 1 : column + 2] == OCCUPIED).any()


def test_what_moved_away_is_forgotten_after_some_scans() -> None:
    grids, _ = mapped(scans=2)
    robots = simulator(ROBOT, floor(start=(-0.3, 0.2, 0.7)))
    for _ in range(12):
        grids.update(at(-0.3, 0.2, 0.7), SCANNER.read(sensed(robots, (0.0, 0.0))["scan"]))
    cell = grids.field.cell(0, np.array([0.6, 0.0]))
    assert not grids.field.occupied[0][tuple(cell)]


@given(st.floats(-40.0, 40.0), st.floats(-40.0, 40.0))
@settings(deadline=None, max_examples=20)
def test_a_window_that_moves_keeps_what_stays_inside(dx: float, dy: float) -> None:
    grids = OccupancyGrids(SCANNER, GridSettings(cells=64))
    nothing = SCANNER.read(np.full((1, 360), ROBOT.lidars["scan"].range_min_m))
    no_ray = np.ones((1, 360), dtype=bool)
    grids.update(at(0.0, 0.0), nothing, no_ray)
    rng = np.random.default_rng(0)
    grids.log_odds[0] = rng.normal(size=(64, 64))
    before, corner = grids.log_odds[0].copy(), grids.corner[0].copy()
    grids.update(at(dx, dy), nothing, no_ray)
    after, moved = grids.log_odds[0], grids.corner[0]
    inner = np.array([dx, dy]) / 0.05 - moved
    assert (inner >= 15).all() and (inner <= 49).all(), "the robot is never near the edge"
    for row in range(0, 64, 7):
        for column in range(0, 64, 7):
            old_column, old_row = np.array([column, row]) + moved - corner
            inside = 0 <= old_row < 64 and 0 <= old_column < 64
            assert after[row, column] == (before[old_row, old_column] if inside else 0.0)


def test_the_part_that_is_planned_on_holds_what_was_seen_and_the_places() -> None:
    grids, _ = mapped()
    places = np.array([[-0.3, 0.2], [3.0, 1.0]])
    part = grids.part(0, places)
    assert part.occupied.sum() == grids.field.occupied.sum()
    assert (~part.unknown).sum() == grids.seen.sum()
    for place in places:
        assert np.abs(part.centre(0, part.cell(0, place)) - place).max() <= 0.026
    whole = grids.field
    point = np.array([2.02, 0.4])
    assert part.occupied[0][tuple(part.cell(0, point))] == whole.occupied[0][tuple(whole.cell(0, point))]


def test_rays_of_people_leave_no_trace() -> None:
    drawn = floor(start=(0.0, 0.0, 0.0), circles=[(1.0, 0.0, 0.25)])
    scan = sensed(simulator(ROBOT, drawn), (0.0, 0.0))["scan"]
    scan_points = SCANNER.read(scan)
    person = np.linalg.norm(scan_points.points - [1.0, 0.0], axis=2) < 0.4
    for ignored, expected in ((None, True), (person, False)):
        grids = OccupancyGrids(SCANNER, SETTINGS)
        for _ in range(3):
            grids.update(at(0.0, 0.0), scan_points, ignored)
        row, column = grids.field.cell(0, np.array([0.76, 0.0]))
        assert grids.field.occupied[0][row - 1 : row + 2, column - 1 : column + 2].any() == expected


def test_a_scan_with_other_rays_is_refused_with_both_numbers() -> None:
    with pytest.raises(UserError, match=r"359 rays.*360"):
        SCANNER.read(np.ones((1, 359)))
