"""Drives over real topics: policy and guard as processes, MuJoCo in lock step, another world for each way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.episode_runner import run_episodes
from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.verification_topics import NavigationRecorder
from rlstack.policies import load_policy
from rlstack.verification.navigation_trials import drive
from tests.kinds.wheeled_base.test_simulation_vector import crossed
from tests.support.bases import turtlebot, write_driving_policy
from tests.support.drives import course_of, room

pytestmark = pytest.mark.integration

ROBOT = turtlebot()


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_driving_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", ROBOT)


def test_ways_over_topics_are_those_in_process_behind_the_guard(policy: Path) -> None:
    course = course_of(ROBOT, [room(1), room(2, blocked=True), room(3, metres=0.8)], limit_s=7.0)
    told: list[int] = []
    over_topics = run_episodes(
        NavigationRecorder,
        policy,
        course,
        ROBOT,
        name="mine",
        arrival_m=0.2,
        on_progress=lambda done, count: told.append(done),
    )
    in_process = drive(
        load_policy(policy, robot=ROBOT), course, ROBOT, rate_hz=10.0, arrival_m=0.2, name="mine", simulator="mujoco"
    )
    assert in_process.ending.tolist() == ["arrived", "collided", "arrived"]
    # the guard brakes for the box that the policy touches
    assert over_topics.ending.tolist() == ["arrived", "timed out", "arrived"]
    assert over_topics.nearest_m[1] > 0.0
    free = [0, 2]
    np.testing.assert_allclose(over_topics.time_s[free], in_process.time_s[free], atol=0.21)
    np.testing.assert_allclose(over_topics.length_m[free], in_process.length_m[free], atol=0.03)
    np.testing.assert_allclose(over_topics.nearest_m[free], in_process.nearest_m[free], atol=0.02)
    assert told == [1, 2, 3] and over_topics.simulator == "mujoco (topics)"
    assert over_topics.interventions is not None and over_topics.interventions.tolist() == [0, 0, 0]
    assert over_topics.latency_s is not None and (over_topics.latency_s > 0.0).all()
    starts = over_topics.pose[0, :, :2]
    np.testing.assert_allclose(starts, 0.0, atol=1e-6)
    after = np.isnan(over_topics.pose[:, 0, 0]).argmax()
    assert np.isnan(over_topics.pose[after:, 0]).all() and np.isfinite(over_topics.pose[:after, 0]).all()


@pytest.mark.parametrize(("planner", "ways"), [("dwa", 1), ("astar_dwa", 2), ("astar_policy", 1)])
def test_a_planners_node_drives_as_the_planner_does_in_process(policy: Path, planner: str, ways: int) -> None:
    course = course_of(ROBOT, [room(1, metres=0.9), room(3, metres=0.8)][:ways], limit_s=12.0)
    led = {"policy": str(policy)} if planner == "astar_policy" else {}
    over_topics = run_episodes(
        NavigationRecorder,
        led.get("policy", ""),
        course,
        ROBOT,
        name=planner,
        driver=planner,
        arrival_m=0.2,
        seed=5,
    )
    driver = PLANNERS.load(planner)(ROBOT, **led)
    in_process = drive(driver, course, ROBOT, rate_hz=10.0, arrival_m=0.2, name=planner, simulator="mujoco", seed=5)
    assert over_topics.ending.tolist() == in_process.ending.tolist() == ["arrived"] * ways
    np.testing.assert_allclose(over_topics.time_s, in_process.time_s, atol=0.41)
    np.testing.assert_allclose(over_topics.length_m, in_process.length_m, atol=0.05)
    assert over_topics.interventions is not None and over_topics.interventions.tolist() == [0] * ways


def test_people_walk_over_topics_and_are_tracked_for_who_senses_them() -> None:
    course = crossed(sees_robot=1.0)
    driven = run_episodes(NavigationRecorder, "", course, ROBOT, driver="orca", name="orca", arrival_m=0.2)
    assert driven.ending.tolist() == ["arrived", "arrived"] and driven.labels.tolist() == course.kinds.tolist()
    assert driven.people is not None and driven.people_m is not None and driven.hit_people is not None
    assert driven.people.shape[1:] == (2, 1, 3) and not driven.hit_people.any()
    # they go past each other: somebody comes near, and there is more to the way than straight on
    assert 0.0 < np.nanmin(driven.people_m[:, 0]) < 0.5 and driven.time_s[0] > driven.time_s[1] + 1.0
