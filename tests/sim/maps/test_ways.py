"""Ways over cells."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.sim.maps.shortest_path import find_shortest_paths


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
