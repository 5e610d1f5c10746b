"""Demonstrations by the commands that users type: recorded, shown, replayed, filtered, and refused in words."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlstack import cli, robots
from rlstack.data.lerobot import Dataset
from rlstack.demonstrations import metadata, recording
from rlstack.demonstrations.filtering import judge
from rlstack.demonstrations.task_file import TASK_FILE
from rlstack.demonstrations.teleoperation import Teleoperator
from rlstack.hardware.devices import device_called
from rlstack.interfaces.instruction import decoded
from rlstack.kinds.manipulator.spec import load_manipulator
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.training.dataset_demonstrations import recorded
from tests.support.arms import small_panda

PANDA = load_manipulator("panda")


@pytest.fixture(scope="module")
def reaching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve of the expert, and one that succeeds as well, but dawdles where all others hurry."""
    path = tmp_path_factory.mktemp("demos") / "reach"
    words = ["demo", "record", "arm_reach", "--expert", "--episodes", "12", "--episode-s", "1.2", "--out", str(path)]
    assert cli.main(words) == 0
    task, steps = metadata.task_called("arm_reach", {"rewards": "sparse", "episode_s": 4.0}), itertools.count()

    def slowly(station: DemonstrationEnvironment) -> recording.Choice:
        return recording.Choice(station.expert() * (0.05 if next(steps) < 55 else 1.0))

    (ended,) = recording.record(path, "arm_reach", task, PANDA, slowly, 1, seed=9)
    assert ended.number == 12 and ended.success
    return path


def test_recordings_are_shown(reaching: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "show", str(reaching)]) == 0
    shown = capsys.readouterr().out
    assert "13 episodes" in shown and "at 20 Hz, robot panda" in shown
    assert "panda_joint1.pos, panda_joint2.pos" in shown and "x, y, z" in shown
    assert shown.count(" succeeded: ") == 13
    frames = Dataset(reaching).read(0)
    assert frames["next.done"].sum() == 1 and frames["next.done"][-1] and frames["next.success"][-1]
    assert not frames["intervention"].any() and np.abs(frames["action"]).max() <= 1.0


def test_each_demonstration_of_an_instructed_task_is_called_by_its_sentence(tmp_path: Path) -> None:
    task, robot = TablePushTask(episode_s=0.3), small_panda(16)
    still = recording.Choice(np.zeros(3))
    recording.record(tmp_path / "said", "table_push", task, robot, lambda station: still, 3, keep_failures=True)
    held = Dataset(tmp_path / "said")
    sentences = [held.words(number)[0] for number in range(3)]
    assert len(set(sentences)) > 1
    for number, sentence in enumerate(sentences):
        assert decoded(held.read(number)["observation.instruction"][-1]) == sentence


