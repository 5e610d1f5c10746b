"""Demonstrations in a dataset: what is learned from them is what the robot's own steps would give."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.data.lerobot import Dataset, DatasetWriter, image
from rlstack.data.lerobot.statistics import of_values
from rlstack.demonstrations.task_file import TASK_FILE, write_task_file
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.tasks.catalog.arm_pick_place_camera import CameraPickPlaceTask
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.tasks.catalog.arm_stack import StackTask
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import ArmNoise, Motion
from rlstack.training.dataset_demonstrations import (
    ACTION,
    OBSERVATION,
    SUCCESS,
    check_statistics,
    check_values,
    frame_features,
    recorded,
)
from rlstack.training.demonstrations import open_demonstrations
from tests.support.arms import small_panda

EXACT = ArmNoise(joint_rad=0.0, joint_velocity_rad_s=0.0, object_m=0.0, object_rad=0.0)
"""What is sensed says then whether it is done as the simulator itself does."""


@pytest.fixture(scope="module")
def arms() -> ArmEnvironment:
    task = PushTask(rewards="sparse", noise=EXACT)
    robot = task.reference(load_robot("panda"))
    return task.environment(robot, task.pipeline(robot), 4, "cpu", 0)


def test_refuses_other_units_and_scales() -> None:
    robot = small_panda(16)
    rest = np.tile([drive.rest for drive in robot.drives], (3, 1)).astype(np.float32)
    environment = SimpleNamespace(robot=robot)
    fits = {"observation.joint_position": rest, "action": np.full((3, 3), -1.0, np.float32)}
    check_values(fits, environment, "here")
    pushed = rest.copy()
    pushed[:, 8] = -0.006  # a block pushes a finger of the closed gripper
    check_values({**fits, "observation.joint_position": pushed}, environment, "here")
    pushed[0, 8] = -0.012
    with pytest.raises(UserError, match=r"here: panda_finger_joint2 goes from -0.012 to -0.006, .* zero is another"):
        check_values({**fits, "observation.joint_position": pushed}, environment, "here")
    with pytest.raises(UserError, match=r"here: panda_joint2 goes from -45 .* its unit or its zero is another one"):
        check_values({**fits, "observation.joint_position": np.rad2deg(rest)}, environment, "here")
    with pytest.raises(UserError, match=r"its actions reach 50, and the task's are -1 to 1"):
        check_values({**fits, "action": 50.0 * fits["action"]}, environment, "here")
    fits["action"][1, 2] = np.nan
    with pytest.raises(UserError, match=r"here: its feature 'action' is not finite in frame 1: leave the episode out"):
        check_values(fits, environment, "here")


def test_refuses_frames_that_its_statistics_contradict() -> None:
    frames = {"action": np.array([[0.1, -0.4], [0.2, 0.5]], np.float32), "image": np.zeros((2, 4, 4, 3), np.uint8)}
    held = {name: of_values(values) for name, values in frames.items()}
    check_statistics(frames, held, "here")
    check_statistics(frames, {"action": {}, "other": held["action"]}, "here")  # which say nothing of it
    frames["action"][:, 1] *= 10.0
    with pytest.raises(UserError, match=r"here: element 1 of 'action' goes from -4 to 5, and the dataset's statistics"):
        check_statistics(frames, held, "here")


def record(path: Path, environment: ArmEnvironment, wanted: int, task: str) -> None:
    """Write successful episodes of the scripted expert into a dataset."""
    names, found = environment.task.inputs, 0
    environment.restart(torch.arange(environment.count))
    going: list[list[dict[str, Any]]] = [[] for _ in range(environment.count)]
    with DatasetWriter(path, environment.task.rate_hz, environment.robot.name, frame_features(environment)) as writer:
        while found < wanted:
            senses, action = environment.senses(), environment.expert_action()
            result = environment.step(action)
            for robot in range(environment.count):
                frame = {OBSERVATION + name: senses[name][robot].astype(np.float32) for name in names}
                done = bool(result.success[robot])
                going[robot].append({**frame, ACTION: action[robot].numpy(), SUCCESS: done})
            for robot in result.done.nonzero().flatten().tolist():
                if bool(result.success[robot]) and found < wanted:
                    for frame in going[robot]:
                        writer.add_frame(frame)
                    writer.end_episode(task)
                    found += 1
                going[robot] = []


def test_a_dataset_gives_the_steps_that_were_recorded(arms: ArmEnvironment, tmp_path: Path) -> None:
    state = arms.state_dict()
    record(tmp_path / "shown", arms, 3, "Push the box to its place.")
    dataset = Dataset(tmp_path / "shown")
    assert len(dataset) == 3 and dataset.robot_type == "panda" and dataset.fps == 20
    found = recorded(tmp_path / "shown", arms, 3)
    # the same once more, as the environment itself tells it
    arms.load_state_dict(state)
    arms.restart(torch.arange(4))
    seen = arms.observe()[0].clone()
    running = [[seen[k].numpy()] for k in range(4)]
    ended: list[list[np.ndarray]] = []
    while len(ended) < 3:
        action = arms.expert_action()
        result = arms.step(action)
        for k in range(4):
            running[k].append(result.next_actor[k].numpy().copy())
        for k in result.done.nonzero().flatten().tolist():
            if result.success[k] and len(ended) < 3:
                ended.append(running[k])
            running[k] = [result.actor[k].numpy().copy()]
    for steps, told in zip(found, ended):
        assert len(steps) == len(told)
        for step, observation in zip(steps[:-1], told):  # what was seen last is not in a dataset
            np.testing.assert_allclose(step["observation"], observation, atol=2e-3)
        assert [float(step["reward"]) for step in steps[-5:]] == [0.0] * 5
        assert [float(step["goes_on"]) for step in steps[1:]] == [1.0] * (len(steps) - 2) + [0.0]


def test_too_few_are_refused(arms: ArmEnvironment, tmp_path: Path) -> None:
    record(tmp_path / "shown", arms, 1, "Push.")
    with pytest.raises(UserError, match=r"has 1 demonstrations, but 2 are required"):
        recorded(tmp_path / "shown", arms, 2)


def test_failures_are_passed_over(arms: ArmEnvironment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, held = tmp_path / "shown", frame_features(arms)
    with DatasetWriter(path, 20, "panda", held) as writer:
        for number, success in enumerate((False, True, False, True, False)):
            for frame in range(3):
                none = {name: np.zeros(feature.shape, np.float32) for name, feature in held.items()}
                done = {ACTION: np.full(5, 0.1 * number, np.float32)[: len(arms.task.axes)], SUCCESS: success}
                writer.add_frame({**none, **done, SUCCESS: success and frame == 2})
            writer.end_episode("Push.")
    found = recorded(path, arms, 2)
    assert [round(float(steps[1]["action"][0]), 3) for steps in found] == [0.1, 0.3]
    assert capsys.readouterr().err == f"{path}: 2 demonstrations did not succeed and are skipped.\n"
    assert len(recorded(path, arms, 1)) == 1 and "1 demonstrations did not" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"has 5 demonstrations, of which 2 succeeded, but 3 are required"):
        recorded(path, arms, 3)


def test_another_task_or_motion_is_refused_by_name(arms: ArmEnvironment, tmp_path: Path) -> None:
    record(tmp_path, arms, 1, "Push.")

    def refused(name: str, task: ArmTask, sentence: str) -> None:
        (tmp_path / TASK_FILE).unlink(missing_ok=True)
        write_task_file(tmp_path, name, task)
        with pytest.raises(UserError, match=sentence):
            recorded(tmp_path, arms, 1)

    refused("arm_stack", StackTask(), "holds demonstrations of arm_stack, not of arm_push: give a dataset of arm_push")
    refused("arm_of_others", PushTask(), "holds demonstrations of arm_of_others, not of arm_push")
    faster = PushTask(motion=Motion(speed_m_s=0.8))
    refused("arm_push", faster, r"was recorded with motion\.speed_m_s 0\.8, and 0\.4 is required")
    (tmp_path / TASK_FILE).unlink()
    # where it begins, how long it takes and what it earns is each run's own
    write_task_file(tmp_path, "arm_push", PushTask(episode_s=99.0, noise=ArmNoise(object_m=0.1), tolerance_m=0.1))
    assert len(recorded(tmp_path, arms, 1)) == 1


def test_a_run_goes_on_when_its_dataset_is_gone(arms: ArmEnvironment, tmp_path: Path) -> None:
    shown, run = tmp_path / "shown", tmp_path / "run"
    record(shown, arms, 2, "Push.")
    first = open_demonstrations(arms, run, 2, str(shown))
    held = first.buffer.gather(first.buffer.indices())
    first.close()
    shutil.rmtree(shown)
    again = open_demonstrations(arms, run, 2, str(shown))
    for name, array in again.buffer.gather(again.buffer.indices()).items():
        np.testing.assert_array_equal(array, held[name])
    again.close()


def test_a_dataset_with_other_cameras_than_the_tasks_is_refused_by_name(tmp_path: Path) -> None:
    robot, task = load_robot("panda"), CameraPickPlaceTask()
    assert isinstance(robot, Manipulator)
    environment = SimpleNamespace(robot=robot, task=task, pipeline=task.pipeline(robot))
    wanted = frame_features(environment)
    assert wanted["observation.images.wrist"] == image(84, 84) and wanted["observation.wrist_image_age"].shape == (1,)
    scene = {name: feature for name, feature in wanted.items() if name != "observation.images.wrist"}
    for k, (features, said) in enumerate(
        (
            (scene, "has no camera 'observation.images.wrist'; of that kind it has: observation.images.scene"),
            ({**scene, "observation.images.wrist": image(96, 96)}, "'observation.images.wrist' is 96 x 96 pixels, not"),
            (wanted, "a task with cameras learns from its scripted expert's demonstrations for now"),
        )
    ):
        path = tmp_path / str(k)
        with DatasetWriter(path, task.rate_hz, "panda", features) as writer:
            writer.add_frame(
                {name: np.zeros(f.shape, dtype="uint8" if f.is_image else f.dtype) for name, f in features.items()}
            )
            writer.end_episode("Show it.")
        with pytest.raises(UserError, match=said):
            recorded(path, environment, 1)


def test_what_a_dataset_does_not_tell_is_not_guessed(arms: ArmEnvironment, tmp_path: Path) -> None:
    dense: Any = SimpleNamespace(task=PushTask(rewards="dense"))
    with pytest.raises(UserError, match=r"dataset: shown is not allowed with task_settings: rewards: dense: a dataset"):
        open_demonstrations(dense, None, 2, "shown")
    record(tmp_path / "shown", arms, 2, "Push the box to its place.")
    dense_arms = PushTask(rewards="dense", noise=EXACT).environment(arms.robot, arms.pipeline, 1, "cpu", 0)
    kept = open_demonstrations(dense_arms, None, 2, str(tmp_path / "shown"), earned=False)
    assert len(kept.buffer.episodes()) == 2  # who clones what was done asks for no rewards
    kept.close()
    dense_arms.close()
