"""Maps as the batch simulator's arrays."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, ABSENT_SIZE_M
from rlstack.sim.maps.generate import HELD_OUT_SEEDS, TRAINING_SEEDS, draw_map
from rlstack.sim.maps.pool import box_rows, build_pool, circle_rows, pool_of


def test_boxes_and_circles_lie_as_the_simulator_takes_them() -> None:
    drawn = draw_map("clutter", 3, 0.7)
    boxes, circles = box_rows(drawn).reshape(24, 6), circle_rows(drawn, 10).reshape(10, 5)
    b, c = len(drawn.boxes), len(drawn.circles)
    assert 4 < b < 24 and 0 < c < 10
    np.testing.assert_allclose(boxes[:b, [0, 1, 4, 5]], drawn.boxes[:, :4], rtol=1e-6)
    np.testing.assert_allclose(
        np.arctan2(boxes[:b, 3], boxes[:b, 2]), np.angle(np.exp(1j * drawn.boxes[:, 4])), atol=1e-6
    )
    np.testing.assert_allclose(circles[:c, :3], drawn.circles, rtol=1e-6)
    assert (circles[:, 3:] == 0.0).all()
    np.testing.assert_allclose(boxes[b:], [[ABSENT_M, ABSENT_M, 1.0, 0.0, ABSENT_SIZE_M, ABSENT_SIZE_M]] * (24 - b))
    np.testing.assert_allclose(circles[c:], [[ABSENT_M, ABSENT_M, ABSENT_SIZE_M, 0.0, 0.0]] * (10 - c))


def test_a_pool_to_train_on() -> None:
    pool = build_pool(
        ("clutter", "rooms"), 7, rng=np.random.default_rng(3), difficulty=(0.1, 0.3), starts=2, boxes=30, circles=12
    )
    assert len(pool) == 7 and pool.boxes.shape == (7, 180) and pool.circles.shape == (7, 60)
    assert pool.boxes.dtype == pool.starts.dtype == np.float32 and pool.starts.shape == pool.goals.shape == (7, 3)
    assert set(pool.kinds) == {"clutter", "rooms"} and ((pool.difficulty >= 0.1) & (pool.difficulty <= 0.3)).all()
    assert all(m.seed in TRAINING_SEEDS for m in pool.maps)
    assert pool.field_index.tolist() == [0, 0, 1, 1, 2, 2, 3] and pool.fields is not None
    assert len(pool.fields.distance) == 4
    distance, _ = pool.fields.look_up(pool.field_index, pool.goals[:, :2])
    assert (distance < 0.15).all()
    same = build_pool(("clutter", "rooms"), 7, rng=np.random.default_rng(3), difficulty=(0.1, 0.3), starts=2, boxes=30)
    np.testing.assert_array_equal(same.boxes, pool.boxes)


def test_a_pool_of_held_out_seeds_spreads_difficulties_within_each_kind() -> None:
    seeds = range(HELD_OUT_SEEDS.start, HELD_OUT_SEEDS.start + 6)
    pool = build_pool(("clutter", "mazes"), 6, seeds=seeds, difficulty=(0.2, 0.8), fields=False)
    assert pool.fields is None and [m.seed for m in pool.maps] == list(seeds)
    assert pool.difficulty == pytest.approx([0.2, 0.2, 0.5, 0.5, 0.8, 0.8])
    assert pool.kinds.tolist() == ["clutter", "mazes"] * 3


def test_what_makes_no_pool_is_refused() -> None:
    drawn = draw_map("clutter", 3, 1.0)
    with pytest.raises(UserError, match="needs at least one map"):
        pool_of([])
    with pytest.raises(UserError, match=r"The map clutter:3 has \d+ boxes and \d circles; the pool has slots for 8"):
        pool_of([drawn], boxes=8)
    with pytest.raises(UserError, match="give rng, to train, or seeds"):
        build_pool(("clutter",), 2)
    with pytest.raises(UserError, match="2 seeds are too few for 3 maps"):
        build_pool(("clutter",), 3, seeds=[1, 2])
