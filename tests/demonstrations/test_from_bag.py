"""What a bag of an arm at a task becomes: demonstrations that say what was recorded, and that are learned from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack import cli
from rlstack.data.lerobot import Dataset, DatasetWriter
from rlstack.demonstrations import from_bag, metadata
from rlstack.demonstrations.task_file import write_task_file
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import load_manipulator
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.training.dataset_demonstrations import recorded

pytest.importorskip("rosbags")

from rlstack.data.bags import Recording, open_bag

PANDA = load_manipulator("panda")
JOINTS = tuple(drive.name for drive in PANDA.drives)
TASK = metadata.task_called("arm_pick_place", {"rewards": "sparse"})


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demonstration of the expert, and the bag that it becomes."""
    folder = tmp_path_factory.mktemp("demos")
    words = ["demo", "record", "arm_pick_place", "--expert", "--episodes", "1", "--out", str(folder / "shown")]
    assert cli.main(words) == 0
    assert cli.main(["demo", "export", str(folder / "shown"), "--out", str(folder / "bag")]) == 0
    return folder


@pytest.fixture
def recording(shown: Path) -> Recording:
    return open_bag(shown / "bag", JOINTS)


def add(recording: Recording, out: Path, task: ArmTask = TASK, **more: Any) -> from_bag.BagDemonstration:
    shown = from_bag.convert(recording, "arm_pick_place", task, PANDA, **more)
    with DatasetWriter(out, task.rate_hz, PANDA.name, from_bag.features_of(task, PANDA)) as writer:
        shown.write(writer)
    return shown


