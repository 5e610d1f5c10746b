"""What every map promises, whichever kind drew it, from whichever seed, for whichever robot."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.ndimage import label

from rlstack.errors import UserError
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.generate import (
    HELD_OUT_SEEDS,
    MOST_BOXES,
    TRAINING_SEEDS,
    WIDTHS,
    draw_map,
    draw_maps,
    most_circles,
    scale_of,
    training_maps,
)
from rlstack.sim.maps.generators import MAP_GENERATORS
from rlstack.sim.maps.map_builder import separation
from rlstack.sim.shapes import Shapes
from rlstack.sim.world_generators.floor_map import world_of

EACH = pytest.mark.parametrize("kind", MAP_GENERATORS.names())
seeds = st.integers(0, HELD_OUT_SEEDS.stop - 1)
difficulties = st.floats(0.0, 1.0)
radii = st.sampled_from([0.07, 0.105, 0.2, 0.6])


def test_the_kinds_that_ship() -> None:
    assert MAP_GENERATORS.names() == ["chairs", "clutter", "corridors", "dead_ends", "doorways", "mazes", "rooms"]


def joined(drawn: FloorMap, radius_m: float) -> bool:
    """Return whether a disc gets from start to goal, by flooding points an eighth of a radius apart.

    None of what drew the map is used: distances are those of worlds, in space, halfway up the obstacles.
    """
    step = radius_m / 8.0
    half = [math.floor(side / 2.0 / step) for side in drawn.size_m]
    x, y = (step * np.arange(-n, n + 1) for n in half)
    points = np.stack([*np.meshgrid(x, y, indexing="ij"), np.full((len(x), len(y)), 0.3)], axis=-1)
    away = Shapes(world_of(drawn).obstacles).distance(points.reshape(-1, 3)).reshape(points.shape[:2])
    regions, _ = label(away >= radius_m + step / 2.0)  # then the straight way to the next point is free too
    ends = []
    for place in (drawn.start, drawn.goal):
        i, j = (round(float(at) / step) + n for at, n in zip(place[:2], half))
        ends.append(regions[i, j])
    return bool(ends[0] > 0 and ends[0] == ends[1])


@EACH
@settings(deadline=None, max_examples=5)
@given(seed=seeds, difficulty=difficulties, radius=radii)
@example(seed=106678, difficulty=0.75, radius=0.105)
def test_the_goal_can_be_reached(kind: str, seed: int, difficulty: float, radius: float) -> None:
    drawn = draw_map(kind, seed, difficulty, radius)
    assert joined(drawn, radius)


def test_the_search_sees_what_closes_a_map() -> None:
    drawn = draw_map("clutter", 3, 0.2)
    x, y = drawn.goal[:2]
    ring = [(x + 0.3 * c, y + 0.3 * s, 0.17) for c, s in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, -0.7))]
    ring += [(x + 0.2, y - 0.2, 0.1), (x - 0.2, y + 0.2, 0.1)]
    shut = FloorMap(**{**vars(drawn), "circles": np.array(ring)})
    assert joined(drawn, 0.105) and not joined(shut, 0.105)


@EACH
@settings(deadline=None, max_examples=3)
@given(seed=seeds, difficulty=difficulties)
def test_the_way_is_as_wide_as_the_difficulty_says(kind: str, seed: int, difficulty: float) -> None:
    drawn = draw_map(kind, seed, difficulty)
    width = WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * difficulty
    # starts and goals themselves may be a quarter nearer to something than the middle of a way
    assert joined(drawn, 0.7 * width * drawn.radius_m)


@EACH
@settings(deadline=None, max_examples=6)
@given(seed=seeds, difficulty=difficulties, radius=radii)
def test_what_a_map_is_made_of(kind: str, seed: int, difficulty: float, radius: float) -> None:
    drawn = draw_map(kind, seed, difficulty, radius)
    assert 4 < len(drawn.boxes) <= MOST_BOXES and len(drawn.circles) <= most_circles([kind])
    side = 8.0 * scale_of(radius)
    assert drawn.size_m == (side, side)
    square = np.array([(*c[:2], c[2], c[2], 0.0) for c in drawn.circles]).reshape(-1, 5)
    for things in (drawn.boxes, square):
        turned = np.abs([np.cos(things[:, 4]), np.sin(things[:, 4])])
        for axis, (c, s) in enumerate((turned, turned[::-1])):
            assert (np.abs(things[:, axis]) + c * things[:, 2] + s * things[:, 3] <= side / 2.0 + 3e-5).all()
    apart = separation(drawn.boxes, drawn.boxes)[np.triu_indices(len(drawn.boxes), 1)]
    assert apart.min() >= -1e-4 * side, "boxes touch and never overlap"
    assert drawn.distance([drawn.start[:2], drawn.goal[:2]]).min() >= 1.2 * radius
    straight = math.dist(drawn.start[:2], drawn.goal[:2])
    assert max(straight - 1e-4, (0.3 + 0.2 * difficulty) * side) <= drawn.shortest_m < 12.0 * side
    assert max(abs(drawn.start[2]), abs(drawn.goal[2])) <= math.pi + 1e-5
    with pytest.raises(ValueError, match="read-only"):
        drawn.boxes[0, 0] = 1.0


@EACH
@settings(deadline=None, max_examples=3)
@given(seed=seeds, difficulty=difficulties)
def test_the_same_arguments_give_the_same_map_and_another_seed_another(kind: str, seed: int, difficulty: float) -> None:
    one, same, other = (draw_map(kind, s, difficulty) for s in (seed, seed, seed + 1))
    for name, array in vars(one).items():
        np.testing.assert_array_equal(array, getattr(same, name))
    assert one.boxes.shape != other.boxes.shape or (one.boxes != other.boxes).any()


DIGESTS = {
    "chairs": "14f48f8d2d17c1d4",
    "clutter": "219b777961321dbe",
    "corridors": "924d623a0e728733",
    "dead_ends": "3ae567fc69d671f1",
    "doorways": "34098efc7251bfd9",
    "mazes": "6fc202bf100a001b",
    "rooms": "93eeae762a4d9e06",
}


@EACH
def test_maps_are_those_of_every_machine_and_version(kind: str) -> None:
    """A report that names a kind and a seed must mean the same map for ever: change a digest only knowingly."""
    drawn = draw_map(kind, 1_000_000, 0.7)
    told = np.concatenate([drawn.boxes.ravel(), drawn.circles.ravel(), drawn.start, drawn.goal])
    whole = np.rint(told * 1e5).astype(np.int64)
    assert hashlib.sha256(whole.tobytes()).hexdigest()[:16] == DIGESTS[kind]


@EACH
def test_difficulty_makes_ways_longer_or_floors_fuller(kind: str) -> None:
    easy, hard = ([draw_map(kind, seed, level) for seed in range(12)] for level in (0.0, 1.0))
    things = [np.mean([len(m.boxes) + len(m.circles) for m in maps]) for maps in (easy, hard)]
    detour = [np.mean([m.shortest_m / math.dist(m.start[:2], m.goal[:2]) for m in maps]) for maps in (easy, hard)]
    assert things[1] > 1.3 * things[0] and detour[1] > detour[0]


def test_several_starts_share_a_goal_and_the_first_is_the_maps_own() -> None:
    many, one = draw_maps("rooms", 5, 0.6, starts=6), draw_map("rooms", 5, 0.6)
    assert 2 <= len(many) <= 6 and all(m.goal is many[0].goal and m.boxes is many[0].boxes for m in many)
    np.testing.assert_array_equal(many[0].start, one.start)
    assert len({tuple(m.start) for m in many}) == len(many)


def test_lengths_that_are_asked_for() -> None:
    for seed in range(8):
        drawn = draw_map("clutter", seed, 0.5, at_least_m=5.0, at_most_m=6.0)
        assert 5.0 <= drawn.shortest_m <= 6.0
        wide = draw_map("corridors", seed, 0.5, size_m=(12.0, 6.0), at_least_m=8.0)
        assert wide.shortest_m >= 8.0 and wide.boxes[:, 0].max() > 5.0 and wide.boxes[:, 1].max() < 3.0


def test_training_never_sees_a_held_out_seed() -> None:
    assert not set(TRAINING_SEEDS[:: len(TRAINING_SEEDS) - 1]) & set(HELD_OUT_SEEDS[:: len(HELD_OUT_SEEDS) - 1])
    assert TRAINING_SEEDS.stop <= HELD_OUT_SEEDS.start
    drawn = training_maps(np.random.default_rng(0), 9, kinds=("clutter", "mazes"), difficulty=(0.2, 0.4), starts=2)
    assert len(drawn) == 9 and {m.kind for m in drawn} == {"clutter", "mazes"}
    assert all(m.seed in TRAINING_SEEDS and 0.2 <= m.difficulty <= 0.4 for m in drawn)

    class Sly(np.random.Generator):
        def integers(self, *_: object, **__: object) -> int:  # type: ignore[override]
            return HELD_OUT_SEEDS.start

    with pytest.raises(ValueError, match="1000000 is not a training seed"):
        training_maps(Sly(np.random.PCG64(0)), 1, kinds=("clutter",))


@given(state=st.integers(0, 2**32))
@settings(deadline=None, max_examples=300)
def test_every_seed_that_training_draws_is_one_to_train_on(state: int) -> None:
    rng = np.random.default_rng(state)
    assert int(rng.integers(TRAINING_SEEDS.start, TRAINING_SEEDS.stop)) in TRAINING_SEEDS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("clutered", 0), "Unknown kind of map 'clutered'. Nearest: clutter"),
        (("clutter", -1), "seed: -1 is not allowed"),
        (("clutter", 1.5), "seed: 1.5 is not allowed"),
        (("clutter", 0, 1.5), "difficulty: 1.5 is not allowed: must be from 0 to 1"),
        (("clutter", 0, math.nan), "difficulty: nan is not allowed"),
        (("clutter", 0, 0.5, 0.0), "radius_m: 0.0 is not allowed"),
    ],
)
def test_what_is_not_allowed_is_refused(arguments: tuple, said: str) -> None:
    with pytest.raises(UserError, match=said):
        draw_map(*arguments)


def test_a_floor_or_a_way_that_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match=r"size_m: \(3.0, 9.0\) is not allowed: both sides must be at least 4 m"):
        draw_map("clutter", 0, size_m=(3.0, 9.0))
    with pytest.raises(
        UserError, match=r"No map of the kind 'clutter' with seed 0 has a path of 90 to inf m on 8 x 8 m"
    ):
        draw_map("clutter", 0, at_least_m=90.0)