def test_what_fights_the_others_is_dropped_with_the_reason(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good"
    assert cli.main(["demo", "filter", str(reaching), "--out", str(good)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all("kept" in line for line in lines[:12]) and lines[-1] == f"12 of 13 were written into {good}."
    assert lines[12].startswith("episode 12: dropped: it conflicts with the others, most at frame ")
    kept = Dataset(good)
    assert len(kept) == 12 and metadata.read_metadata(kept).name == "arm_reach"
    by_base = judge(reaching, good)
    assert [verdict.kept for verdict in by_base] == [True] * 12 + [False]
    assert by_base[12].success and by_base[12].why.startswith("it conflicts with the others")
    assert cli.main(["demo", "filter", str(good), "--base", str(tmp_path / "none")]) == 2
    assert "none is not a LeRobot dataset" in capsys.readouterr().err


def test_a_replay_is_the_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pick"
    assert cli.main(["demo", "record", "arm_pick_place", "--expert", "--episodes", "1", "--out", str(path)]) == 0
    assert cli.main(["demo", "show", str(path)]) == 0
    (told,) = re.findall(r"episode 0: (\d+ frames, [\d.]+ s)", capsys.readouterr().out)
    assert cli.main(["demo", "replay", str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"episode 0: {told}" in shown
    assert "object depart by at most 0 mm, 0 at the end" in shown
    assert "the recording succeeded, the replay succeeded" in shown
    # commands that are a centimetre off somewhere do not go unnoticed
    frames = Dataset(path).read(0)
    task = metadata.task_called("arm_pick_place", {"rewards": "sparse"})
    station = DemonstrationEnvironment(task, PANDA)
    station.restore(frames[metadata.SIMULATOR][0], frames[metadata.TRIAL_OF][0])
    command = frames[metadata.COMMAND][0].astype(float)
    station.drive(command + 0.02 * (np.arange(9) == 0))
    apart = station.positions()["tool"] - station.positions(frames[metadata.SIMULATOR][1])["tool"]
    assert np.linalg.norm(apart) > 1e-4
    station.close()


MOVES = """\
moves:
  - {steps: 3}
  - {steps: 4, linear: [2, 0, 0]}
  - {said: discard}
  - {steps: 40, linear: [0, 0, -1]}
  - {said: save}
"""


def test_a_hand_records_what_it_does_and_is_told_what_was_clipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moves, path = tmp_path / "moves.yaml", tmp_path / "hand"
    moves.write_text(MOVES)
    words = ["demo", "record", "arm_reach", "--teleop", f"script:{moves}", "--episodes", "3", "--out", str(path)]
    assert cli.main(words) == 0
    said = capsys.readouterr().err
    assert "not kept: discarded, 4 frames" in said, "waiting is not recorded"
    assert "x is clipped to 0.4 m/s." in said and "The tool is kept in the workspace, z >= 0.015 m." in said
    assert "episode 0, 40 frames" in said
    (frames,) = Dataset(path)
    assert frames["intervention"].all() and (frames["action"] == [0.0, 0.0, -1.0]).all()


def test_whoever_records_more_records_other_episodes(tmp_path: Path) -> None:
    task = metadata.task_called("arm_reach", {"rewards": "sparse", "episode_s": 1.5})
    for _ in range(2):
        recording.record(tmp_path / "more", "arm_reach", task, PANDA, recording.expert, 2)
    goals = [frames["observation.environment_state"][0].tolist() for frames in Dataset(tmp_path / "more")]
    assert len({tuple(goal) for goal in goals}) == 4


def test_a_hand_corrects_the_expert(tmp_path: Path) -> None:
    moves = tmp_path / "moves.yaml"
    moves.write_text("moves: [{steps: 3, intervene: false}, {steps: 2, linear: [0, 1, 0]}, {steps: 99, intervene: no}]")
    task = metadata.task_called("arm_reach", {"rewards": "sparse", "episode_s": 1.5})
    decide = Teleoperator(device_called(f"script:{moves}", PANDA), recording.expert)
    (ended,) = recording.record(tmp_path / "both", "arm_reach", task, PANDA, decide, 1)
    (frames,) = Dataset(tmp_path / "both")
    assert ended.success and frames["intervention"][:, 0].tolist() == [k in (3, 4) for k in range(ended.frames)]
    assert (frames["action"][3:5] == [0.0, 1.0, 0.0]).all()


def test_a_replay_is_told_the_file_of_a_robot_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert cli.main(["demo", "replay", str(path), *words]) == 2
        return capsys.readouterr().err

    own, path = tmp_path / "my_arm.yaml", tmp_path / "my"
    own.write_text(Path(robots.__file__).with_name("panda.yaml").read_text().replace("name: panda\n", "name: my_arm\n"))
    record = ["demo", "record", "arm_reach", "--expert", "--episodes", "1", "--robot", str(own), "--out", str(path)]
    assert cli.main(record) == 0
    capsys.readouterr()
    assert cli.main(["demo", "replay", str(path), "--robot", str(own)]) == 0
    assert "tool depart by at most 0 mm" in capsys.readouterr().out
    assert "with the robot 'my_arm', which does not ship with rlstack: give its file with --robot FILE" in refused()
    assert "with the robot 'my_arm', and --robot panda is 'panda'" in refused("--robot", "panda")
    other = tmp_path / "other.yaml"
    other.write_text(own.read_text().replace("panda_finger_joint2", "panda_finger_joint3"))
    said = refused("--robot", str(other))
    assert "panda_finger_joint2, and" in said and "panda_finger_joint3: give the file of" in said


def test_demonstrations_that_do_not_fit_are_refused_by_name(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str) -> str:
        assert cli.main(["demo", *words]) == 2
        return capsys.readouterr().err

    record = ("record", "arm_reach", "--expert", "--out")
    other = tmp_path / "other"
    shutil.copytree(reaching, other)
    info = json.loads((other / "meta/info.json").read_text())
    for key, value, sentence in (
        ("robot_type", "so100", "was recorded with the robot 'so100', not 'panda'"),
        ("fps", 10, "was recorded at 10 Hz, not 20 Hz"),
    ):
        (other / "meta/info.json").write_text(json.dumps({**info, key: value}))
        assert sentence in refused(*record, str(other))
        assert "does not fit" in refused("filter", str(reaching), "--base", str(other))
    camera = {"dtype": "image", "shape": [8, 8, 3], "names": ["height", "width", "channels"]}
    features = {**info["features"], "observation.images.wrist": camera}
    (other / "meta/info.json").write_text(json.dumps({**info, "features": features}))
    assert "has the camera 'observation.images.wrist' too" in refused(*record, str(other))
    assert "of arm_reach, not of arm_push" in refused("record", "arm_push", "--expert", "--out", str(reaching))
    said = refused("record", "base_navigation", "--expert", "--out", str(tmp_path / "n"))
    assert "'base_navigation' cannot be demonstrated. Tasks that can: arm_" in said and "base_racing" not in said
    assert "crazyflie is a quadrotor" in refused(*record, str(tmp_path / "n"), "--robot", "crazyflie")
    assert "No demonstrator was given" in refused("record", "arm_reach", "--out", str(tmp_path / "n"))
    assert "has the episodes 0 to 12, but not 99" in refused("replay", str(reaching), "--episode", "99")
    sheet_file = other / TASK_FILE
    held = json.loads(sheet_file.read_text())
    (other / "meta/info.json").write_text(json.dumps(info))
    sheet_file.write_text(json.dumps({**held, "task": "arm_push"}))
    assert "holds demonstrations of arm_push, not of arm_reach" in refused(*record, str(other))
    sheet_file.write_text(json.dumps({**held, "settings": {**held["settings"], "tolerance_m": 0.5}}))
    assert "was recorded with tolerance_m 0.5, not 0.01" in refused(*record, str(other))
    sheet_file.unlink()
    assert "was not recorded by rlstack demo record" in refused("replay", str(other))


def test_a_recording_that_was_cut_off_opens_up_to_its_last_whole_episode(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(reaching, cut)
    info = json.loads((cut / "meta/info.json").read_text())
    # a copy of a dataset that has grown since: the list of episodes ends before what info.json counts
    (cut / "meta/info.json").write_text(json.dumps({**info, "total_episodes": 14}))
    assert cli.main(["demo", "show", str(cut)]) == 0
    assert "is cut off" in (shown := capsys.readouterr().out) and "so that 13 of its 14 episodes can be used" in shown
    (data,) = cut.glob("data/*/*.parquet")
    data.write_bytes(data.read_bytes()[:-100])
    assert cli.main(["demo", "show", str(cut)]) == 0
    assert "so that 0 of its 14 episodes can be used" in capsys.readouterr().out
    assert cli.main(["demo", "filter", str(cut)]) == 2
    assert "holds no complete demonstration" in capsys.readouterr().err


def test_a_list_of_episodes_that_was_cut_off_is_told_by_every_command_and_costs_none(
    reaching: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(reaching, cut)
    (listed,) = cut.glob("meta/episodes/*/*.parquet")
    listed.write_bytes(listed.read_bytes()[:-50])
    told = (
        f"{cut} is cut off: meta/episodes/chunk-000/file-000.parquet is not whole, 13 episodes were found by their"
        " frames, so that 13 of its 13 episodes can be used."
    )
    assert cli.main(["demo", "show", str(cut)]) == 0
    shown = capsys.readouterr().out
    assert told in shown and "episode 12: 80 frames, 4.00 s, succeeded" in shown and not caplog.messages
    for words in (["replay", str(cut), "--episode", "5"], ["filter", str(cut), "--out", str(tmp_path / "good")]):
        assert cli.main(["demo", *words]) == 0
        assert caplog.messages == [told]
        caplog.clear()
    assert "12 of 13 were written" in capsys.readouterr().out
    more = ["demo", "record", "arm_reach", "--expert", "--episodes", "1", "--episode-s", "1.2", "--out", str(cut)]
    assert cli.main(more) == 0
    aside = "meta/episodes/chunk-000/file-000.parquet.set_aside"
    assert caplog.messages == [f"{told} Set aside: {aside}. The next episode is number 13."]
    assert len(Dataset(cut)) == 14 and Dataset(cut).cut_off == ""
    for episode in range(13):
        np.testing.assert_array_equal(Dataset(cut).read(episode)["action"], Dataset(reaching).read(episode)["action"])


def test_what_was_recorded_is_what_training_learns_from(reaching: Path) -> None:
    station = DemonstrationEnvironment(metadata.task_called("arm_reach"), PANDA)
    (steps,) = recorded(reaching, station.environment, 1)
    frames = Dataset(reaching).read(0)
    seen = np.array([step["observation"] for step in steps])
    np.testing.assert_allclose(seen[: len(frames[metadata.OBSERVATION])], frames[metadata.OBSERVATION], atol=1e-5)
    station.close()
