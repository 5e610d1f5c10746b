from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rlstack.sim.free_space import NoRoom, Starts, _flooded, find_starts
from rlstack.sim.obstacle import Obstacle

HALL = ((-4.0, -3.0, 4.0, 3.0),)


def box(x: float, y: float, size: tuple[float, float, float], z: float = 0.0, yaw: float = 0.0) -> Obstacle:
    return Obstacle(name="box", shape="box", size_m=size, position_m=(x, y, z + size[2] / 2.0), yaw_rad=yaw)


def starts(*obstacles: Obstacle, inside=HALL, seed: int = 0, **rules: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array(find_starts(obstacles, inside, Starts(**rules), rng))


def test_the_origin_is_first_and_all_keep_their_distances() -> None:
    pillar = Obstacle(name="pillar", shape="cylinder", size_m=(0.5, 0.5, 2.0), position_m=(1.5, 0.2, 1.0))
    turned = box(-2.0, 1.0, (1.0, 2.0, 1.0), yaw=0.6)
    places = starts(pillar, turned, count=16)
    assert places.shape == (16, 3) and (places[0] == 0.0).all() and (places[:, 2] == 0.0).all()
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(16, 1)]
    assert gaps.min() >= 1.0
    assert (np.hypot(places[:, 0] - 1.5, places[:, 1] - 0.2) - 0.25 >= 0.5 - 1e-9).all()
    assert (np.abs(places[:, 0]) <= 3.5).all() and (np.abs(places[:, 1]) <= 2.5).all(), "off the edge as well"


def test_they_are_drawn_from_the_seed_alone() -> None:
    assert (starts(seed=3) == starts(seed=3)).all()
    assert (starts(seed=3) != starts(seed=4)).any()


WALL = (0.2, 6.0, 2.0)


def test_a_room_that_is_cut_off_is_refused() -> None:
    with pytest.raises(NoRoom, match=r"radius 0.4 m can get to only 7\d% of the free floor"):
        starts(box(2.0, 0.0, WALL))


def test_a_door_is_as_wide_as_the_body_that_passes_it() -> None:
    door = [box(2.0, -1.9, (0.2, 2.2, 2.0)), box(2.0, 1.7, (0.2, 2.6, 2.0))]  # open from y = -0.8 to 0.4
    for radius, passes in ((0.3, True), (0.5, True), (0.65, False)):
        rules = {"body_radius_m": radius, "clearance_m": 0.7, "count": 4}
        if passes:
            starts(*door, **rules)
        else:
            with pytest.raises(NoRoom, match="can get to only"):
                starts(*door, **rules)


def test_a_body_passes_below_what_hangs_higher_and_not_over_what_stands() -> None:
    starts(box(2.0, 0.0, WALL, z=1.8))
    with pytest.raises(NoRoom):
        starts(box(2.0, 0.0, WALL, z=1.7))
    with pytest.raises(NoRoom):
        starts(box(2.0, 0.0, (0.2, 6.0, 0.05)))
    starts(box(2.0, 0.0, WALL, z=1.7), body_height_m=1.6)


def test_a_blocked_origin_is_refused() -> None:
    with pytest.raises(NoRoom, match=r"the origin, where the first robot starts, is not 0.5 m"):
        starts(box(0.7, 0.0, (0.6, 0.6, 1.0)))


def test_too_many_for_the_floor_are_refused_with_how_many_there_are() -> None:
    with pytest.raises(NoRoom, match=r"there are \d+ start places 1 m apart, not 200"):
        starts(count=200)


def test_only_the_floor_inside_is_used() -> None:
    around_a_corner = ((-1.0, -1.0, 6.0, 1.0), (4.0, -1.0, 6.0, 6.0))
    places = starts(inside=around_a_corner, count=8)
    assert ((places[:, 1] <= 1.0) | (places[:, 0] >= 4.0)).all()
    assert (places[:, 1] > 1.0).any()


@settings(deadline=None, max_examples=200)
@given(arrays.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))), st.data())
def test_flooding_reaches_what_steps_to_the_side_reach(free: np.ndarray, data: st.DataObject) -> None:
    start = tuple(data.draw(st.integers(0, n - 1)) for n in free.shape)
    reached, ahead = np.zeros_like(free), deque([start] if free[start] else [])
    while ahead:
        i, j = ahead.popleft()
        if 0 <= i < free.shape[0] and 0 <= j < free.shape[1] and free[i, j] and not reached[i, j]:
            reached[i, j] = True
            ahead.extend([(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)])
    assert (_flooded(free, start) == reached).all()