def test_what_was_recorded_comes_back_and_is_learned_from(
    shown: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again"
    words = ["demo", "import", str(shown / "bag"), "--out", str(again)]
    assert cli.main([*words, "--task", "arm_pick_place"]) == 0
    assert "the task succeeded; its actions move the tool to within" in capsys.readouterr().out
    before, after = Dataset(shown / "shown").read(0), Dataset(again).read(0)
    assert {f"observation.{name}" for name in TASK.inputs} < after.keys() and len(after["action"]) > 20
    assert set(before["action"][:, 4]) >= {-1.0, 1.0}, "the gripper, too, which is at an end of its range at first"
    assert before["next.success"][-1] and after["next.success"][-1], "a bag tells it at the end alone"
    for name in set(after) - {"next.success"}:
        np.testing.assert_allclose(after[name].astype(float), before[name], atol=1e-3 if name == "action" else 1e-6)
    station = DemonstrationEnvironment(TASK, PANDA)
    (steps,), (told,) = (recorded(path, station.environment, 1) for path in (again, shown / "shown"))
    for one, other in zip(steps, told, strict=True):
        np.testing.assert_allclose(one["observation"], other["observation"], atol=1e-3)
    assert cli.main(["demo", "replay", str(again)]) == 2
    assert "it came from bags: it cannot be replayed" in capsys.readouterr().err
    # without a task's name it is LeRobot's, and whoever would learn from it is told what to do
    words[-1] = str(tmp_path / "words")
    assert cli.main([*words, "--task", "picking"]) == 0
    assert "is for LeRobot's policies; rlstack train needs one imported with" in capsys.readouterr().out
    assert "observation.goal_position" not in Dataset(tmp_path / "words").features
    with pytest.raises(UserError, match=r"no observation\.joint_position .*import with --task arm_pick_place"):
        recorded(tmp_path / "words", station.environment, 1)
    station.close()
    assert cli.main([*words, "--task", "picking", "--succeeded"]) == 2
    assert "--succeeded needs a task's name, and 'picking' is not one" in capsys.readouterr().err
    words[-1] = str(again)
    assert cli.main([*words, "--task", "arm_stack"]) == 2
    assert "holds demonstrations of arm_pick_place, not of arm_stack" in capsys.readouterr().err


def test_an_episode_ends_where_the_task_was_done(recording: Recording, tmp_path: Path) -> None:
    whole = add(recording, tmp_path / "whole")
    soon = add(recording, tmp_path / "soon", replace(TASK, hold_s=0.05, ends=True))
    assert whole.success and whole.left_out == 0 and soon.success and 0 < soon.left_out < len(whole.frames)
    frames = Dataset(tmp_path / "soon").read(0, ["next.success", "next.done"])
    assert frames["next.success"][:, 0].tolist() == [False] * (len(soon.frames) - 1) + [True]
    assert (frames["next.done"] == frames["next.success"]).all()
    stamps, goal = recording.poses["goal"]
    elsewhere = replace(recording, poses={**recording.poses, "goal": (stamps, goal + 0.1)})
    failed = add(elsewhere, tmp_path / "failed")
    assert not failed.success and "so training skips it" in failed.describe()
    assert not Dataset(tmp_path / "failed").read(0, ["next.success"])["next.success"].any()
    assert add(elsewhere, tmp_path / "said", succeeded=True).success
    assert add(elsewhere, tmp_path / "there", goal=goal[0, :3].tolist()).success


def test_commands_of_a_hand_that_come_more_often_are_where_they_led(recording: Recording, tmp_path: Path) -> None:
    # each command in three: two on the way and the last where the arm was to be
    before = np.concatenate([recording.position[:1], recording.command[:-1]])
    shares = np.array([1 / 3, 2 / 3, 1.0])[None, :, None]
    often = (before[:, None] + shares * (recording.command - before)[:, None]).reshape(-1, len(JOINTS))
    stamps = (recording.command_ns[:, None] + np.array([1, 17, 33]) * 1_000_000).ravel()
    add(recording, tmp_path / "one")
    # from the first command on, which is a moment after the first state
    hand = add(replace(recording, command_ns=stamps, command=often), tmp_path / "often")
    first, other = (Dataset(tmp_path / name).read(0, ["action"])["action"] for name in ("one", "often"))
    assert hand.off_m[0] < 1e-5
    assert 0 <= len(first) - len(other) <= 1 and np.abs(first[: len(other)] - other).max() < 0.01


def test_an_arm_that_is_held_in_any_posture_is_one_that_is_not_moved(recording: Recording, tmp_path: Path) -> None:
    # a policy's own commands would bring its elbow home, and lead the tool back all the time
    still = recording.position[:1] + np.array([0.9, 0.0, -0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    held = np.repeat(still, len(recording.position), axis=0)
    turned = replace(recording, position=held, velocity=np.zeros_like(held), command=held)
    task = metadata.task_called("arm_reach", {"rewards": "sparse"})
    add(turned, tmp_path / "held", task, succeeded=True)
    assert np.abs(Dataset(tmp_path / "held").read(0, ["action"])["action"]).max() < 0.01
    write_task_file(tmp_path / "held", "arm_reach", task)
    station = DemonstrationEnvironment(task, PANDA)
    (steps,) = recorded(tmp_path / "held", station.environment, 1)
    seen = np.array([step["observation"] for step in steps])
    np.testing.assert_allclose(seen, seen[:1] + np.zeros((len(seen), 1)), atol=1e-3)
    station.close()


def test_bags_that_lack_something_are_refused_by_name(recording: Recording, tmp_path: Path) -> None:
    goal = {"goal": recording.poses["goal"]}
    with pytest.raises(UserError, match=r"senses, images on /panda/scene/image_raw, /panda/instruction: record it too"):
        from_bag.convert(recording, "table_push", TablePushTask(), PANDA, succeeded=True)
    with pytest.raises(UserError, match=r"lacks what arm_pick_place senses, /panda/object: record it too, or"):
        add(replace(recording, poses=goal), tmp_path / "none")
    with pytest.raises(
        UserError, match=r"velocities in /panda/joint_states, /panda/object, /panda/goal: record it too \(or give"
    ):
        add(replace(recording, velocity=None, poses={}), tmp_path / "none")
    with pytest.raises(UserError, match=r"move the tool to where no action of arm_pick_place does, \d+ mm off"):
        add(replace(recording, command=np.rad2deg(recording.command)), tmp_path / "none")
    stamps, places = recording.poses["object"]
    silent = {**goal, "object": (stamps[[0, -1]], places[[0, -1]])}
    with pytest.raises(UserError, match=r"the poses on object were silent for more than 0\.5 s"):
        add(replace(recording, poses=silent), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    seen = metadata.task_called("arm_pick_place_camera")
    with pytest.raises(UserError, match=r"images on /panda/wrist/image_raw, images on /panda/scene/image_raw"):
        add(recording, tmp_path / "seen", seen)


def test_a_misspelt_task_is_no_sentence_for_lerobots_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "import", "bag", "--task", "arm_reech", "--out", str(tmp_path / "made")]) == 2
    assert "Unknown task 'arm_reech'. Nearest: arm_reach" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
