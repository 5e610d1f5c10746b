"""Distances and rays against what needs no formula: points on surfaces, steps along rays, known places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.obstacle import Obstacle
from rlstack.sim.shapes import Shapes

BOX = Obstacle(name="box", shape="box", size_m=(2.0, 1.0, 0.5), position_m=(1.0, 0.0, 2.0), yaw_rad=math.pi / 2)
POLE = Obstacle(name="pole", shape="cylinder", size_m=(0.4, 0.4, 2.0), position_m=(0.0, 3.0, 1.0))
BALL = Obstacle(name="ball", shape="sphere", size_m=(1.0, 1.0, 1.0), position_m=(-2.0, 0.0, 1.0))

lengths = st.floats(0.05, 3.0)
places = st.floats(-4.0, 4.0)


@st.composite
def obstacles(draw: st.DrawFn) -> Obstacle:
    shape = draw(st.sampled_from(["box", "cylinder", "sphere"]))
    x, y, z = (draw(lengths) for _ in range(3))
    size = {"box": (x, y, z), "cylinder": (x, x, z), "sphere": (x, x, x)}[shape]
    at = tuple(draw(places) for _ in range(3))
    return Obstacle(name="one", shape=shape, size_m=size, position_m=at, yaw_rad=draw(st.floats(-7.0, 7.0)))


def surface(obstacle: Obstacle, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return points (count, 3) on an obstacle's surface."""
    half = np.array(obstacle.size_m) / 2.0
    if obstacle.shape == "sphere":
        local = rng.normal(size=(count, 3))
        local *= half / np.linalg.norm(local, axis=1, keepdims=True)
    elif obstacle.shape == "box":
        local = rng.uniform(-half, half, (count, 3))
        axis = rng.integers(3, size=count)
        local[np.arange(count), axis] = rng.choice([-1.0, 1.0], count) * half[axis]
    else:
        angle, radius = rng.uniform(0.0, 2.0 * np.pi, count), half[0] * np.sqrt(rng.uniform(size=count))
        height = rng.uniform(-half[2], half[2], count)
        cap = rng.random(count) < 0.5
        radius[~cap], height[cap] = half[0], rng.choice([-1.0, 1.0], cap.sum()) * half[2]
        local = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    c, s = math.cos(obstacle.yaw_rad), math.sin(obstacle.yaw_rad)
    return local @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) + obstacle.position_m


@pytest.mark.parametrize(
    ("point", "distance"),
    [
        ((1.0, 2.0, 2.0), 1.0),  # the box is turned: its long side is along y
        ((2.0, 0.0, 2.0), 0.5),
        ((1.0, 0.0, 2.1), -0.15),
        ((1.5 + 0.3, 1.0 + 0.4, 2.25), 0.5),
        ((0.0, 3.0, 2.5), 0.5),
        ((0.2 + 0.3, 3.0, 2.4), 0.5),
        ((0.0, 3.1, 1.0), -0.1),
        ((-2.0, 0.0, 1.0), -0.5),
        ((-2.0, 2.0, 1.0), 1.5),
    ],
)
def test_known_distances(point: tuple[float, float, float], distance: float) -> None:
    assert Shapes([BOX, POLE, BALL]).distance(np.array([point]))[0] == pytest.approx(distance, abs=1e-12)


def test_the_floor_is_solid_and_nothing_is_far_from_everything() -> None:
    points = np.array([[0.0, 0.0, 0.3], [0.0, 0.0, -0.2]])
    assert Shapes([], floor=True).distance(points).tolist() == [0.3, -0.2]
    assert np.isinf(Shapes([]).distance(points)).all()


@settings(deadline=None, max_examples=60)
@given(obstacles(), st.integers(0, 2**32 - 1))
def test_distance_is_that_to_the_nearest_point_of_the_surface(obstacle: Obstacle, seed: int) -> None:
    rng = np.random.default_rng(seed)
    on, shapes = surface(obstacle, rng, 4000), Shapes([obstacle])
    assert np.abs(shapes.distance(on)).max() < 1e-9
    points = rng.uniform(-6.0, 6.0, (40, 3))
    sampled = np.sqrt(((points[:, None] - on) ** 2).sum(axis=2)).min(axis=1)
    exact = np.abs(shapes.distance(points))
    spacing = 6.0 * max(obstacle.size_m) / math.sqrt(4000)
    assert (exact <= sampled + 1e-9).all() and (sampled <= exact + spacing).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(obstacles(), min_size=1, max_size=5), st.booleans(), st.integers(0, 2**32 - 1))
def test_a_ray_ends_on_a_surface_and_crosses_none_before(many: list[Obstacle], floor: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = Shapes(many, floor)
    origins = rng.uniform(-6.0, 6.0, (50, 3)) * [1.0, 1.0, 0.5] + [0.0, 0.0, 3.0]
    directions = rng.normal(size=(50, 3))
    directions[:10, 2] = directions[10:20, 0] = 0.0
    directions[20:25, :2] = directions[25:30, 1:] = 0.0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    reach = shapes.cast(origins, directions)
    met = np.isfinite(reach)
    ends = origins[met] + reach[met, None] * directions[met]
    each = [Shapes([one]) for one in many] + ([Shapes([], floor=True)] if floor else [])
    nearest = np.min([np.abs(one.distance(ends)) for one in each], axis=0)
    assert nearest.max(initial=0.0) < 1e-7
    # On the way, and for 20 m where nothing is met, a ray stays on the side that it starts on.
    share = np.linspace(0.0, 1.0, 400)[1:-1]
    along = (np.where(met, reach, 20.0)[:, None] * share)[..., None] * directions[:, None] + origins[:, None]
    sides = shapes.distance(along.reshape(-1, 3)).reshape(50, -1)
    outside = shapes.distance(origins) > 0.0
    assert (sides[outside] > -1e-7).all()


def test_rays_along_the_axes_beside_and_through() -> None:
    shapes = Shapes([BOX, POLE, BALL], floor=True)
    origins = np.array([[0.0, 3.0, 5.0], [0.19, 3.0, 5.0], [0.21, 3.0, 5.0], [0.21, 3.0, 5.0], [1.0, -3.0, 2.0]])
    directions = np.array([[0.0, 0.0, -1.0]] * 3 + [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert shapes.cast(origins, directions) == pytest.approx([3.0, 3.0, 5.0, np.inf, 2.0])


def test_a_ray_from_inside_ends_where_it_leaves() -> None:
    origins = np.tile(BALL.position_m, (2, 1))
    assert Shapes([BALL]).cast(origins, np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])) == pytest.approx([0.5, 0.5])


def test_many_points_at_once_are_what_each_is_alone() -> None:
    rng = np.random.default_rng(0)
    shapes = Shapes([BOX, POLE, BALL] * 40, floor=True)
    points = rng.uniform(-4.0, 4.0, (5000, 3))
    directions = rng.normal(size=(5000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    some = slice(2990, 3010)
    assert (shapes.distance(points)[some] == shapes.distance(points[some])).all()
    assert (shapes.cast(points, directions)[some] == shapes.cast(points[some], directions[some])).all()
