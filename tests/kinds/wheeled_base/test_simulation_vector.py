"""Bases among people, in the batch simulator and in engines, and held-out courses where something moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.simulation_vector import CrowdVector, wheeled_base_vector
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.sim.crowds.scenes import Scenes, absent_people
from rlstack.sim.crowds.walking_models import PERSON
from rlstack.verification.navigation_episodes import NavigationEpisodes, held_out_episodes
from rlstack.verification.navigation_score import PEOPLE_M
from rlstack.verification.navigation_trials import drive
from tests.support.bases import turtlebot
from tests.support.drives import Homing, course_of, room

ROBOT = turtlebot()
MOVING = MovingObstacles(count=(0, 3))


def vector(simulator: str, course: NavigationEpisodes) -> CrowdVector:
    options = {"pool": course.pool, "parameters": course.parameters, "people": course.movers}
    return wheeled_base_vector(simulator, ROBOT, len(course), 10.0, **options)


def crossed(sees_robot: float) -> NavigationEpisodes:
    """Return a room in which somebody comes down the robot's way towards it, and one in which nobody is."""
    maps = [room(1), room(2)]
    circles, persons = absent_people(2, 1)
    circles[0, 0, :3] = [1.8, 0.0, 0.2]
    persons[0, 0, PERSON["waypoints"]] = np.tile([-1.8, 0.0], 4)
    persons[0, 0, PERSON["speed"]], persons[0, 0, PERSON["sees_robot"]] = 0.2, sees_robot
    persons[0, 0, PERSON["avoids"]] = 1.0
    people, rows = (array.reshape(2, -1).astype(np.float32) for array in (circles, persons))
    return replace(course_of(ROBOT, maps), movers=Scenes(tuple(maps), people, rows))


def driven(course: NavigationEpisodes, **options: object):
    return drive(Homing(), course, ROBOT, rate_hz=10.0, arrival_m=0.2, name="homing", **options)


def test_a_course_with_movers_is_the_same_course_but_for_them() -> None:
    options = {"kinds": ("clutter",), "fastest_m_s": 0.2}
    still = held_out_episodes(ROBOT, 12, 3, **options)
    moving = held_out_episodes(ROBOT, 12, 3, movers=MOVING, **options)
    for name in ("boxes", "circles", "starts", "goals"):
        np.testing.assert_array_equal(getattr(still.pool, name), getattr(moving.pool, name))
    np.testing.assert_array_equal(still.parameters, moving.parameters)
    assert still.movers is None and held_out_episodes(ROBOT, 2, 3, movers=MovingObstacles(), **options).movers is None
    assert set(still.kinds) == {"clutter"} and set(moving.kinds) == {"clutter + people"}
    some = moving.take(np.array([7, 2]))
    assert some.movers is not None and moving.movers is not None
    np.testing.assert_array_equal(some.movers.people, moving.movers.people[[7, 2]])
    np.testing.assert_array_equal(some.movers.persons, moving.movers.persons[[7, 2]])


def test_contact_with_who_does_not_give_way_ends_a_drive() -> None:
    drives = driven(crossed(sees_robot=0.0))
    assert drives.ending.tolist() == ["collided", "arrived"]
    assert drives.labels.tolist() == ["clutter + people"] * 2
    assert drives.people_m is not None
    gap = drives.people_m[:, 0][np.isfinite(drives.people_m[:, 0])]
    assert gap[0] == pytest.approx(1.8 - 0.2 - ROBOT.radius_m, abs=0.05) and gap[-1] < 0.0 < gap[-2]
    np.testing.assert_allclose(gap[-1], drives.nearest_m[0], atol=1e-5)
    # both come nearer to each other at 0.2 m/s
    assert drives.time_s[0] == pytest.approx(gap[0] / 0.4, abs=0.5)
    assert np.nanmin(drives.people_m[:, 1]) > PEOPLE_M


