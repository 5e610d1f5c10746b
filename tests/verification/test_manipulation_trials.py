"""Policy files of arms: exported, loaded and held to trials, with the kinematics inside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack import cli
from rlstack.data.lerobot import Dataset
from rlstack.demonstrations import metadata
from rlstack.demonstrations.recording import PolicyDemonstrator
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import load_policy
from rlstack.policies.chunkwise import ChunkwisePolicy, chunkwise
from rlstack.policies.inference import Policy
from rlstack.robots import load_robot
from rlstack.tasks.catalog.arm_pick_place import PickPlaceTask
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.manipulator.action_recovery import action_of
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.tasks.manipulator.scene import make_scene
from rlstack.tasks.manipulator.task import TRIAL_S
from rlstack.training.algorithm import Actor
from rlstack.training.export import PolicyGraph, TorchPolicy, export_policy, make_contract
from rlstack.verification import manipulation_trials
from rlstack.verification.departures import Departures
from rlstack.verification.jointed_trials import SceneTrials
from rlstack.verification.manipulation_trials import ManipulationLog, held_out, judged, manipulate
from rlstack.verification.training_evaluation import Evaluator, describe_evaluation
from tests.support.arms import write_posture_policy
from tests.support.planners import write_planning_policy

TASK = ReachTask(episode_s=2.0)


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


class Straight(Actor):
    """Leads the tool straight to the goal: what is left, less what it is led already."""

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return actions."""
        lead, left = observation[:, 6:9], observation[:, 9:12]
        return (left - lead) * (0.1 * TASK.rate_hz / TASK.motion.speed_m_s), {}


def graph() -> PolicyGraph:
    return PolicyGraph(TASK.pipeline(panda()), Straight(), TASK.inputs)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path: Path = tmp_path_factory.mktemp("arm") / "policy.onnx"
    whole = graph()
    export_policy(whole, make_contract("straight", "arm_reach", TASK, panda(), whole), panda(), path)
    return load_policy(path, robot=panda())


def test_a_policy_file_takes_joint_states_and_gives_joint_targets_that_reach(policy: Policy) -> None:
    contract = policy.contract
    assert [port.name for port in contract.inputs] == ["joint_position", "joint_velocity", "goal_position"]
    (output,) = contract.outputs
    drives = panda().drives
    assert (output.name, output.topic) == ("joint_target", "cmd/joints")
    assert output.element_names == tuple(drive.name for drive in drives)
    assert output.minimum == tuple(drive.lower for drive in drives)
    done = manipulate(policy, TASK, panda(), held_out(TASK, panda(), 20, 0), threads=1)
    assert done.success.mean() > 0.95 and not done.lost.any()
    assert np.nanmedian(done.error_m) < 0.005 and np.isfinite(done.time_s[done.success]).all()
    figures = done.figures()
    assert figures["episodes"] == 20 and 0.2 < figures["time_s"] < 2.0


def test_the_file_does_what_the_training_policy_does(policy: Policy) -> None:
    whole = graph()
    twin = TorchPolicy(whole, make_contract("straight", "arm_reach", TASK, panda(), whole), panda())
    trials = held_out(TASK, panda(), 6, 1)
    mine, theirs = (manipulate(each, TASK, panda(), trials, threads=1) for each in (policy, twin))
    np.testing.assert_allclose(mine.distance_m, theirs.distance_m, atol=1e-4)


def test_a_file_that_plans_chunks_is_stepped_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load_policy(write_planning_policy(tmp_path / "planner.onnx", panda(), 4), robot=panda())
    assert isinstance(chunkwise(file), ChunkwisePolicy)
    trials = held_out(TASK, panda(), 3, 1)
    for departures in (Departures(), Departures(lost=0.2, observation_delay_s=0.06)):
        parts = manipulate(file, TASK, panda(), trials, departures=departures)
        with monkeypatch.context() as changed:
            changed.setattr(manipulation_trials, "chunkwise", lambda driver: driver)
            whole = manipulate(file, TASK, panda(), trials, departures=departures)
        np.testing.assert_array_equal(parts.distance_m, whole.distance_m)


