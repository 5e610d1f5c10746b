"""What every world promises, whichever generator drew it and from whichever seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections import deque
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.resources import list_resources
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World, WorldFile, generate, load_world, read_world, world_names
from rlstack.sim.world_generators import WORLD_GENERATORS

SHIPPED: dict[str, WorldFile] = {name: read_world(path) for name, path in list_resources("sim", ".yaml").items()}
FILES = {name: file for name, file in SHIPPED.items() if file.generator != "floor_map"}
"""What worlds of maps for mobile bases promise is in tests/sim/maps."""
EACH = pytest.mark.parametrize("name", sorted(FILES))
DRAWN = pytest.mark.parametrize("name", sorted(set(FILES) - {"empty"}))
seeds = st.sampled_from([0, 1, 2**63, *(int(k) for k in np.random.default_rng(7).integers(2**63, size=9))])
"""Twelve, so that worlds, which take most of the time here, are drawn once for all that they promise."""


def draw(name: str, seed: int) -> World:
    return generate(FILES[name], name, seed)


world = cache(draw)


def test_each_generator_has_a_world_that_ships() -> None:
    assert sorted(FILES) == ["corridor", "empty", "forest", "room", "track", "warehouse"]
    assert all(file.generator == name for name, file in FILES.items())
    assert world_names() == sorted(SHIPPED) and WORLD_GENERATORS.names() == sorted([*FILES, "floor_map"])


@EACH
def test_the_file_sets_everything_that_its_generator_lets_be_set(name: str) -> None:
    generator = WORLD_GENERATORS.load(name)
    assert set(FILES[name].settings) == {f.name for f in dataclasses.fields(generator.settings)}
    assert schema.load(generator.settings, FILES[name].settings, name) == generator.settings(), "and to the defaults"


@EACH
@settings(deadline=None, max_examples=8)
@given(seed=seeds)
def test_the_same_seed_gives_the_same_world_bit_for_bit(name: str, seed: int) -> None:
    assert draw(name, seed) == draw(name, seed)


@EACH
@settings(deadline=None, max_examples=8)
@given(seed=seeds)
def test_another_seed_gives_another_world(name: str, seed: int) -> None:
    one, other = world(name, seed), world(name, seed + 1)
    assert one.starts_m != other.starts_m
    if name != "empty":
        assert one.obstacles != other.obstacles


DIGESTS = {
    "corridor": "fd0c8fc7e5ae6e4b",
    "empty": "716ba34abf2bed30",
    "forest": "d12696c803cbde31",
    "room": "60288eb6ded5bb8c",
    "track": "bbd915510d6d0d8a",
    "warehouse": "01d92acc083a2508",
}


@EACH
def test_worlds_are_those_of_every_machine_and_version(name: str) -> None:
    """A report that names a world and a seed must mean the same place for ever: change a digest only knowingly."""
    drawn = world(name, 0)
    assert not any(o.kinematic or o.friction is not None or o.slide or o.part_of for o in drawn.obstacles)
    since = ("kinematic", "friction", "slide", "part_of")
    pieces = [{key: v for key, v in schema.to_data(o).items() if key not in since} for o in drawn.obstacles]
    told = pieces, drawn.starts_m, drawn.bounds_m
    assert hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16] == DIGESTS[name]


@EACH
@settings(deadline=None, max_examples=12)
@given(seed=seeds)
def test_start_places_are_free_apart_and_enough(name: str, seed: int) -> None:
    drawn, rules = world(name, seed), FILES[name].starts
    places = np.array(drawn.starts_m)
    assert len(places) == rules.count >= 16
    assert drawn.starts_m[0] == (0.0, 0.0, 0.0)
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(len(places), 1)]
    assert gaps.min() >= rules.spacing_m - 1e-9
    for height in np.linspace(0.0, rules.body_height_m - rules.clearance_m, 5):
        at = places + np.array([0.0, 0.0, height])
        assert all(drawn.free(tuple(p), rules.clearance_m - 1e-6) for p in at)


@DRAWN
@settings(deadline=None, max_examples=2)
@given(seed=seeds)
def test_a_body_gets_from_every_start_place_to_every_other(name: str, seed: int) -> None:
    drawn, rules = world(name, seed), FILES[name].starts
    reached = walked(drawn, rules.body_radius_m, rules.body_height_m)
    assert all((round(10 * x), round(10 * y)) in reached for x, y, _ in drawn.starts_m)


def walked(drawn: World, radius: float, height: float) -> set[tuple[int, int]]:
    """Return where a stack of balls of that radius gets from the origin, in steps of 0.1 m, by World.distance alone."""
    (x0, y0, _), (x1, y1, _) = drawn.bounds_m
    i, j = (np.arange(math.ceil(10 * a), math.floor(10 * b) + 1) for a, b in ((x0, x1), (y0, y1)))
    cells = np.stack(np.meshgrid(i, j, indexing="ij"), axis=-1).reshape(-1, 2)
    ghost = dataclasses.replace(drawn, floor=False)
    free = np.ones(len(cells), dtype=bool)
    for level in np.linspace(0.05, height - radius, 4):
        points = np.column_stack([cells[free] / 10.0, np.full(free.sum(), level)])
        free[free] = ghost.distance(points) >= radius
    free_cells = {(int(a), int(b)) for a, b in cells[free]}
    reached, ahead = set(), deque([(0, 0)])
    while ahead:
        cell = ahead.popleft()
        if cell in free_cells and cell not in reached:
            reached.add(cell)
            a, b = cell
            ahead.extend([(a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)])
    return reached


@DRAWN
@settings(deadline=None, max_examples=12)
@given(seed=seeds)
def test_obstacles_are_in_bounds_and_have_names_of_their_own(name: str, seed: int) -> None:
    drawn = world(name, seed)
    low, high = drawn.bounds_m
    for o in drawn.obstacles:
        (x, y, _), (rx, ry) = o.position_m, o.reach_m
        assert low[0] - 1e-5 <= x - rx and x + rx <= high[0] + 1e-5
        assert low[1] - 1e-5 <= y - ry and y + ry <= high[1] + 1e-5
        assert low[2] - 1e-5 <= o.lowest_m and o.highest_m <= high[2] + 1e-5
    names = [o.name for o in drawn.obstacles]
    assert len(set(names)) == len(names)


@DRAWN
@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_nothing_is_inside_of_anything_else(name: str, seed: int) -> None:
    """Shelves touch their posts and goods their shelves, but none goes into another."""
    many = world(name, seed).obstacles
    middle = np.array([o.position_m for o in many])
    half = np.array([(*o.reach_m, o.size_m[2] / 2.0) for o in many])
    near = (np.abs(middle[:, None] - middle) < half[:, None] + half).all(axis=2)
    for i, j in np.argwhere(np.triu(near, 1)):
        assert depth(many[i], many[j]) < 1e-4, f"{many[i]} is inside of {many[j]}"


def depth(one: Obstacle, other: Obstacle) -> float:
    """Return how deep two obstacles go into each other along their best separating direction among some, m.

    For boxes and upright cylinders that is exact in sign; spheres are taken as the cylinders around them.
    """
    deep = min(one.highest_m, other.highest_m) - max(one.lowest_m, other.lowest_m)
    away = np.array(other.position_m[:2]) - one.position_m[:2]
    angles = [o.yaw_rad + q for o in (one, other) if o.shape == "box" for q in (0.0, math.pi / 2)]
    for round_one, box_like in ((one, other), (other, one)):
        if round_one.shape == "box":
            continue
        # From a circle's middle to the nearest point of the other's outline.
        between = np.array(round_one.position_m[:2]) - box_like.position_m[:2]
        if box_like.shape == "box":
            c, s = math.cos(box_like.yaw_rad), math.sin(box_like.yaw_rad)
            local = np.array([c * between[0] + s * between[1], c * between[1] - s * between[0]])
            nearest = np.clip(local, -np.array(box_like.size_m[:2]) / 2.0, np.array(box_like.size_m[:2]) / 2.0)
            local = local - nearest
            between = np.array([c * local[0] - s * local[1], s * local[0] + c * local[1]])
        angles.append(math.atan2(between[1], between[0]))
    for angle in angles:
        direction = np.array([math.cos(angle), math.sin(angle)])
        deep = min(deep, half_width(one, direction) + half_width(other, direction) - abs(away @ direction))
    return deep


def half_width(o: Obstacle, direction: np.ndarray) -> float:
    if o.shape != "box":
        return o.size_m[0] / 2.0
    c, s = math.cos(o.yaw_rad), math.sin(o.yaw_rad)
    x, y = direction @ [c, s], direction @ [-s, c]
    return (abs(x) * o.size_m[0] + abs(y) * o.size_m[1]) / 2.0


def test_depth_finds_what_overlaps() -> None:
    box = Obstacle(name="box", shape="box", size_m=(2.0, 1.0, 1.0), position_m=(0.0, 0.0, 0.5), yaw_rad=0.3)
    for at, expected in (((1.2, 0.0, 0.5), True), ((1.9, 0.6, 0.5), False), ((0.0, 0.0, 1.5), False)):
        pole = Obstacle(name="pole", shape="cylinder", size_m=(0.6, 0.6, 1.0), position_m=at)
        assert (depth(box, pole) > 1e-9) == expected == (depth(pole, box) > 1e-9), at
        turned = Obstacle(name="turned", shape="box", size_m=(0.6, 0.5, 1.0), position_m=at, yaw_rad=1.1)
        assert (depth(box, turned) > 1e-9) == expected, at


@EACH
def test_a_world_is_drawn_in_a_fifth_of_a_second(name: str) -> None:
    load_world(name)
    taken = []
    for seed in range(3):
        begin = time.process_time()
        load_world(f"{name}:{seed}")
        taken.append(time.process_time() - begin)
    assert min(taken) < 0.2


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_poles_keep_their_gap_and_the_clearing(seed: int) -> None:
    poles = world("forest", seed).obstacles
    at, radius = np.array([o.position_m[:2] for o in poles]), np.array([o.size_m[0] / 2.0 for o in poles])
    gaps = np.linalg.norm(at[:, None] - at, axis=2) - radius[:, None] - radius
    assert gaps[np.triu_indices(len(poles), 1)].min() >= 1.3 - 1e-5
    assert (np.linalg.norm(at, axis=1) - radius).min() >= 1.5 - 1e-5
    assert len(poles) == 70 and radius.min() >= 0.06 - 1e-6 and radius.max() <= 0.22 + 1e-6


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_aisles_stay_wide_enough(seed: int) -> None:
    drawn = world("warehouse", seed)
    rows = sorted({o.position_m[1] for o in drawn.obstacles if o.name.startswith("rack_board")})
    racks = [-10.0 - 0.55, *rows, 10.0 + 0.55]
    assert min(b - a - 1.1 for a, b in pairwise(racks)) >= 2.6
    # Along every aisle, walking on its lower side, there is the promised passage beside the pallets.
    ghost = dataclasses.replace(drawn, floor=False)
    for row in rows:
        x = np.arange(-14.0, 14.0, 0.05)
        side = row - 0.55 - 0.6  # half a passage off the rack
        free = ghost.distance(np.column_stack([x, np.full_like(x, side), np.full_like(x, 1.0)])) >= 0.55
        in_aisle = (np.abs(x) > 2.5) & (x > -8.0) & (x < 11.0)
        assert free[in_aisle].all()


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_a_room_has_a_doorway_below_its_lintel(seed: int) -> None:
    drawn = world("room", seed)
    (lintel,) = (o for o in drawn.obstacles if o.name.startswith("lintel"))
    x, y, _ = lintel.position_m
    for height in (0.3, 1.0, 1.5):
        across = np.array([[x + d, y, height] for d in np.linspace(-0.8, 0.8, 17)])
        assert dataclasses.replace(drawn, floor=False).distance(across).min() >= 0.55
    assert lintel.lowest_m == pytest.approx(2.1) and lintel.highest_m == pytest.approx(2.8)


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_a_corridor_is_closed_at_the_height_of_a_hand(seed: int) -> None:
    drawn = world("corridor", seed)
    # A ray that runs exactly within the faces of two walls that touch may pass between them: none here does.
    angles = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False) + 1e-4
    around = np.column_stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])
    for x, y, _ in drawn.starts_m:
        assert np.isfinite(drawn.cast(np.tile([x, y, 1.9], (360, 1)), around, 60.0)).all()


TOO_LARGE = {
    "empty": {"size_m": [1000, 1000, 5]},
    "forest": {"size_m": [500, 500]},
    "floor_map": {"size_m": [500, 1e6]},
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_floor_that_would_take_minutes_or_the_machine_s_memory_is_refused(name: str) -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match=r"m\^2"):
        generate(schema.load(WorldFile, {"generator": name, "settings": TOO_LARGE[name]}, "f"), name, 0)
    assert time.monotonic() - started < 5.0


NUMBERS = {
    (name, field.name)
    for name in WORLD_GENERATORS.names()
    for field in dataclasses.fields(WORLD_GENERATORS.load(name).settings)
    if field.name.endswith("_m")
}


@pytest.mark.parametrize(("name", "field"), sorted(NUMBERS))
@pytest.mark.parametrize("number", [1e308, -1e308, 5e-324, 1e-15, 1e9, 1e154])
def test_a_hostile_length_is_refused_or_drawn(name: str, field: str, number: float) -> None:
    for given_value in (number, [number, number], [number] * 3, [1.0, number], [-number, number]):
        started = time.monotonic()
        try:
            made = generate(schema.load(WorldFile, {"generator": name, "settings": {field: given_value}}, "f"), name, 0)
        except UserError as error:
            assert str(error)
        else:
            assert np.isfinite(made.bounds_m).all()
        assert time.monotonic() - started < 20.0
