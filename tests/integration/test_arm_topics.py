"""An arm over real topics: policy and guard as processes, MuJoCo in lock step, trial after trial."""

from __future__ import annotations

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
