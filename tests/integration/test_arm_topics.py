"""An arm over real topics: policy and guard as processes, MuJoCo in lock step, trial after trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.arm_topics import try_over_topics
from rlstack.evaluation.arm_trials import try_in
from rlstack.evaluation.manipulation import held_out
from rlstack.policies import load_policy
from rlstack.tasks.catalog.arm_reach import ReachTask
from tests.guard.reaching import panda
from tests.support.arms import write_posture_policy

pytestmark = pytest.mark.integration

ROBOT = panda()
TASK = ReachTask(episode_s=0.6, tolerance_m=0.3)


def test_trials_over_topics_are_those_in_process_unless_the_guard_holds_the_policy_back(tmp_path: Path) -> None:
    rest = np.array([drive.rest for drive in ROBOT.drives])
    gentle = write_posture_policy(tmp_path / "gentle.onnx", ROBOT, rest)
    trials = held_out(TASK, ROBOT, 3, 1)
    told: list[int] = []
    over_topics = try_over_topics(
        gentle, TASK, ROBOT, trials, seed=5, on_progress=lambda done, count: told.append(done)
    )
    in_process = try_in(load_policy(gentle, robot=ROBOT), TASK, ROBOT, trials, "mujoco", seed=5)
    assert over_topics.simulator == "mujoco (topics)" and told == [1, 2, 3]
    np.testing.assert_allclose(over_topics.done.distance_m, in_process.done.distance_m, atol=1e-6)
    assert np.ptp(in_process.done.distance_m, axis=0).min() > 0.01  # it moved
    assert over_topics.interventions is not None and over_topics.interventions.tolist() == [0, 0, 0]
    assert over_topics.latency_s is not None and (over_topics.latency_s > 0.0).all()

    wild = write_posture_policy(tmp_path / "wild.onnx", ROBOT, rest + 1.0, speed=20.0)
    held = try_over_topics(wild, TASK, ROBOT, trials.take(np.arange(1)), seed=5)
    free = try_in(load_policy(wild, robot=ROBOT), TASK, ROBOT, trials.take(np.arange(1)), "mujoco", seed=5)
    gone = [np.abs(one.done.distance_m[1, 0] - one.done.distance_m[0, 0]) for one in (held, free)]
    assert gone[0] < 0.7 * gone[1]


class _Looking(ReachTask):
    inputs = (*ReachTask.inputs, *(f"{c}_image{a}" for c in ("wrist", "scene") for a in ("", "_age")))


def test_a_policy_gets_the_same_pictures_over_topics_as_in_process(tmp_path: Path) -> None:
    """What it commands depends on every pixel and on how old the pictures are."""
    rest = np.array([drive.rest for drive in ROBOT.drives])
    inputs = tuple(name for name in _Looking.inputs if name != "joint_velocity")
    weights = {"wrist_image": 1e-10, "scene_image": -1e-10, "wrist_image_age": 1e-3, "scene_image_age": 1e-3}
    looking = write_posture_policy(tmp_path / "looking.onnx", ROBOT, rest, speed=0.1, inputs=inputs, weights=weights)
    task, policy = _Looking(episode_s=0.3, tolerance_m=0.3), load_policy(looking, robot=ROBOT)
    trials = held_out(task, ROBOT, 2, 1)
    over_topics = try_over_topics(looking, task, ROBOT, trials, seed=5)
    in_process = try_in(policy, task, ROBOT, trials, "mujoco", seed=5)
    np.testing.assert_allclose(over_topics.done.distance_m, in_process.done.distance_m, rtol=0.0, atol=1e-12)
    assert over_topics.interventions is not None and over_topics.interventions.tolist() == [0, 0]
    still = {**ROBOT.cameras, "scene": replace(ROBOT.cameras["scene"], latency_s=0.0)}
    other = try_in(policy, task, replace(ROBOT, cameras=still), trials, "mujoco", seed=5)
    assert np.abs(other.done.distance_m - in_process.done.distance_m).max() > 1e-6  # and it would be seen