def test_images_are_rendered_only_where_the_driver_takes_them() -> None:
    task = TablePushTask()
    trials = held_out(task, panda(), 2, 1)
    scene = make_scene(task, panda(), 2, 0)
    rendered: list[Any] = []
    render = scene.cameras.renderer.render
    scene.cameras.renderer.render = lambda *given: (rendered.append(given), render(*given))[1]
    tried = SceneTrials(scene, trials, ManipulationLog(task, trials), lambda: (scene.achieved(),))
    for k in range(9):
        names = ("joint_position", "scene_image", "scene_image_age") if k % 4 == 0 else ("joint_position",)
        tried.observe(k)
        sensed = tried.signals(names)
        tried.step(tried.waiting(sensed["joint_position"]), np.zeros(2, np.bool_))
        assert tuple(sensed) == names and len(rendered) == 2 * (k // 4 + 1)
        if k % 4 == 0:
            assert sensed["scene_image"].std() > 1.0
    tried.close()


def test_the_evaluator_ranks_by_success_then_by_time(policy: Policy) -> None:
    marks = Evaluator(TASK, panda(), 10, 3).evaluate(policy)
    assert marks.success == marks.figures["success"] >= 0.9
    assert marks.rank == (round(marks.success, 3), -marks.figures["time_s"])
    assert "Of 10 held-out trials" in describe_evaluation(TASK, marks.figures)


def test_targets_stay_within_limits_and_speeds_whatever_is_sensed(policy: Policy) -> None:
    rng, drives = np.random.default_rng(0), panda().drives
    policy.reset(50)
    low, high = (np.array([getattr(drive, end) for drive in drives]) for end in ("lower", "upper"))
    fastest = np.array([drive.velocity_max for drive in drives]) / TASK.rate_hz
    joints = rng.uniform(low, high, (50, 9))
    target = joints
    for _ in range(10):
        goal = rng.normal(0.0, 2.0, (50, 3))
        given = {"joint_position": joints, "joint_velocity": np.zeros((50, 9)), "goal_position": goal}
        after = policy.step(given)["joint_target"]
        assert (after >= low - 1e-6).all() and (after <= high + 1e-6).all()
        assert (np.abs(after - target)[:, :7] <= fastest[:7] + 1e-5).all()
        target = joints = after


def test_what_does_not_fit_is_refused(policy: Policy) -> None:
    trials = held_out(TASK, panda(), 2, 0)
    with pytest.raises(UserError, match="runs at 20 Hz, and this task at 10 Hz"):
        manipulate(policy, replace(TASK, rate_hz=10.0), panda(), trials)
    with pytest.raises(UserError, match="is a policy for the robot 'panda', not for 'other'"):
        manipulate(policy, TASK, replace(panda(), name="other"), trials)


def test_an_object_that_leaves_the_table_is_lost_and_the_rest_goes_on() -> None:
    task = PushTask(episode_s=1.0)
    whole = PolicyGraph(task.pipeline(panda()), _Still(), task.inputs)
    still = TorchPolicy(whole, make_contract("still", "arm_push", task, panda(), whole), panda())
    trials = held_out(task, panda(), 3, 0)
    trials.position[1] = (0.5, 2.0, 0.02)
    trials.goal[2] = trials.position[2]
    done = manipulate(still, task, panda(), trials, threads=1)
    assert done.lost.tolist() == [False, True, False] and done.success.tolist() == [False, False, True]
    assert np.isnan(done.distance_m[-1, 1]) and np.isfinite(done.distance_m[:, [0, 2]]).all()


def test_what_lets_go_before_the_end_does_not_succeed() -> None:
    """Three trials of 10 periods: held to the end, let go after success, and back again just before the end."""
    task = replace(TASK, episode_s=0.5, hold_s=0.15, ends=True)
    goal = np.zeros((3, 3))
    achieved = np.zeros((11, 3, 3))
    achieved[6:, 1, 0] = achieved[:9, 2, 0] = 0.5
    gone = np.zeros((11, 3), dtype=np.bool_)
    done = judged(task, achieved, goal, gone, "batch")
    assert done.success.tolist() == [True, False, False]
    assert done.time_s.tolist() == [0.1, np.inf, np.inf]
    gone[10, 0] = True
    assert not judged(task, achieved, goal, gone, "batch").success[0], "lost at the last moment"


def test_trials_last_long_enough_to_see_it_let_go() -> None:
    assert replace(TASK, episode_s=1.0).judged().episode_s == TRIAL_S
    assert replace(TASK, episode_s=8.0).judged().episode_s == 8.0


class _Still(Actor):
    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.zeros_like(observation[:, :3]), {}


def test_what_a_policy_file_does_is_recorded(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def recorded(file: Path | str, *more: str) -> int:
        words = ["demo", "record", "arm_reach", "--policy", str(file), "--episodes", "2", "--episode-s", "2", *more]
        return cli.main([*words, "--out", str(tmp_path / "shown")])

    assert recorded(policy.path) == 0
    again = load_policy(policy.path, robot=panda())
    names = [port.name for port in again.contract.inputs]
    held = list(Dataset(tmp_path / "shown"))
    assert len(held) == 2
    for frames in held:
        assert (
            frames[metadata.SUCCESS][-1]
            and not frames[metadata.INTERVENTION].any()
            and len(frames[metadata.COMMAND]) == 40
        )
        again.reset(1)
        for k, command in enumerate(frames[metadata.COMMAND]):
            said = again.step({name: frames[metadata.SENSED + name][k][None] for name in names})["joint_target"][0]
            np.testing.assert_allclose(command, said, atol=1e-4)
        assert np.abs(frames[metadata.ACTION][0]).max() > 0.2  # and not what stands still

    assert recorded(policy.path, "--expert") == 2 and "leave one out" in capsys.readouterr().err
    rest = np.array([drive.rest for drive in panda().drives])
    assert recorded(write_posture_policy(tmp_path / "other.onnx", panda(), rest + 1.0, speed=1.0)) == 2
    assert "commands no tool motion of this task" in capsys.readouterr().err
    push = write_posture_policy(tmp_path / "push.onnx", panda(), rest, task="arm_push")
    assert recorded(push) == 2 and "is a policy for arm_push: rlstack demo record arm_push" in capsys.readouterr().err


def test_after_a_hand_led_a_file_begins_from_where_the_arm_is(policy: Policy) -> None:
    station, shown = DemonstrationEnvironment(TASK, panda(), 0), PolicyDemonstrator(policy, TASK, panda())
    for _ in range(3):
        station.act(shown(station).action)
    for _ in range(10):
        station.act(-np.ones(station.pipeline.action_size))
    again = shown(station).action
    policy.reset(1)
    sensed = {port.name: station.senses()[port.name][None] for port in policy.contract.inputs}
    said = policy.step(sensed)["joint_target"][0]
    np.testing.assert_allclose(again, action_of(station, said)[0], atol=1e-6)
    station.close()


def test_motions_of_the_tool_are_found_from_commands() -> None:
    station, rng = DemonstrationEnvironment(PushTask(), panda(), 3), np.random.default_rng(0)
    for _ in range(20):
        wanted = rng.uniform(-1.0, 1.0, station.pipeline.action_size)
        before = {name: torch.from_numpy(a.astype(np.float32)) for name, a in station.environment.senses().items()}
        command = station.pipeline.command(torch.from_numpy(wanted.astype(np.float32)[None]), before)
        found, off = action_of(station, command[0].numpy().astype(float))
        assert off < 1e-4
        done = station.act(found).command
        np.testing.assert_allclose(done, command[0].numpy(), atol=1e-4)
    station.close()


def test_commands_for_drives_of_another_stiffness_are_motions_of_the_task() -> None:
    """Their targets make up for another sag, which is no other setting of the task; a slower task is one."""
    so100: Any = load_robot("so100")
    joints = [replace(joint, stiffness_n_m_per_rad=1.3 * joint.stiffness_n_m_per_rad) for joint in so100.joints]
    stiffer, task = replace(so100, joints=tuple(joints)), ReachTask()
    slower = replace(task, motion=replace(task.motion, speed_m_s=0.2 * task.motion.speed_m_s))
    off: dict[str, list[float]] = {"stiffer": [], "slower": []}
    for name, arm, own in (("stiffer", stiffer, task), ("slower", so100, slower)):
        station, theirs = DemonstrationEnvironment(own, arm, 3), DemonstrationEnvironment(task, so100, 3)
        for _ in range(4):
            for one in (station, theirs):
                one.begin()
            seen = {n: torch.from_numpy(a.astype(np.float32)) for n, a in theirs.environment.senses().items()}
            fastest = torch.ones(1, theirs.pipeline.action_size)
            off[name].append(action_of(station, theirs.pipeline.command(fastest, seen)[0].numpy().astype(float))[1])
        for one in (station, theirs):
            one.close()
    assert max(off["stiffer"]) < 1e-3 < 1e-2 < max(off["slower"])


def test_a_gripper_at_an_end_of_its_range_is_found_to_leave_it() -> None:
    station = DemonstrationEnvironment(PickPlaceTask(), panda(), 3)
    for grip in (-1.0, 1.0, -0.4):  # wide open at first, where more does nothing
        before = {name: torch.from_numpy(a.astype(np.float32)) for name, a in station.environment.senses().items()}
        wanted = torch.tensor([[0.3, 0.0, -0.2, 0.1, grip]])
        command = station.pipeline.command(wanted, before)[0].numpy().astype(float)
        found, off = action_of(station, command)
        assert off < 1e-5 and (grip > 0 or found[4] == pytest.approx(grip, abs=1e-3))
    station.close()
