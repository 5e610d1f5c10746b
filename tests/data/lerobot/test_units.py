"""A dataset as LeRobot's SO-100 records it, in its units and with its camera names, becomes a bag in SI units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from rlstack import cli
from rlstack.bringup.demo_commands import DemoExport
from rlstack.data.lerobot import Dataset, DatasetWriter, image, vector
from rlstack.errors import UserError
from rlstack.interfaces.lerobot_features import LerobotFeatures
from rlstack.robots import load_robot

pytest.importorskip("rosbags")

from rlstack.data.bags import moments, open_bag

ROBOT: Any = load_robot("so100")
JOINTS = tuple(joint.name for joint in ROBOT.drives)
COUNT, FPS = 40, 30


def motion(share: float = 0.3) -> np.ndarray:
    """Joints (COUNT, joints) in rad, which swing by a share of their half range about where the arm rests."""
    rest = np.array([joint.rest for joint in ROBOT.drives])
    half = np.array([0.5 * (joint.upper - joint.lower) for joint in ROBOT.drives])
    low, high = (np.array([getattr(joint, end) for joint in ROBOT.drives]) for end in ("lower", "upper"))
    swing = np.sin(np.arange(COUNT)[:, None] / 8.0 + np.arange(len(JOINTS)))
    return np.clip(rest + share * half * swing, low, high)


def record(folder: Path, units: str, reverse: tuple[str, ...] = (), share: float = 0.3) -> Dataset:
    """Write what LeRobot's so100_follower at 30 Hz would: its joints in another order, and the camera front."""
    features, places = LerobotFeatures(ROBOT, units, reverse), motion(share)
    names = [f"{name}.pos" for name in reversed(JOINTS)]
    held = {"observation.state": vector(*names), "action": vector(*names), "observation.images.front": image(6, 8)}
    with DatasetWriter(folder, FPS, "so100_follower", held) as writer:
        for k in range(COUNT):
            state = features.state({"joint_position": places[k]})
            action = features.action(places[min(k + 1, COUNT - 1)])
            frame = {
                name: np.float32([one[n] for n in names])
                for name, one in (("observation.state", state), ("action", action))
            }
            writer.add_frame({**frame, "observation.images.front": np.full((6, 8, 3), k, np.uint8)})
        writer.end_episode("Pick the cube.")
    return Dataset(folder)


@pytest.mark.parametrize(("units", "reverse"), [("degrees", ()), ("range", ("elbow_flex",)), ("rad", ())])
def test_a_dataset_of_lerobots_arm_becomes_a_bag_in_the_robot_files_units(
    tmp_path: Path, units: str, reverse: tuple[str, ...]
) -> None:
    record(tmp_path / "theirs", units, reverse)
    words = ["demo", "export", str(tmp_path / "theirs"), "--out", str(tmp_path / "bag"), "--robot", "so100"]
    words += ["--units", units, "--cameras", "front:=scene", *(["--reverse", *reverse] if reverse else [])]
    assert cli.main(words) == 0
    recording = open_bag(tmp_path / "bag", JOINTS)
    assert recording.namespace == "/so100" and list(recording.cameras) == ["scene"]
    known = moments(recording, FPS, cameras=("scene",))
    np.testing.assert_allclose(known.position, motion(), atol=1e-5)
    np.testing.assert_allclose(known.command[:-1], motion()[1:], atol=1e-5)
    assert known.velocity is not None
    np.testing.assert_allclose(known.velocity[1:-1], (motion()[2:] - motion()[:-2]) * FPS / 2.0, atol=1e-3)
    assert known.images["scene"].take(7)[0, 0, 0] == 7


def test_other_units_and_names_are_refused(tmp_path: Path) -> None:
    record(tmp_path / "theirs", "degrees")
    words = ["demo", "export", str(tmp_path / "theirs"), "--out", str(tmp_path / "bag")]

    def said(*more: str) -> str:
        with pytest.raises(UserError) as refused:
            tyro.cli(DemoExport, args=[*words[2:], *more], config=(tyro.conf.FlagCreatePairsOff,)).run()
        return str(refused.value)

    assert "would go from" in said("--robot", "so100", "--units", "rad")
    assert "give theirs:=ours" in said("--robot", "so100", "--cameras", "front")
    assert "give --robot as well" in said("--cameras", "front:=scene")
    assert "observation.state has no panda_joint1.pos" in said("--robot", "panda")
    assert not (tmp_path / "bag").exists()


def test_such_a_bag_becomes_a_demonstration_of_a_task_here(tmp_path: Path) -> None:
    from rlstack.demonstrations import from_bag, metadata

    record(tmp_path / "theirs", "degrees", share=0.04)
    words = ["demo", "export", str(tmp_path / "theirs"), "--out", str(tmp_path / "bag"), "--robot", "so100"]
    assert cli.main(words) == 0
    task = metadata.task_called("arm_reach", {"rewards": "sparse"})
    robot = task.reference(ROBOT)
    made = from_bag.convert(
        open_bag(tmp_path / "bag", JOINTS), "arm_reach", task, robot, goal=(0.25, 0.0, 0.2), succeeded=True
    )
    assert len(made.frames) == int((COUNT - 1) / FPS * task.rate_hz) + 1 and made.off_m[1] < 0.01
