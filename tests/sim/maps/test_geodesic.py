"""Fields of distance and direction to the goal."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generate import draw_map, most_circles, safe_m, search_frame
from rlstack.sim.maps.generators import MAP_GENERATORS
from rlstack.sim.maps.geodesic import Fields, solve_fields
from rlstack.sim.maps.occupancy_grid import GridFrame
from rlstack.sim.maps.pool import pool_of

FRAME = GridFrame(0.1, (-4.0, -4.0), (80, 80))


def map_of(boxes: list[tuple[float, ...]], goal: tuple[float, float] = (0.0, 0.0)) -> FloorMap:
    return FloorMap(
        kind="mine",
        seed=0,
        difficulty=0.0,
        radius_m=0.1,
        size_m=(8.0, 8.0),
        boxes=np.array(boxes, dtype=float).reshape(-1, 5),
        circles=np.zeros((0, 3)),
        start=np.zeros(3),
        goal=np.array([*goal, 0.0]),
        shortest_m=1.0,
    )


def solved(*maps: FloorMap) -> Fields:
    return solve_fields(maps, FRAME, 0.12)


def test_where_the_goal_is_seen_it_is_the_distance_and_the_direction_is_straight() -> None:
    beside = (1.53, -0.52, 0.05, 0.05, 0.0)  # without it nothing would have to be solved
    fields = solved(map_of([beside], goal=(1.03, -0.52)))
    points = np.random.default_rng(0).uniform(-3.9, 3.9, (800, 2))
    points = points[points[:, 0] < 0.9]
    distance, direction = fields.look_up(np.zeros(len(points), dtype=int), points)
    away = np.array([1.03, -0.52]) - points
    straight = np.hypot(*away.T)
    far = straight > 0.6
    assert (np.abs(distance / straight - 1.0)[far] < 0.03).all()
    cosine = (direction * away).sum(axis=1)[far] / straight[far]
    assert np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).max() < 2.5, "not the eight directions of a grid"
    assert np.hypot(*direction[far].T) == pytest.approx(1.0, abs=1e-3)


def test_behind_a_wall_the_way_leads_around_it_and_keeps_off() -> None:
    wall = (0.0, -1.95, 0.05, 2.05, 0.0)  # up to y = 0.1
    fields = solved(map_of([wall], goal=(-1.0, -1.0)))
    distance, direction = fields.look_up(np.zeros(1, dtype=int), np.array([[1.0, -1.0]]))
    over = 2.0 * math.hypot(1.1, 1.2)  # over the corner that a disc's middle keeps off by its radius
    assert 0.98 * over < distance[0] < 1.1 * over
    assert direction[0, 1] > 0.6
    point, nearest = np.array([[1.0, -1.0]]), math.inf
    for _ in range(200):
        point = point + 0.02 * fields.look_up(np.zeros(1, dtype=int), point)[1]
        nearest = min(nearest, float(map_of([wall]).distance(point)[0]))
    assert np.hypot(*(point[0] + 1.0)) < 0.2
    assert nearest > 0.2, "there is room to keep a distance of two radii"


def test_what_cannot_be_reached_gets_what_the_nearest_reachable_cell_has() -> None:
    box = [(2.0, y, 1.0, 0.05, 0.0) for y in (1.0, 3.0)] + [(x, 2.0, 0.05, 1.05, 0.0) for x in (1.0, 3.0)]
    fields = solved(map_of(box))
    distance, direction = fields.look_up(np.zeros(2, dtype=int), np.array([[2.0, 2.0], [2.0, 0.95]]))
    assert np.isfinite(distance).all() and distance.max() < 10.0
    assert direction[1, 1] < -0.5, "out of the wall"


def test_maps_are_solved_each_for_itself() -> None:
    maps = [draw_map(kind, seed, 0.8, 0.1) for seed in range(4) for kind in ("clutter", "mazes")] * 3
    together, alone = solved(*maps), solved(maps[5])
    np.testing.assert_allclose(together.distance[5], alone.distance[0], atol=1e-3)
    np.testing.assert_array_equal(together.distance[5], together.distance[21])
    assert together.distance.dtype == np.float32 and together.direction.dtype == np.float16
    assert together.distance.shape == (24, 80, 80) and together.direction.shape == (24, 80, 80, 2)


@pytest.mark.parametrize("kind", MAP_GENERATORS.names())
def test_whoever_follows_the_directions_arrives_untouched(kind: str) -> None:
    maps = [draw_map(kind, seed, 1.0, 0.2) for seed in range(5)]
    pool = pool_of(maps, circles=most_circles([kind]))
    assert pool.fields is not None
    at, index = pool.starts[:, :2].astype(float), pool.field_index
    first, _ = pool.fields.look_up(index, at)
    assert (first > 0.98 * pool.shortest_m).all() and (first < 1.12 * pool.shortest_m + 0.1).all()
    arrived = np.zeros(5, dtype=bool)
    for _ in range(800):
        distance, direction = pool.fields.look_up(index, at)
        arrived |= distance < 0.2
        at = at + 0.08 * direction * ~arrived[:, None]
        assert min(float(m.distance(p)[0]) for m, p in zip(maps, at)) >= 0.2
        if arrived.all():
            break
    assert arrived.all()


def test_torch_looks_up_the_same() -> None:
    torch = pytest.importorskip("torch")
    pool = pool_of([draw_map("rooms", seed, 0.5) for seed in range(3)])
    assert pool.fields is not None
    rng = np.random.default_rng(1)
    index, points = rng.integers(0, 3, 200), rng.uniform(-4.5, 4.5, (200, 2)).astype(np.float32)
    here = pool.fields.look_up(index, points)
    there = pool.fields.mapped(torch.as_tensor).look_up(torch.as_tensor(index), torch.as_tensor(points))
    for mine, its in zip(here, there):
        np.testing.assert_allclose(mine, its.numpy(), atol=1e-3)


def test_fields_of_robots_of_several_sizes_have_frames_of_their_own() -> None:
    small, large = search_frame(0.105), search_frame(0.6)
    assert small.shape == large.shape == (80, 80)
    assert large.resolution_m == pytest.approx(0.3) and safe_m(0.6) == pytest.approx(math.hypot(0.6, 0.15))
    with pytest.raises(UserError, match="maps of one size for robots of one radius"):
        pool_of([draw_map("clutter", 0, radius_m=0.105), draw_map("clutter", 0, radius_m=0.6)])
