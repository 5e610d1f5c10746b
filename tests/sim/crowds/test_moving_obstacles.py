"""Of :mod:`rlstack.sim.crowds.moving_obstacles` and :mod:`rlstack.sim.crowds.walking_models`."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, CIRCLE_ROWS
from rlstack.sim.crowds.moving_obstacles import BEGIN_M, MovingObstacles, moving_scenes
from rlstack.sim.crowds.simulator import CrowdSimulator
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH
from rlstack.sim.maps.pool import build_pool

RADIUS = 0.105
ROBOT = SimpleNamespace(radius_m=RADIUS, footprint=((0.0, 0.0, RADIUS),))
MOST = 3


@pytest.fixture(scope="module")
def pool():
    return build_pool(("clutter", "rooms"), 24, rng=np.random.default_rng(5), starts=2, fields=False)


def scenes_of(pool, seed=0, **settings):
    moving = MovingObstacles(**{"count": (1, MOST), **settings})
    return moving_scenes(np.random.default_rng(seed), pool.maps, moving, RADIUS)


def split(scenes):
    """Return circles (R, P, 5), persons (R, P, width), and who is there (R, P)."""
    people = scenes.people.reshape(len(scenes), -1, CIRCLE_ROWS)
    return people, scenes.persons.reshape(len(scenes), -1, PERSON_WIDTH), people[..., 0] < 0.5 * ABSENT_M


def test_they_are_as_asked_for_and_begin_apart(pool):
    people, persons, there = split(scenes_of(pool, sees_robot=0.5))
    assert there.any(axis=1).all() and there.all(axis=1).any() and not there.all()
    radius, speed = people[..., 2][there], persons[..., PERSON["speed"]][there]
    assert (radius >= 0.1).all() and (radius <= 0.25).all() and (speed >= 0.05).all() and (speed <= 0.25).all()
    assert persons[..., PERSON["avoids"]][there].all() and not persons[..., PERSON["stays"]][there].any()
    assert 0.2 < persons[..., PERSON["sees_robot"]][there].mean() < 0.8
    gap = np.linalg.norm(people[..., :2] - pool.starts[:, None, :2], axis=-1) - people[..., 2]
    assert (gap[there] >= RADIUS + BEGIN_M - 1e-4).all()
    for row, here in zip(people, there):
        for k, one in enumerate(row[here]):
            for other in row[here][:k]:
                assert np.hypot(*(one - other)[:2]) > one[2] + other[2]


def test_straight_ways_between_their_places_have_room_for_the_robot(pool):
    people, persons, there = split(scenes_of(pool))
    for row, person, here, floor in zip(people, persons, there, pool.maps):
        for mover, what in zip(row[here], person[here]):
            places = [mover[:2], *what[PERSON["waypoints"]].reshape(-1, 2)]
            assert np.allclose(places[0], places[-1])  # and round again from there
            for one, other in pairwise(places):
                along = one + np.linspace(0.0, 1.0, 200)[:, None] * (other - one)
                assert floor.distance(along).min() > mover[2] + 2.0 * RADIUS


def test_many_cross_the_way_to_the_goal(pool):
    people, persons, there = split(scenes_of(pool, count=(3, 3)))
    crossing = 0
    for row, person, here, floor in zip(people, persons, there, pool.maps):
        start, way = floor.start[:2], floor.goal[:2] - floor.start[:2]
        for mover, what in zip(row[here], person[here]):
            ends = np.array([mover[:2], what[PERSON["waypoints"]][:2]]) - start
            side = way[0] * ends[:, 1] - way[1] * ends[:, 0]
            crossing += side[0] * side[1] < 0.0
    assert crossing > 0.7 * there.sum()


def test_they_walk_and_touch_neither_things_nor_each_other(pool):
    scenes = scenes_of(pool, count=(3, 3))
    people, persons, there = split(scenes)
    walking = CrowdSimulator(scenes, pool.boxes, pool.circles, ROBOT, 0.1)
    away, still = np.full((len(pool), 3), 100.0), np.zeros((len(pool), 3))
    farthest = np.zeros(there.shape)
    for step in range(300):
        walking.step(away, still)
        now = walking.people
        farthest = np.maximum(farthest, np.linalg.norm(now[..., :2] - people[..., :2], axis=-1))
        if step % 10:
            continue
        for row, here, floor in zip(now, there, pool.maps):
            row = row[here]
            assert (floor.distance(row[:, :2]) > row[:, 2]).all()
            apart = np.linalg.norm(row[:, None, :2] - row[None, :, :2], axis=-1) - row[:, None, 2] - row[None, :, 2]
            assert (apart[np.triu_indices(len(row), 1)] > 0.0).all()
    assert np.median(farthest[there]) > 0.5
    slow = persons[..., PERSON["speed"]][..., 0]
    assert (np.hypot(now[..., 3], now[..., 4])[there] <= slow[there] + 1e-3).all()


def test_who_sees_the_robot_does_not_walk_into_it(pool):
    """The robot stands in the way that each takes first; who does not see it goes through it."""
    gaps = {}
    for sees in (0.0, 1.0):
        scenes = scenes_of(pool, count=(1, 1), sees_robot=sees)
        people, persons, there = split(scenes)
        pose = np.zeros((len(pool), 3))
        pose[:, :2] = 0.5 * (people[:, 0, :2] + persons[:, 0, :2])
        walking = CrowdSimulator(scenes, pool.boxes, pool.circles, ROBOT, 0.1)
        least = np.full(len(pool), np.inf)
        for _ in range(300):
            walking.step(pose, np.zeros((len(pool), 3)))
            now = walking.people[:, 0]
            least = np.minimum(least, np.linalg.norm(now[:, :2] - pose[:, :2], axis=1) - now[:, 2] - RADIUS)
        gaps[sees] = least[there[:, 0]]
    assert (gaps[1.0] > 0.0).all()
    assert (gaps[0.0] < 0.0).mean() > 0.5


def test_the_same_seed_draws_the_same(pool):
    one, same, other = scenes_of(pool, 1), scenes_of(pool, 1), scenes_of(pool, 2)
    assert np.array_equal(one.people, same.people) and np.array_equal(one.persons, same.persons)
    assert not np.array_equal(one.people, other.people)


def test_a_map_without_room_has_none():
    tight = build_pool(("corridors",), 3, rng=np.random.default_rng(0), difficulty=(1.0, 1.0), fields=False)
    *_, there = split(moving_scenes(np.random.default_rng(0), tight.maps, MovingObstacles(count=(3, 3)), RADIUS))
    assert not there.any()


@pytest.mark.parametrize("name", ["count", "speed_m_s", "radius_m"])
def test_ranges_begin_with_the_least(name):
    with pytest.raises(ValueError, match=rf"{name}: \[3, 2\] is not allowed: the lower end must come first"):
        MovingObstacles(**{name: (3, 2)})


def test_too_few_places_are_refused(pool):
    with pytest.raises(UserError, match="1 slots are too few for up to 3 moving obstacles"):
        moving_scenes(np.random.default_rng(0), pool.maps, MovingObstacles(count=(0, 3)), RADIUS, places=1)
