"""Of :mod:`rlstack.sim.crowds.walking_models` and :mod:`rlstack.sim.crowds.orca`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import Kernel
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, ABSENT_SIZE_M
from rlstack.sim.crowds import orca
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH, WALK_WIDTH, Crowd, CrowdLayout, Orca, SocialForce

pyrvo = pytest.importorskip("pyrvo")

PERIOD = 0.25


def crowd(count, people=5, circles=0, boxes=0, rule=None, seed=0, **settings):
    """Return a crowd, its arrays and its step: people on a circle of 4 m who cross it."""
    rng = np.random.default_rng(seed)
    layout = CrowdLayout(people, circles + people, boxes)
    made = Crowd(layout, PERIOD, rule or Orca(), **settings)
    circle = np.zeros((layout.circles, 5, count), np.float32)
    circle[:, :2], circle[:, 2] = ABSENT_M, ABSENT_SIZE_M
    angle = (np.arange(people)[:, None] + rng.uniform(0.2, 0.8, (people, count))) * 2.0 * np.pi / people
    start = 4.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    circle[circles:, :2], circle[circles:, 2] = start, 0.3
    person = np.zeros((people, PERSON_WIDTH, count), np.float32)
    person[:, PERSON["waypoints"]] = np.tile(-start, (1, 4, 1))
    person[:, PERSON["speed"]] = person[:, PERSON["avoids"]] = person[:, PERSON["stays"]] = 1.0
    box = np.zeros((boxes, 6, count), np.float32)
    box[:, :2], box[:, 2], box[:, 4:] = ABSENT_M, 1.0, ABSENT_SIZE_M
    robot = np.full((5, count), ABSENT_M, np.float32)
    arrays = {"circles": circle, "person": person, "boxes": box, "robot": robot}
    arrays = {name: array.reshape(-1, count) for name, array in arrays.items()}
    arrays["walk"] = np.zeros((WALK_WIDTH * people, count), np.float32)
    arrays["next_circles"], arrays["next_walk"] = arrays["circles"].copy(), arrays["walk"].copy()
    launch = made.prepare(arrays)

    def step():
        launch()
        arrays["circles"][:], arrays["walk"][:] = arrays["next_circles"], arrays["next_walk"]

    return arrays, step


def test_people_of_orca_walk_as_those_of_rvo2():
    arrays, step = crowd(40)
    circle = arrays["circles"].reshape(5, 5, 40)
    simulators = []
    for n in range(40):
        simulator = pyrvo.RVOSimulator(PERIOD, 10.0, 10, 5.0, 5.0, 0.31, 1.0)
        for x, y in circle[:, :2, n].tolist():
            simulator.add_agent((x, y), 10.0, 10, 5.0, 5.0, 0.31, 1.0, (0.0, 0.0))
        simulators.append(simulator)
    goal = -circle[:, :2].copy()
    worst = np.zeros(40)
    for _ in range(30):
        step()
        for n, simulator in enumerate(simulators):
            for k in range(5):
                place = simulator.get_agent_position(k)
                wanted = goal[k, :, n] - [place.x, place.y]
                wanted /= max(np.linalg.norm(wanted), 1.0)
                simulator.set_agent_pref_velocity(k, tuple(wanted.tolist()))
            simulator.do_step()
            now = [[p.x, p.y] for p in map(simulator.get_agent_position, range(5))]
            worst[n] = max(worst[n], np.abs(circle[:, :2, n] - now).max())
    assert np.median(worst) < 1e-4  # both compute in single precision, and close calls grow
    assert (worst < 0.02).mean() > 0.9


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.5, 4.0))
def test_velocities_of_orca_are_those_of_rvo2(seed, spread):
    people, count = 7, 64
    rng = np.random.default_rng(seed)
    circle = np.zeros((people, 5, count), np.float32)
    circle[:, :2] = rng.uniform(-spread, spread, (people, 2, count))
    circle[:, 2] = rng.uniform(0.2, 0.4, (people, count))
    circle[:, 3:] = rng.uniform(-0.7, 0.7, (people, 2, count))
    wanted = rng.uniform(-0.7, 0.7, (2, count)).astype(np.float32)
    made = np.zeros((2, count), np.float32)
    solve = _solver(people)
    solve({"circles": circle.reshape(-1, count), "wanted": wanted, "velocity": made})
    expected = np.zeros((count, 2))
    for n in range(count):
        simulator = pyrvo.RVOSimulator(PERIOD, 100.0, 20, 5.0, 5.0, 0.3, 1.0)
        for x, y, radius, vx, vy in circle[:, :, n].tolist():
            simulator.add_agent((x, y), 100.0, 20, 5.0, 5.0, radius, 1.0, (vx, vy))
        simulator.set_agent_pref_velocity(0, tuple(wanted[:, n].tolist()))
        simulator.do_step()
        velocity = simulator.get_agent_velocity(0)
        expected[n] = velocity.x, velocity.y
    difference = np.abs(made.T - expected).max(axis=1)
    assert np.sort(difference)[-3] < 2e-3  # two of 64 may have a choice of velocities that are as good


def _solver(people, kept={}):  # noqa: B006
    def solve(circles, wanted):
        rows = circles.reshape(people, 5)
        lines = [orca.beside(rows[0], other, 5.0, PERIOD) for other in rows[1:]]
        return {"velocity": np.array(orca.velocity([], lines, wanted, 1.0), dtype=object)}

    if people not in kept:
        kept[people] = Kernel(solve, {"circles": 5 * people, "wanted": 2})
    return kept[people]


@pytest.mark.parametrize("rule", [Orca(), SocialForce()])
def test_people_reach_the_other_side_and_stay_out_of_boxes(rule):
    arrays, step = crowd(50, people=3, boxes=2, rule=rule)
    boxes = arrays["boxes"].reshape(2, 6, 50)
    boxes[0, :2], boxes[0, 4:] = [[0.3], [0.0]], 0.5
    people = arrays["circles"].reshape(3, 5, 50)
    goal = -people[:, :2].copy()
    nearest, moved = 9.0, 0.0
    for _ in range(120):
        before = people[:, :2].copy()
        step()
        moved = max(moved, np.hypot(*(people[:, :2] - before).transpose(1, 0, 2)).max() / PERIOD)
        gap = np.maximum(np.abs(people[:, :2] - boxes[0, :2]) - 0.5, 0.0)
        nearest = min(nearest, np.hypot(gap[:, 0], gap[:, 1]).min())
    assert nearest > (0.25 if isinstance(rule, Orca) else 0.0)
    assert moved < (1.001 if isinstance(rule, Orca) else 1.301)
    left = np.hypot(*(people[:, :2] - goal).transpose(1, 0, 2))
    assert (left < 0.5).mean() > 0.9


def test_who_sees_the_robot_goes_round_it_and_who_avoids_nobody_goes_straight():
    def closest(sees, avoids):
        arrays, step = crowd(8, people=1)
        person = arrays["person"]
        person[PERSON["sees_robot"]], person[PERSON["avoids"]] = sees, avoids
        arrays["robot"][:] = np.array([0.1, 0.05, 0.3, 0.0, 0.0], np.float32)[:, None]
        nearest = np.full(8, 9.0)
        for _ in range(40):
            step()
            nearest = np.minimum(nearest, np.hypot(*(arrays["circles"][:2] - arrays["robot"][:2])))
        return nearest

    # the robot does not give way, so half of the avoiding is all that there is until it is near
    assert closest(1.0, 1.0).min() > 0.55
    assert closest(0.0, 1.0).max() < 0.2


def test_people_go_from_waypoint_to_waypoint_and_leave_what_they_cannot_reach():
    arrays, step = crowd(4, people=1, boxes=1)
    person = arrays["person"]
    person[PERSON["stays"]] = 0.0
    person[PERSON["waypoints"]] = np.array([2, 0, 2, 2, 5, 5, 0, 2], np.float32)[:, None]
    arrays["circles"][:2] = 0.0
    arrays["boxes"][:] = np.array([5, 5, 1, 0, 1, 1], np.float32)[:, None]  # the third one is inside
    legs = []
    for _ in range(120):
        step()
        legs.append(arrays["walk"][0, 0])
    changes = [int(b) for a, b in pairwise(legs) if a != b]
    assert changes[:4] == [1, 2, 3, 0] or changes[:3] == [2, 3, 0]


def test_the_social_force_falls_off_as_its_range_says():
    arrays, step = crowd(2, people=2, rule=SocialForce(substeps=1))
    people = arrays["circles"].reshape(2, 5, 2)
    people[:] = 0.0
    people[1, 0] = [1.0, 1.3]  # somebody who stands still, 1 m and 1.3 m ahead
    people[:, 2] = 0.3
    person = arrays["person"].reshape(2, PERSON_WIDTH, 2)
    person[:, PERSON["waypoints"]] = 0.0
    person[0, PERSON["waypoints"]] = np.tile([[9.0], [0.0]], (4, 1))
    person[:, PERSON["speed"]] = 1.0
    step()
    drive = 1.0 / 0.5 * PERIOD
    push = drive - people[0, 3]
    assert push[0] == pytest.approx(2.1 / 0.3 * np.exp(-1.0 / 0.3) * PERIOD, rel=1e-3)
    assert push[0] / push[1] == pytest.approx(np.e, rel=1e-3)
