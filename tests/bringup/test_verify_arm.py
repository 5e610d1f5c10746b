"""Verification of arms: short, with a stand-in policy, in process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rlstack.bringup.verify import verify
from rlstack.errors import UserError
from rlstack.kinds.manipulator.verification import task_of
from rlstack.kinds.manipulator.verification_table import TableVerification
from rlstack.policies import load_policy, write_policy
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.manipulator.trials import ArmNoise
from rlstack.verification.manipulation_score import score_arm
from rlstack.verification.manipulation_trials import judged
from rlstack.verification.request import Request
from rlstack.verification.trial_records import ManipulationRecord
from tests.kinds.manipulator.guard_loop import panda
from tests.support.arms import write_posture_policy

pytest.importorskip("matplotlib")

ROBOT = panda()
REST = np.array([drive.rest for drive in ROBOT.drives])


def trained_with(settings: dict[str, Any], policy: Path) -> Path:
    """Let a policy file say that it was trained with settings of its task."""
    contract = replace(load_policy(policy).contract, training={"recipe": {"task_settings": settings}})
    write_policy(onnx.load(policy), contract, policy)
    return policy


def test_a_policy_that_goes_nowhere_near_is_tried_recorded_and_fails(tmp_path: Path) -> None:
    settings = {"tolerance_m": 0.02, "episode_s": 1.0, "rewards": "sparse", "motion": {"speed_m_s": 0.3}}
    policy = trained_with(settings, write_posture_policy(tmp_path / "policy.onnx", ROBOT, REST))
    verified = verify(policy, backends=["batch", "mujoco"], topics=False, episodes=2, robot="panda", margins=["none"])
    data = json.loads((tmp_path / "verify_in_process.json").read_text())
    assert not verified.passed and data["robot"] == "panda" and data["task"] == "arm_reach"
    assert set(data["backends"]) == {"batch", "mujoco"}
    for entry in data["backends"].values():
        assert entry["episodes"] == 2 and entry["success"] == 0.0 and "0.02 m of the goal" in entry["done"]
    assert "success" in verified.table() and "2 episodes are too few" in " ".join(data["reasons"])
    page = (tmp_path / "report.html").read_text()
    for said in ("settings that the policy was trained with: ", "tolerance_m 0.02 (default 0.01)", "speed_m_s 0.3"):
        assert said in verified.table() and said in page
    assert "rewards" not in verified.table()
    assert data["provenance"]["settings"] == {"tolerance_m": 0.02, "episode_s": 1.0, "motion.speed_m_s": 0.3}
    assert "Distance to the goal" in page and (tmp_path / "distances.png").stat().st_size > 1000


def test_an_instructed_policy_has_rows_for_words_that_it_knows_and_for_none(tmp_path: Path) -> None:
    settings = {"blocks": 2, "episode_s": 1.0}
    names, words = ("joint_position", "instruction"), TablePushTask().text.words
    still = write_posture_policy(tmp_path / "policy.onnx", ROBOT, REST, task="table_push", inputs=names, words=words)
    policy = trained_with(settings, still)
    verified = verify(policy, backends=["batch", "mujoco"], topics=False, episodes=2, robot="panda", margins=["none"])
    data = json.loads((tmp_path / "verify_in_process.json").read_text())
    rows = ["batch", "batch, unseen words", "batch, no instruction", "batch, another instruction", "mujoco"]
    assert list(data["backends"]) == rows and not verified.passed
    said = " ".join(data["reasons"])
    assert all(
        data["backends"][row]["success"] == 0.0 and "what the sentence means" in data["backends"][row]["done"]
        for row in rows
    )
    assert "batch, unseen words" in said and "batch, no instruction: success" not in said, "it must fail there"
    assert data["provenance"]["settings"]["blocks"] == 2


def test_margins_of_few_trials_take_less_time_and_need_what_the_task_needs(tmp_path: Path) -> None:
    names, words = ("joint_position", "instruction"), TablePushTask().text.words
    path = write_posture_policy(tmp_path / "policy.onnx", ROBOT, REST, task="table_push", inputs=names, words=words)
    request = Request(
        policy=path,
        given=str(path),
        loaded=load_policy(path, robot=ROBOT),
        sha256="",
        task=TablePushTask,
        task_name="table_push",
        robot=ROBOT,
        named="panda",
        robot_option="panda",
        names=("batch",),
        topics=False,
        episodes=3,
        seed=0,
    )
    few, many = TableVerification(request), TableVerification(replace(request, episodes=None))
    (expected, whole) = (verification.parts([], 2)[0].expected_s for verification in (few, many))
    assert whole == 2 * TableVerification.seconds.reality and expected == pytest.approx(0.1 * whole)
    assert few.enough == pytest.approx(TablePushTask.bounds.at_least["success"] - 0.05)


def test_tasks_of_arms_alone_are_verified_so_as_policies_were_trained_on_them(tmp_path: Path) -> None:
    def task(settings: dict[str, Any] | None = None, **options: Any) -> Any:
        policy = write_posture_policy(tmp_path / "policy.onnx", ROBOT, REST, **options)
        policy = policy if settings is None else trained_with(settings, policy)
        return task_of(load_policy(policy).contract, "policy.onnx")

    assert task() == ReachTask()
    assert task(settings={"hold_s": 0.5, "noise": {"joint_rad": 0.0}}) == ReachTask(
        hold_s=0.5, noise=ArmNoise(joint_rad=0.0)
    )
    with pytest.raises(UserError, match=r"'base_navigation' is not a manipulation task; those that are: .*arm_push"):
        task(task="base_navigation")
    with pytest.raises(UserError, match=r"policy.onnx: training: recipe: task_settings: Unknown key 'hold'"):
        task(settings={"hold": 0.5})
    with pytest.raises(UserError, match=r"tolerance_m: -1.0 is not allowed: must be above 0.0 m"):
        task(settings={"tolerance_m": -1})


def test_trials_are_judged_by_staying_there_and_scores_say_so() -> None:
    task = ReachTask(episode_s=0.5, hold_s=0.1)
    goal = np.zeros((4, 3))
    achieved = np.full((task.steps + 1, 4, 3), 0.1)
    achieved[4:, 0] = 0.0  # comes and stays
    achieved[4:8, 1] = 0.0  # comes and leaves
    achieved[9:, 2] = 0.0
    gone = np.zeros(achieved.shape[:2], dtype=bool)
    gone[5:, 2] = True  # lost before it came
    done = judged(task, achieved, goal, gone, "batch")
    assert done.success.tolist() == [True, False, False, False] and done.lost.tolist() == [False, False, True, False]
    assert done.time_s[0] == pytest.approx(5 / 20.0) and np.isnan(done.distance_m[5:, 2]).all()
    both = ManipulationRecord.joined([done, done])
    both = replace(both, interventions=np.array([0, 1] * 4), latency_s=np.array([0.002]))
    score = score_arm(both, "there")
    assert (score["episodes"], score["success"], score["lost"], score["interventions"]) == (8, 0.25, 0.25, 4)
    assert score["error_m"] == 0.0 and score["intervened"] == 0.5 and score["latency_p99_ms"] == pytest.approx(2.0)
    assert score.figure("success").fine_text.startswith("25.0 [")
