from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.grids.lidar import GridLidar
from rlstack.sim.grids.simulator import FREE, MOVES, OCCUPIED, UNKNOWN, GridSimulator
from rlstack.sim.grids.terrain import Terrain

LIDAR = GridLidar(21, 21, 6, 32)


def placed(count: int, seed: int = 0) -> GridSimulator:
    worlds = GridSimulator(count, LIDAR, 21, 21)
    terrain = Terrain().draw(np.random.default_rng(seed), count)
    worlds.place(np.arange(count), terrain, np.zeros(count, dtype=np.intp))
    return worlds


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000))
def test_the_map_grows_and_is_true(seed: int) -> None:
    worlds, rng = placed(8, seed), np.random.default_rng(seed)
    before = worlds.known()
    for _ in range(30):
        allowed = worlds.allowed()
        crashed = worlds.move(np.where(allowed, rng.random((8, 4)), -1.0).argmax(axis=1))
        assert not crashed.any()
        after = worlds.known()
        assert (after >= before).all()
        before = after
    truth = np.where(worlds.occupied, OCCUPIED, FREE).reshape(worlds.map.shape)
    known = worlds.map != UNKNOWN
    np.testing.assert_array_equal(worlds.map[known], truth[known])
    np.testing.assert_allclose(before, known.sum(axis=(1, 2)))


def test_moves_go_along_x_and_y() -> None:
    worlds = GridSimulator(4, LIDAR, 21, 21)
    worlds.place(np.arange(4), np.zeros((4, 21, 21), dtype=bool), np.full(4, 10 * 21 + 10))
    worlds.move(np.arange(4))
    rows, columns = np.divmod(worlds.cell, 21)
    assert [(int(c) - 10, int(r) - 10) for r, c in zip(rows, columns)] == list(MOVES)


def test_obstacles_and_the_edge_are_crashed_into() -> None:
    worlds = GridSimulator(3, LIDAR, 21, 21)
    terrain = np.zeros((3, 21, 21), dtype=bool)
    terrain[0, 0, 1] = True
    worlds.place(np.arange(3), terrain, np.zeros(3, dtype=np.intp))
    crashed = worlds.move(np.array([0, 1, 1]), np.array([True, True, False]))
    assert crashed.tolist() == [True, True, False]  # into a boulder, over the edge, and one that was not asked
    assert worlds.cell.tolist() == [0, 0, 0]


def test_placing_some_leaves_the_others() -> None:
    worlds = placed(3)
    worlds.move(np.zeros(3, dtype=np.intp), worlds.allowed()[:, 0])
    map_before, cell_before = worlds.map.copy(), worlds.cell.copy()
    worlds.place(np.array([1]), np.zeros((1, 21, 21), dtype=bool), np.array([220]))
    assert worlds.cell[1] == 220 and (worlds.map[1] != OCCUPIED).all()
    np.testing.assert_array_equal(worlds.map[[0, 2]], map_before[[0, 2]])
    np.testing.assert_array_equal(worlds.cell[[0, 2]], cell_before[[0, 2]])
