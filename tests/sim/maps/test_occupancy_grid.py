"""Occupancy grids of maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.maps.generate import draw_map
from rlstack.sim.maps.occupancy_grid import grid_frame, occupancy


def test_a_frame_is_centred_and_covers_the_floor() -> None:
    frame = grid_frame((8.0, 6.05), 0.1)
    assert frame.shape == (61, 80) and frame.origin_m == pytest.approx((-4.0, -3.05))
    assert frame.x[[0, -1]] == pytest.approx([-3.95, 3.95]) and frame.y[0] == pytest.approx(-3.0)


@settings(deadline=None)
@given(row=st.integers(0, 60), column=st.integers(0, 79), u=st.floats(0.01, 0.99), v=st.floats(0.01, 0.99))
def test_points_of_a_cell_are_in_it(row: int, column: int, u: float, v: float) -> None:
    frame = grid_frame((8.0, 6.1), 0.1)
    point = np.array(frame.origin_m) + 0.1 * np.array([column + u, row + v])
    assert frame.cells(point).tolist() == [[row, column]]
    assert np.abs(frame.points([[row, column]])[0] - point).max() <= 0.05


def test_points_outside_count_to_the_edge() -> None:
    assert grid_frame((8.0, 6.0), 0.1).cells([(-9.0, 0.05), (9.0, 9.0)]).tolist() == [[30, 0], [59, 79]]


@pytest.mark.parametrize("kind", ["dead_ends"])
def test_a_cell_is_occupied_exactly_where_an_obstacle_reaches_into_it(kind: str) -> None:
    drawn = draw_map(kind, 4, 1.0)
    grid = occupancy(drawn, 0.1)
    fine = (np.arange(11) - 5) / 10.0 * 0.0999
    u, v = np.meshgrid(fine, fine)
    inside = np.zeros(grid.frame.shape, dtype=bool)
    for du, dv in zip(u.ravel(), v.ravel()):
        at = np.stack(np.meshgrid(grid.frame.x + du, grid.frame.y + dv), axis=-1)
        inside |= drawn.distance(at.reshape(-1, 2)).reshape(inside.shape) < 0.0
    assert not (inside & ~grid.occupied).any()
    # only what reaches in by less than the samples' 10 mm differs
    at = np.stack(np.meshgrid(grid.frame.x, grid.frame.y), axis=-1)[grid.occupied & ~inside]
    assert len(at) < 0.04 * inside.sum()
    assert (np.abs(drawn.distance(at)) < 0.0708).all()


def test_data_goes_row_after_row_from_the_lower_left() -> None:
    drawn = draw_map("rooms", 2, 0.5)
    grid = occupancy(drawn, 0.05)
    data = grid.data
    assert data.dtype == np.int8 and set(data.tolist()) == {0, 100}
    row, column = grid.frame.cells(drawn.boxes[-1, :2])[0]
    assert data[row * grid.frame.shape[1] + column] == 100
    row, column = grid.frame.cells(drawn.start[:2])[0]
    assert data[row * grid.frame.shape[1] + column] == 0
