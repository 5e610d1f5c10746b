"""Of :mod:`rlstack.perception.people`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from rlstack.perception.people import FAR_M, PeopleTracker
from rlstack.robots import Lidar
from rlstack.sim.batch_wheeled_base.layout import STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import ObstacleLidar

RAYS = 360
ANGLES = np.linspace(-np.pi, np.pi, RAYS, endpoint=False)
PERIOD = 0.1


def scans(people, boxes=(), pose=(0.0, 0.0, 0.0), noise=0.01, seed=0):
    """Return ranges (1, rays) among people (x, y) of 0.25 m and boxes (x, y, half x, half y)."""
    box = np.array([[x, y, 1.0, 0.0, a, b] for x, y, a, b in boxes] or [[1e3, 0, 1, 0, 0.1, 0.1]], np.float32)
    circle = np.array([[x, y, 0.25, 0.0, 0.0] for x, y in people] or [[1e3, 0, 0.01, 0, 0]], np.float32)
    state = np.zeros((STATE_WIDTH, 1), np.float32)
    state[:2, 0], state[2:4, 0] = pose[:2], (np.sin(0.5 * pose[2]), np.cos(0.5 * pose[2]))
    lidar = _lidar(len(box), len(circle), noise)
    ranges = np.zeros((RAYS, 1), np.float32)
    normals = np.random.default_rng(seed).standard_normal((RAYS, 1)).astype(np.float32)
    lidar(state, box.reshape(-1, 1), circle.reshape(-1, 1), ranges, normals)
    return ranges.T.astype(float)


@lru_cache
def _lidar(boxes, circles, noise):
    lidar = Lidar(rays=RAYS, rate_hz=10.0, range_min_m=0.1, range_max_m=8.0, noise_m=noise)
    return ObstacleLidar(lidar, boxes, circles)


def test_a_person_who_walks_is_found_with_place_velocity_and_radius():
    tracker = PeopleTracker(ANGLES, 8.0)
    for step in range(30):
        where = -2.0 + 0.8 * PERIOD * step, 1.5
        tracker.update(scans([where], seed=step), np.zeros((1, 3)), PERIOD)
    there = tracker.confirmed[0]
    assert there.sum() == 1
    assert tracker.position[0, there][0] == pytest.approx(where, abs=0.08)
    assert tracker.velocity[0, there][0] == pytest.approx((0.8, 0.0), abs=0.15)
    assert tracker.radius[0, there][0] == pytest.approx(0.25, abs=0.05)


def test_somebody_across_the_scans_ends_is_one_person():
    tracker = PeopleTracker(ANGLES, 8.0)
    for step in range(6):
        tracker.update(scans([(-1.5, 0.0)], seed=step), np.zeros((1, 3)), PERIOD)
    assert tracker.confirmed[0].sum() == 1
    assert tracker.position[0, tracker.confirmed[0]][0] == pytest.approx((-1.5, 0.0), abs=0.06)


def test_walls_and_furniture_are_nobody():
    tracker = PeopleTracker(ANGLES, 8.0)
    walls = [(0.0, 4.5, 4.5, 0.1), (0.0, -4.5, 4.5, 0.1), (4.5, 0.0, 0.1, 4.5)]
    things = [*walls, (2.0, 1.0, 0.6, 0.4), (-2.0, -2.0, 1.0, 0.1)]
    for step in range(20):
        pose = (0.02 * step, -0.01 * step, 0.1 * step)
        tracker.update(scans([], things, pose, seed=step), np.array([pose]), PERIOD)
    assert not tracker.confirmed.any()
    signals = tracker.signals()
    assert (signals["people_position"][0, :, 0] == FAR_M).all()
    assert not signals["people_velocity"].any()


def test_a_robot_that_drives_and_turns_sees_who_stands_stand():
    tracker = PeopleTracker(ANGLES, 8.0)
    for step in range(40):
        pose = (0.03 * step, 0.01 * step, 0.08 * step)
        tracker.update(scans([(2.0, 1.5)], pose=pose, seed=step), np.array([pose]), PERIOD)
    there = tracker.confirmed[0]
    assert np.linalg.norm(tracker.velocity[0, there][0]) < 0.2
    assert tracker.position[0, there][0] == pytest.approx((2.0, 1.5), abs=0.08)


def test_who_is_hidden_goes_on_for_a_while_under_the_same_number():
    tracker = PeopleTracker(ANGLES, 8.0)
    wall = [(0.0, 1.0, 0.2, 0.05)]
    numbers = []
    for step in range(50):
        where = -2.0 + 1.0 * PERIOD * step, 2.0  # behind the wall from the robot for 0.8 m
        tracker.update(scans([where], wall, seed=step), np.zeros((1, 3)), PERIOD)
        numbers.append(tuple(tracker.identity[0, tracker.confirmed[0]]))
    assert numbers[-1] == numbers[10] and len(numbers[-1]) == 1
    for step in range(15):
        tracker.update(scans([], wall, seed=step), np.zeros((1, 3)), PERIOD)
    assert not tracker.confirmed.any()


def test_two_who_pass_each_other_keep_their_numbers():
    tracker = PeopleTracker(ANGLES, 8.0)
    for step in range(40):
        x = -2.0 + 0.1 * step
        tracker.update(scans([(x, 1.5), (-x, 2.6)], seed=step), np.zeros((1, 3)), PERIOD)
        if step == 8:
            before = {int(n): p for n, p in zip(tracker.identity[0], tracker.position[0]) if abs(p[0]) < 9}
    after = {int(n): p for n, p in zip(tracker.identity[0], tracker.position[0]) if abs(p[0]) < 9}
    near = {n for n, p in before.items() if p[1] < 2.0}
    assert {n for n, p in after.items() if p[1] < 2.0} == near


def test_many_robots_are_tracked_as_each_alone():
    poses = np.array([[0.0, 0.0, 0.0], [1.0, 0.5, 1.0]])
    people = [[(2.0, 0.0)], [(-1.0, 2.0), (2.0, 2.5)]]
    together = PeopleTracker(ANGLES, 8.0, count=2)
    alone = [PeopleTracker(ANGLES, 8.0) for _ in range(2)]
    for step in range(8):
        ranges = np.concatenate([scans(people[k], pose=poses[k], seed=step) for k in range(2)])
        together.update(ranges, poses, PERIOD)
        for k in range(2):
            alone[k].update(ranges[k : k + 1], poses[k : k + 1], PERIOD)
    for k in range(2):
        for name, array in alone[k].signals().items():
            np.testing.assert_allclose(together.signals()[name][k], array[0], atol=1e-12)
    assert together.confirmed.sum(axis=1).tolist() == [1, 2]
