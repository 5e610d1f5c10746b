"""What kinds of map draw on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.maps.map_builder import MapBuilder, Piece, separation

CRATE = Piece(boxes=((0.0, 0.0, 0.4, 0.2),))


def plan(seed: int = 0, gap: float = 0.5, boxes: int = 24, difficulty: float = 0.5) -> MapBuilder:
    rng = np.random.Generator(np.random.PCG64(seed))
    return MapBuilder(
        rng, difficulty=difficulty, size_m=(8.0, 6.0), scale=1.0, gap_m=gap, most_boxes=boxes, most_circles=2
    )


def corners(rectangle: np.ndarray) -> np.ndarray:
    x, y, half_x, half_y, yaw = rectangle
    c, s = math.cos(yaw), math.sin(yaw)
    local = np.array([(half_x, half_y), (-half_x, half_y), (-half_x, -half_y), (half_x, -half_y)])
    return local @ np.array([[c, s], [-s, c]]) + (x, y)


numbers = st.floats(-2.0, 2.0)
rectangles = st.tuples(numbers, numbers, st.floats(0.05, 1.0), st.floats(0.05, 1.0), st.floats(-4.0, 4.0)).map(np.array)


@settings(deadline=None, max_examples=60)
@given(one=rectangles, other=rectangles)
def test_separation_is_never_more_than_the_distance(one: np.ndarray, other: np.ndarray) -> None:
    apart = separation(one[None], other[None])[0, 0]
    edges = [np.linspace(a, b, 40) for r in (one, other) for a, b in zip(corners(r), np.roll(corners(r), 1, axis=0))]
    mine, its = np.concatenate(edges[:4]), np.concatenate(edges[4:])
    nearest = np.hypot(*(mine[:, None] - its[None]).T).min()
    assert apart <= nearest + 1e-9
    assert separation(other[None], one[None])[0, 0] == pytest.approx(apart)


def test_separation_across_sides_is_the_distance_and_negative_is_an_overlap() -> None:
    box = np.array([[0.0, 0.0, 1.0, 0.5, 0.3]])
    along = np.array([math.cos(0.3), math.sin(0.3)])
    others = np.array([[*(2.5 * along), 1.0, 0.5, 0.3], [*(1.5 * along), 1.0, 0.5, 0.3], [0.0, 0.0, 0.1, 0.1, 1.0]])
    assert separation(box, others)[0, :2] == pytest.approx([0.5, -0.5])
    assert separation(box, others)[0, 2] < -0.5


def test_outer_walls_enclose_the_floor_and_touch_without_overlap() -> None:
    walls = plan().boxes
    assert len(walls) == 4
    assert plan().inside == pytest.approx((-3.9, -2.9, 3.9, 2.9))
    apart = separation(walls, walls)[np.triu_indices(4, 1)]
    assert np.sort(apart)[:4] == pytest.approx(0.0, abs=1e-9) and apart.min() > -1e-9


def test_pieces_keep_their_distance_unless_they_touch() -> None:
    drawn = plan(gap=0.5)
    while drawn.place(CRATE):
        pass
    boxes = drawn.boxes
    assert len(boxes) > 10
    apart = separation(boxes, boxes)[np.triu_indices(len(boxes), 1)]
    assert ((apart >= 0.5 - 1e-4) | (np.abs(apart) < 1e-4)).all()
    assert not plan().place(CRATE, spots=[(0.0, 5.0, 0.0)]), "not outside"
    # flush with the wall's inner side there is room, a little off it there is not
    for y, there in ((2.9 - 0.2, True), (2.9 - 0.3, False)):
        assert plan(gap=0.5).place(CRATE, spots=[(0.0, y, 0.0)]) is there


def test_nothing_is_placed_where_it_is_to_be_free() -> None:
    drawn = plan()
    drawn.keep_free(-3.9, -2.9, 3.5, 2.9)
    assert drawn.is_kept(0.0, 0.0, 1.0, 1.0) and not drawn.is_kept(3.6, 0.0, 3.8, 1.0)
    assert not drawn.place(CRATE)


def test_there_are_no_more_boxes_than_allowed() -> None:
    drawn = plan(boxes=5)
    assert drawn.boxes_left == 1 and drawn.circles_left == 2
    drawn.add(CRATE, 0.0, 0.0)
    assert not drawn.place(CRATE) and not drawn.fits(CRATE)
    with pytest.raises(RuntimeError, match="may have 5 boxes and 2 circles"):
        drawn.add(CRATE, 2.0, 2.0)


def test_a_turned_piece_has_its_parts_where_they_belong() -> None:
    drawn = plan()
    drawn.add(Piece(boxes=((1.0, 0.0, 0.3, 0.1),), circles=((0.0, 1.0, 0.2),)), 0.5, 0.25, math.pi / 2.0)
    assert drawn.boxes[-1] == pytest.approx([0.5, 1.25, 0.3, 0.1, math.pi / 2.0], abs=1e-5)
    assert drawn.circles[-1] == pytest.approx([-0.5, 0.25, 0.2], abs=1e-5)


def test_counts_follow_the_difficulty() -> None:
    assert plan(difficulty=0.0).count(2.0, 5.0) == 2 and plan(difficulty=1.0).count(2.0, 5.0) == 5
    mean = np.mean([plan(seed, difficulty=0.5).count(2.0, 5.0) for seed in range(200)])
    assert mean == pytest.approx(3.5, abs=0.15)