def test_the_scan_shows_who_is_there() -> None:
    robots = vector("batch", crossed(sees_robot=0.0))
    ahead = robots.scan()[0].copy()
    for _ in range(20):
        robots.step(np.zeros((2, 2)))
    ray = int(np.argmin(np.abs(ROBOT.lidars["scan"].angles_rad)))
    assert ahead[ray] - robots.scan()[0][ray] == pytest.approx(0.4, abs=0.1)
    robots.close()


def test_without_movers_there_are_no_people() -> None:
    course = replace(crossed(0.0), movers=None)
    assert vector("batch", course).people_m() is None
    assert driven(course).people_m is None


def test_chunks_do_not_change_what_is_driven() -> None:
    whole, parts = driven(crossed(1.0)), driven(crossed(1.0), batch_size=1)
    np.testing.assert_allclose(parts.time_s, whole.time_s)
    np.testing.assert_allclose(parts.people_m, whole.people_m, atol=1e-5)


@pytest.mark.parametrize("simulator", ["mujoco", "pybullet"])
def test_people_walk_in_engines_as_in_the_batch_simulator(simulator: str) -> None:
    pytest.importorskip(simulator)
    batch, engine = driven(crossed(0.0)), driven(crossed(0.0), simulator=simulator)
    assert engine.ending.tolist() == batch.ending.tolist() == ["collided", "arrived"]
    np.testing.assert_allclose(engine.time_s, batch.time_s, atol=0.31)
    assert batch.people is not None and engine.people is not None and engine.hit_people is not None
    steps = int(np.isfinite(engine.people[:, 0, 0, 0]).sum()) - 3
    np.testing.assert_allclose(engine.people[:steps, 0], batch.people[:steps, 0], atol=0.01)
    assert engine.hit_people.tolist() == [True, False]
    robots = vector(simulator, crossed(0.0))
    ahead = int(np.argmin(np.abs(ROBOT.lidars["scan"].angles_rad)))
    before = robots.scan()[0][ahead]
    for _ in range(20):
        robots.step(np.zeros((2, 2)))
    assert before - robots.scan()[0][ahead] == pytest.approx(0.4, abs=0.1)
    robots.close()


class Wary(Homing):
    """Stops while somebody is near."""

    inputs = (*Homing.inputs, "people_position", "people_velocity", "people_radius")

    def step(self, inputs):
        apart = np.linalg.norm(inputs["people_position"] - inputs["position"][:, None], axis=-1) - 0.4
        return {"twist": super().step(inputs)["twist"] * (apart.min(axis=1, keepdims=True) > 0.5)}


@pytest.mark.parametrize("tracked", [True, False])
def test_who_senses_people_is_told_of_them_as_tracked_or_as_they_are(tracked: bool) -> None:
    course = replace(crossed(0.0), tracked=tracked)
    drives = drive(Wary(), course, ROBOT, rate_hz=10.0, arrival_m=0.2, name="wary")
    assert drives.ending[1] == "arrived"
    # it stands and is run into, so it is hit later, and farther back
    blind = driven(course)
    assert drives.ending[0] == "collided" and drives.length_m[0] < blind.length_m[0] - 0.1
    still = replace(course, movers=None)
    there = drive(Wary(), still, ROBOT, rate_hz=10.0, arrival_m=0.2, name="wary")
    assert there.ending.tolist() == ["arrived", "arrived"]


def test_people_need_a_lidar_to_be_tracked_and_other_signals_are_refused() -> None:
    blind = replace(ROBOT, lidars={})
    with pytest.raises(UserError, match="has no lidar called 'scan' to track people in"):
        drive(Wary(), crossed(0.0), blind, rate_hz=10.0, arrival_m=0.2, name="wary")
    Wary.inputs = ("position", "map")
    try:
        with pytest.raises(UserError, match="needs the signal 'map', which bases do not sense on a course"):
            drive(Wary(), crossed(0.0), ROBOT, rate_hz=10.0, arrival_m=0.2, name="wary")
    finally:
        Wary.inputs = (*Homing.inputs, "people_position", "people_velocity", "people_radius")
