"""Distances to what stands on a map."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.maps.floor_map import distance
from rlstack.sim.maps.generate import draw_map
from rlstack.sim.world_generators.floor_map import world_of


def test_distances_to_a_turned_box_and_a_circle() -> None:
    boxes = np.array([[1.0, 2.0, 0.5, 0.2, np.pi / 2.0]])
    circles = np.array([[-1.0, 0.0, 0.3]])
    x, y = np.array([1.0, 1.5, 1.0, 1.1, -1.0, 4.2]), np.array([3.0, 2.0, 2.1, 2.0, 0.1, 6.5])
    expected = [0.5, 0.3, -0.2, -0.1, -0.2, 5.0]
    np.testing.assert_allclose(distance(boxes, circles, x, y), expected, atol=1e-12)
    grid = distance(boxes, circles, x[None, :], y[:, None])
    np.testing.assert_allclose(np.diag(grid), expected, atol=1e-12)
    assert np.isinf(distance(boxes[:0], circles[:0], x, y)).all()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_a_maps_distance_is_its_worlds(seed: int) -> None:
    drawn = draw_map("dead_ends", seed % 50, 1.0)
    points = np.random.default_rng(seed).uniform(-3.9, 3.9, (200, 2))
    # deep inside an obstacle its top is as near as its sides
    away = drawn.distance(points)
    in_space = world_of(drawn).distance(np.column_stack([points, np.full(200, 0.3)]))
    np.testing.assert_allclose(np.clip(away, -0.05, 0.29), np.clip(in_space, -0.05, 0.29), atol=2e-5)
