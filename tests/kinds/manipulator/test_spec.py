"""Files of manipulators: what they say, and what is refused by key."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_files


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


def test_the_pandas_joints_come_from_base_to_tool_then_the_gripper() -> None:
    names = [joint.name for joint in panda().drives]
    assert names == [*(f"panda_joint{i}" for i in range(1, 8)), "panda_finger_joint1", "panda_finger_joint2"]
    assert {joint.mode for joint in panda().drives} == {"position"}
    assert panda().drives[3].rest == pytest.approx(-0.75 * math.pi, abs=1e-6)
    assert panda().drives[8].type == "prismatic"


def write(tmp_path: Path, **changes: Any) -> Path:
    data = yaml.safe_load(robot_files()["panda"].read_text())
    data.update(changes)
    path = tmp_path / "arm.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_models_path_is_relative_to_the_robot_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, model="meshes/arm.urdf")
    monkeypatch.chdir(tmp_path.parent)
    for given in (path, Path(tmp_path.name) / path.name):
        robot = load_robot(given)
        assert isinstance(robot, Manipulator) and robot.model == str(tmp_path / "meshes/arm.urdf")
    assert panda().model.startswith("package:")


def test_a_joint_without_range_turns_without_limit(tmp_path: Path) -> None:
    joint = copy.deepcopy(yaml.safe_load(robot_files()["panda"].read_text())["joints"][0])
    del joint["position_min_rad"], joint["position_max_rad"]
    robot = load_robot(write(tmp_path, joints=[joint]))
    assert robot.drives[0].type == "continuous" and robot.drives[0].upper == math.inf


def joints(change: Callable[[list], Any], key: str = "joints") -> dict[str, Any]:
    found = copy.deepcopy(yaml.safe_load(robot_files()["panda"].read_text())[key])
    change(found)
    return {key: found}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            joints(lambda j: j[1].update(rest_rad=2.0)),
            r"joints\[1\]: rest_rad: 2.0 is not allowed: .* -1.7628 to 1.7628",
        ),
        (joints(lambda j: j[1].update(position_max_rad=-2.0)), r"position_max_rad: -2.0 .*above position_min_rad"),
        (joints(lambda j: j[1].pop("position_max_rad")), "must both be there, or neither"),
        (joints(lambda j: j[1].pop("effort_max_n_m")), r"'joints\[1\].effort_max_n_m' is missing \(unit: N m\)"),
        (joints(lambda j: j[1].update(name="panda_joint1")), "every joint needs a name of its own"),
        (joints(lambda j: j.clear()), "joints: none: an arm needs at least one"),
        # The error speaks of the kind of joint that was meant.
        (
            joints(lambda j: j[0].update(position_max_mm=40), "gripper"),
            r"'gripper\[0\].position_max_mm'.*position_max_m",
        ),
        (joints(lambda j: j[0].update(stiffness_n_per_m=-1.0), "gripper"), r"stiffness_n_per_m: -1.0 .*above 0.0 N/m"),
        ({"mass_tolerance": 2.0}, "mass_tolerance: 2.0 is not allowed"),
        (
            {"limits": {"workspace_min_m": [0, 0, 0], "workspace_max_m": [1, 1, 0], "tool_velocity_m_s": 1}},
            "workspace_max",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_key(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load_robot(write(tmp_path, **changes))
