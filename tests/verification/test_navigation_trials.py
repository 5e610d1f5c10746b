from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.control.navigation import Status
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.simulation_vector import clearance_at
from rlstack.sim.maps.generate import HELD_OUT_SEEDS
from rlstack.sim.vector import BATCH
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.navigation_trials import drive
from tests.support.bases import turtlebot
from tests.support.drives import Homing, course_of, recorded, room

ROBOT = turtlebot()


def homing(maps: list, *, simulator: str = BATCH, limit_s: float = 12.0, **options: object):
    course = course_of(ROBOT, maps, limit_s)
    driver = options.pop("driver", None) or Homing()
    return drive(driver, course, ROBOT, rate_hz=10.0, arrival_m=0.2, name="homing", simulator=simulator, **options)


def test_ways_end_by_arrival_by_contact_or_out_of_time() -> None:
    drives = homing([room(1), room(2, blocked=True), room(3, metres=1.9)], limit_s=6.0)
    assert drives.ending.tolist() == ["arrived", "collided", "timed out"]
    # 0.8 m at 0.2 m/s, from rest at 1 m/s^2
    assert drives.time_s[0] == pytest.approx(4.1, abs=0.21)
    assert drives.time_s[2] == 6.0
    assert drives.length_m[0] == pytest.approx(0.8, abs=0.03)
    assert drives.nearest_m[1] < 0.0 < drives.nearest_m[0]
    after = round(drives.time_s[0] * 10.0) + 1
    assert np.isnan(drives.pose[after:, 0]).all() and np.isfinite(drives.pose[:after, 0]).all()


def test_a_planner_that_says_there_is_no_way_gave_up_only_when_its_time_is_over() -> None:
    status = int(Status.UNREACHABLE)
    there = homing([room(1)], driver=Homing(status))
    assert there.ending.tolist() == ["arrived"]
    assert homing([room(1, metres=1.9)], driver=Homing(status), limit_s=1.0).ending.tolist() == ["gave up"]


def test_chunks_do_not_change_what_is_driven() -> None:
    maps = [room(k, metres=1.0 + 0.1 * k) for k in range(4)]
    whole, parts = homing(maps), homing(maps, batch_size=2)
    np.testing.assert_allclose(parts.time_s, whole.time_s)
    np.testing.assert_allclose(parts.pose[: len(whole.pose)], whole.pose[: len(parts.pose)], atol=1e-5)
    told: list[tuple[int, int]] = []
    homing(maps, batch_size=3, on_progress=lambda done, count: told.append((done, count)))
    assert told == [(3, 4), (4, 4)]


@pytest.mark.parametrize("simulator", ["mujoco", "pybullet"])
def test_engines_drive_the_same_ways_as_the_batch_simulator(simulator: str) -> None:
    pytest.importorskip(simulator)
    maps = [room(1), room(2, blocked=True)]
    batch, engine = homing(maps), homing(maps, simulator=simulator)
    assert engine.ending.tolist() == batch.ending.tolist() == ["arrived", "collided"]
    np.testing.assert_allclose(engine.time_s, batch.time_s, atol=0.31)


def test_an_unknown_simulator_is_refused() -> None:
    with pytest.raises(UserError, match="Unknown backend 'no_such_thing'"):
        homing([room(1)], simulator="no_such_thing")


def test_drives_are_joined_and_taken_with_all_that_they_hold() -> None:
    one = recorded(["arrived"], [1.0], people_m=np.full((11, 1), 0.5), interventions=np.array([2]))
    two = recorded(["collided"], [2.0], people_m=np.full((21, 1), 0.4), interventions=np.array([0]))
    both = type(one).joined([one, two])
    assert both.ending.tolist() == ["arrived", "collided"] and both.wall_s == 3.0
    assert both.people_m is not None and both.people_m.shape == (21, 2) and np.isnan(both.people_m[11:, 0]).all()
    back = both.take(np.array([1]))
    assert (
        back.ending.tolist() == ["collided"] and back.interventions is not None and back.interventions.tolist() == [0]
    )
    assert both.take(np.array([True, False])).time_s.tolist() == [1.0]


def test_clearance_is_of_the_footprint() -> None:
    ahead = max(x + radius for x, _, radius in ROBOT.footprint)
    assert clearance_at(ROBOT, room(1), np.array([1.5, 0.0, 0.0])) == pytest.approx(0.5 - ahead, abs=1e-6)


def test_held_out_ways_are_of_held_out_seeds_and_validation_takes_none_of_them() -> None:
    ours = held_out_episodes(ROBOT, 3, 5, kinds=("clutter",))
    theirs = held_out_episodes(ROBOT, 3, 5, kinds=("clutter",), validation=True)
    seeds = [{m.seed for m in course.pool.maps} for course in (ours, theirs)]
    assert not seeds[0] & seeds[1] and all(seed in HELD_OUT_SEEDS for seed in seeds[0] | seeds[1])
    again = held_out_episodes(replace(ROBOT), 3, 5, kinds=("clutter",))
    np.testing.assert_array_equal(again.pool.starts, ours.pool.starts)
