"""Lengths of shortest ways."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.sim.maps.generate import draw_map
from rlstack.sim.maps.shortest_path import clear_between, find_shortest_paths, shortest_length

NOTHING = np.zeros((0, 5)), np.zeros((0, 3))


def walk(*corners: tuple[float, float]) -> np.ndarray:
    """Return points 0.1 m apart along straight lines between corners."""
    parts = [np.linspace(a, b, max(round(math.dist(a, b) / 0.1), 1), endpoint=False) for a, b in pairwise(corners)]
    return np.concatenate([*parts, [corners[-1]]])


def test_with_nothing_in_the_way_it_is_the_distance() -> None:
    path = walk((0.0, 0.0), (2.0, 1.0), (4.0, 0.0))
    assert shortest_length(path, *NOTHING, 0.1) == pytest.approx(4.0)


def test_around_a_thin_wall_it_follows_the_end() -> None:
    wall = np.array([[0.0, -5.0, 1e-6, 5.0, 0.0]])  # up to y = 0
    path = walk((-1.0, -1.0), (-1.0, 0.3), (1.0, 0.3), (1.0, -1.0))
    # two tangents to the circle of 0.2 m about the wall's end, and the arc between
    tangent = math.sqrt(2.0 - 0.04)
    turn = 2.0 * (3.0 * math.pi / 4.0 - math.acos(0.2 / math.sqrt(2.0)))
    exact = 2.0 * tangent + 0.2 * turn
    found = shortest_length(path, wall, np.zeros((0, 3)), 0.2)
    assert exact - 1e-6 <= found <= 1.01 * exact


def test_around_a_circle_it_follows_the_circle() -> None:
    circle = np.array([[0.0, 0.0, 0.4]])
    path = walk((-1.0, 0.0), (-0.9, 0.6), (0.9, 0.6), (1.0, 0.0))
    exact = 2.0 * math.sqrt(1.0 - 0.25) + 0.5 * (math.pi - 2.0 * math.acos(0.5))
    assert exact - 1e-6 <= shortest_length(path, np.zeros((0, 5)), circle, 0.1) <= 1.01 * exact


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_a_straight_way_is_clear_if_all_points_of_it_are(seed: int) -> None:
    drawn = draw_map("dead_ends", seed % 20, 1.0)
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-3.9, 3.9, (2, 60, 2))
    b = a + 0.4 * (b - a)
    clear = clear_between(a, b, drawn.boxes, drawn.circles, 0.105)
    along = np.linspace(a, b, 400, axis=1)
    nearest = drawn.distance(along.reshape(-1, 2)).reshape(60, 400).min(axis=1)
    step = np.hypot(*(b - a).T) / 399
    assert (nearest[clear] >= 0.105 - 1e-5).all()
    assert (nearest[~clear] < 0.105 + step[~clear]).all()
    assert clear.any() and not clear.all()


def test_lengths_are_whole_fifths_of_straight_and_diagonal_steps() -> None:
    ways = find_shortest_paths(np.ones((7, 9), dtype=bool), (2, 3))
    rows, columns = np.abs(np.mgrid[:7, :9] - np.array([2, 3])[:, None, None])
    diagonal = np.minimum(rows, columns)
    np.testing.assert_array_equal(ways.length, (5 * (np.maximum(rows, columns) - diagonal) + 7 * diagonal) / 5)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_a_way_goes_over_free_cells_and_never_around_a_corner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = rng.random((12, 17)) < 0.7
    end = (int(rng.integers(12)), int(rng.integers(17)))
    free[end] = True
    ways = find_shortest_paths(free, end)
    assert np.isinf(ways.length[~free]).all()
    for cell in np.argwhere(np.isfinite(ways.length))[::7]:
        path = ways.path((int(cell[0]), int(cell[1])))
        assert path[0].tolist() == cell.tolist() and path[-1].tolist() == list(end)
        assert free[tuple(path.T)].all()
        steps = np.abs(np.diff(path, axis=0))
        assert steps.max(initial=0) <= 1 and (steps.sum(axis=1) > 0).all()
        for one, other in pairwise(path):
            assert free[one[0], other[1]] and free[other[0], one[1]]
        diagonal = (steps.sum(axis=1) == 2).sum()
        assert ways.length[tuple(cell)] == (5 * (len(steps) - diagonal) + 7 * diagonal) / 5


def test_what_is_cut_off_is_infinitely_far() -> None:
    free = np.ones((5, 6), dtype=bool)
    free[:, 3] = False
    free[4, 3] = free[3, 4] = True
    free[4, 4] = False  # only a step around a corner would lead on
    ways = find_shortest_paths(free, (0, 0))
    assert np.isinf(ways.length[:, 4:]).all() and np.isfinite(ways.length[:, :3]).all()


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(UserError, match=r"scipy cannot be imported.*pip install 'rlstack\[sim\]'"):
        find_shortest_paths(np.ones((3, 3), dtype=bool), (0, 0))
