"""What tells robots of one name apart, and what does not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import load_robot, robot_names
from rlstack.robots.spec import digest, robot_files
from tests.support.robots import under_an_autopilot

ARM = """
name: two_links
kind: manipulator
description: {description}
control_rate_hz: 50.0
model: {model}
mass_kg: 2.0
joints:
  - {{name: elbow, velocity_max_rad_s: 1.0, effort_max_n_m: 5.0, stiffness_n_m_per_rad: 10.0, damping_n_m_s_per_rad: 1}}
tool_link: tool
limits: {{workspace_min_m: [-1.0, -1.0, -1.0], workspace_max_m: [1.0, 1.0, 1.0], tool_velocity_m_s: 1.0}}
sensors: {{joint_states: {{rate_hz: 50.0}}}}
"""


def arm(folder: Path, model: str, description: str = "An arm", text: str = "<robot/>") -> str:
    """Write an arm's file and its model into a folder, and return its digest."""
    folder.mkdir(exist_ok=True)
    (folder / model).write_text(text)
    (folder / "arm.yaml").write_text(ARM.format(model=model, description=description))
    return load_robot(folder / "arm.yaml").sha256


def test_the_robots_that_come_with_rlstack_differ() -> None:
    names = robot_names()
    assert len({load_robot(name).sha256 for name in names}) == len(names)


def test_a_robot_keeps_the_digest_that_it_had_before_there_were_rate_loops() -> None:
    before = "3dea71d99f7b6a481d4e1abf16fcb42ea4c22a843f807480c3c7bdaa1114612b"  # of released policies' records
    assert load_robot("crazyflie").sha256 == before
    assert under_an_autopilot("crazyflie").sha256 != before


def test_a_weak_motor_is_another_robot_and_equal_ones_need_no_mention() -> None:
    robot = load_quadrotor("crazyflie")
    first, *others = robot.rotors
    assert "thrust_factor" not in str(robot.identity()) and first.thrust_factor == 1.0
    weak = replace(robot, rotors=(replace(first, thrust_factor=0.8), *others))
    assert weak.sha256 != robot.sha256 and str(weak.identity()).count("thrust_factor") == 1
    assert "rotor_thrust_factor" not in robot.output_numbers()
    assert weak.output_numbers()["rotor_thrust_factor"] == {first.name: 0.8}


def test_it_is_the_same_in_every_process() -> None:
    program = "from rlstack.robots import load_robot; print(load_robot('crazyflie').sha256)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == load_robot("crazyflie").sha256


def test_a_file_elsewhere_in_another_order_and_other_words_is_the_same_robot(tmp_path: Path) -> None:
    data = yaml.safe_load(robot_files()["crazyflie"].read_text())
    data["description"] = "Mine."
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(dict(reversed(data.items())), sort_keys=False))
    assert load_robot(path).sha256 == load_robot("crazyflie").sha256
    data["sensors"]["odom"]["rate_hz"] += 1e-9
    path.write_text(yaml.safe_dump(data))
    assert load_robot(path).sha256 != load_robot("crazyflie").sha256


def test_whole_numbers_are_numbers_and_truths_are_not() -> None:
    assert digest({"a": [1, -0.0], "b": "x"}) == digest({"b": "x", "a": [1.0, 0]})
    assert digest({"a": True}) != digest({"a": 1})
    robot = load_quadrotor("crazyflie")
    whole = replace(robot, control_rate_hz=100)
    assert robot.control_rate_hz == 100.0 and whole.sha256 == robot.sha256


def test_of_a_model_counts_what_it_holds_not_where_it_lies_or_what_it_is_called(tmp_path: Path) -> None:
    first = arm(tmp_path / "here", "a.urdf")
    assert arm(tmp_path / "there", "b.urdf", "The same arm") == first
    assert arm(tmp_path / "there", "b.urdf", text="<robot name='x'/>") != first
    (tmp_path / "here" / "a.urdf").unlink()
    with pytest.raises(UserError, match="is not a file"):
        load_robot(tmp_path / "here" / "arm.yaml").sha256  # noqa: B018


def test_of_several_arms_each_ones_file_counts(tmp_path: Path) -> None:
    data = yaml.safe_load(robot_files()["panda_pair"].read_text())
    panda = yaml.safe_load(robot_files()["panda"].read_text())
    for mounted in data["arms"]:
        mounted["robot"] = "mine.yaml"
    (tmp_path / "pair.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(panda))
    assert load_robot(tmp_path / "pair.yaml").sha256 == load_robot("panda_pair").sha256
    panda["mass_kg"] *= 1.001
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(panda))
    assert load_robot(tmp_path / "pair.yaml").sha256 != load_robot("panda_pair").sha256


def test_a_robot_that_was_replaced_since_it_was_checked_is_refused(tmp_path: Path) -> None:
    checked, path = arm(tmp_path, "model.urdf"), tmp_path / "arm.yaml"
    assert load_robot(path, sha256=checked).sha256 == checked
    (tmp_path / "model.urdf").write_text("<robot name='other'/>")
    with pytest.raises(UserError, match=r"arm\.yaml, or the model that it names, was replaced since it was checked"):
        load_robot(path, sha256=checked)
    arm(tmp_path, "model.urdf")
    path.write_text(path.read_text().replace("mass_kg: 2.0", "mass_kg: 2.1"))
    with pytest.raises(UserError, match="Start again, which checks the present one"):
        load_robot(path, sha256=checked)
