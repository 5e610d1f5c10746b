"""Of :mod:`rlstack.verification.crowd_trials`."""

from __future__ import annotations

import numpy as np

from rlstack.robots import frames, load_robot
from rlstack.sim.crowds.scenes import Hall, halls
from rlstack.verification.crowd_trials import drive_among_people

ROBOT = load_robot("turtlebot2")
OPEN = Hall(walking=(0, 0), standing=(0, 0), boxes=(0, 0))


class Straight:
    """Heads for the goal, whatever is in the way."""

    inputs = ("position", "orientation", "goal_position")

    def reset(self, batch=1):
        self.steps = 0

    def step(self, inputs):
        offset = (inputs["goal_position"] - inputs["position"])[:, :2]
        turn = np.arctan2(offset[:, 1], offset[:, 0]) - frames.yaw(inputs["orientation"])
        turn = frames.wrap_angle(turn)
        return {"twist": np.stack([0.5 * np.cos(turn).clip(0.0), (2.0 * turn).clip(-1.0, 1.0)], axis=1)}


class Listener(Straight):
    """Stands, and keeps what it is told."""

    inputs = ("people_position", "people_velocity", "people_radius", "scan")

    def reset(self, batch=1):
        self.heard = []

    def step(self, inputs):
        self.heard.append(inputs)
        return {"twist": np.zeros((len(inputs["scan"]), 2))}


def drive(driver, scenes, **options):
    given = {"rate_hz": 10.0, "arrival_m": 0.3, "limit_s": 30.0, "name": "test", **options}
    return drive_among_people(driver, scenes, ROBOT, **given)


def test_without_people_and_things_straight_on_arrives_and_nothing_is_disturbed():
    scenes = halls(np.random.default_rng(0), 6, 1, OPEN, ROBOT.radius_m)
    driven = drive(Straight(), scenes)
    assert driven.success.all()
    assert (driven.length_m / driven.shortest_m < 1.1).all() and not driven.disturbed.any()
    assert np.isfinite(driven.pose[0]).all() and np.isnan(driven.pose[-1]).any()
    assert driven.figures()["arrived"] == 1.0


def test_straight_on_through_a_crowd_hits_people_and_things():
    scenes = halls(np.random.default_rng(1), 16, 12, Hall(), ROBOT.radius_m)
    driven = drive(Straight(), scenes)
    hit = {"hit a person", "hit a thing"}
    assert hit <= set(driven.ending)
    assert (driven.closest_m[driven.ending == "hit a person"] < 0.0).all()
    assert (driven.closest_m[driven.ending != "hit a person"] >= 0.0).all()
    assert sum(driven.figures()[name] for name in ("arrived", "hit_a_person", "hit_a_thing", "timed_out")) == 1.0


def test_drivers_are_told_what_is_tracked_or_the_truth():
    hall = Hall(walking=(6, 6), standing=(0, 0), boxes=(0, 0), sees_robot=1.0)
    scenes = halls(np.random.default_rng(2), 4, 8, hall, ROBOT.radius_m)
    true, tracked = Listener(), Listener()
    drive(true, scenes, tracked=False, limit_s=2.0)
    drive(tracked, scenes, tracked=True, limit_s=2.0)
    people, seen = true.heard[-1]["people_position"], tracked.heard[-1]["people_position"]
    assert people.shape == (4, 8, 3) and seen.shape[0] == 4
    found = 0
    for robot in range(4):
        for place in seen[robot][np.abs(seen[robot, :, 0]) < 100.0]:
            assert np.linalg.norm(people[robot] - place, axis=1).min() < 0.3
            found += 1
    assert found >= 8  # of 24, some of them hidden or out of reach
