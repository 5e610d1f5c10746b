"""Verification of tasks that are not judged on maps: crowds, races, exploration; each short, in the batch simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rlstack.bringup.verification_check import require_verification
from rlstack.bringup.verify import verify
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base import verification_crowd as crowd
from rlstack.kinds.wheeled_base import verification_exploration as exploration
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_exploration import expedition_of, floors_of
from rlstack.policies import contract_for, load_policy, write_policy
from rlstack.robots import load_robot
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.task_verification import known_planners, supporting
from tests.policies.test_people import write_wary_policy
from tests.support.bases import turtlebot, write_exploring_policy

pytest.importorskip("matplotlib")

ROBOT = turtlebot()


def base(name: str) -> WheeledBase:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase)
    return robot


def of_task(path: Path, task: str) -> Path:
    """Say that a policy file is one of a task."""
    write_policy(onnx.load(path), replace(load_policy(path).contract, task=task), path)
    return path


def write_straight_policy(path: Path, robot: WheeledBase, task: str, inputs: tuple[str, ...], output: str) -> Path:
    """Write a policy that drives ahead at 1 m/s."""
    contract = contract_for(robot, inputs, (output,), name="straight", task=task, rate_hz=robot.control_rate_hz)
    width = contract.outputs[0].shape[0]
    ahead = np.zeros((1, width), dtype=np.float32)
    ahead[0, 0] = 1.0
    constants = {
        "ahead": ahead,
        "shape": np.array([0, -1], dtype=np.int64),
        "axis": np.array([1], dtype=np.int64),
        "none": np.zeros(1, dtype=np.float32),
    }
    nodes, sums = [], []
    for port in contract.inputs:
        nodes.append(helper.make_node("Reshape", [port.name, "shape"], [f"{port.name}_flat"]))
        nodes.append(helper.make_node("ReduceMax", [f"{port.name}_flat"], [f"{port.name}_most"], axes=[1], keepdims=1))
        sums.append(f"{port.name}_most")
    nodes.append(helper.make_node("Sum", sums, ["all"]))
    nodes.append(helper.make_node("Mul", ["all", "none"], ["nothing"]))
    nodes.append(helper.make_node("Add", ["nothing", "ahead"], [output]))
    graph = helper.make_graph(
        nodes,
        "straight",
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in contract.inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", width])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if name != "axis"],
    )
    write_policy(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), contract, path)
    return path


def read(folder: Path) -> dict:
    return json.loads((folder / "verify_in_process.json").read_text())


def test_a_policy_among_people_is_judged_with_more_of_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "HEIGHT", replace(crowd.HEIGHT, episode_s=2.0))
    policy = of_task(write_wary_policy(tmp_path / "policy.onnx"), "base_crowd")
    verified = verify(policy, backends=["batch"], episodes=2, drivers=["dwa"], margins=["none"])
    data = read(tmp_path)
    assert list(data["backends"]) == ["batch", crowd.MORE_PEOPLE] and not data["passed"]
    assert data["robot_sha256"] == ROBOT.sha256
    entry = data["backends"]["batch"]
    assert entry["asked"]["success"] == 0.85 and entry["reference"] == "dwa" and entry["hit_people"] is not None
    assert list(entry["by_label"]) == ["hall + people"] and data["provenance"]["setting"] == "hall"
    assert "not through the deployed nodes" in data["worth"] and data["worth"] in verified.table()
    page = verified.report.read_text()
    assert "HEIGHT" in page and "the people node is the tracker" in page
    with pytest.raises(UserError, match="has not been verified"):
        require_verification(policy, ROBOT)


def test_halls_are_the_same_again_and_have_half_as_many_people_more() -> None:
    one, again = (crowd.course_of(crowd.HEIGHT, ROBOT, 3, 5) for _ in range(2))
    assert one.movers is not None and again.movers is not None and one.tracked
    np.testing.assert_array_equal(one.movers.people, again.movers.people)
    np.testing.assert_array_equal(one.limit_s, 50.0)
    hall = crowd.HEIGHT.hall
    assert (hall.crowded(1.5).walking, hall.crowded(1.5).standing) == ((8, 13), (0, 3)) and hall.crowded(1.0) == hall
    assert not crowd.course_of(crowd.CROWDNAV, base("crowdnav_robot"), 2, 5).tracked


def test_what_no_engine_can_hold_is_said_and_proves_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = base("crowdnav_robot")
    held, left_out = supporting(["batch", "mujoco"], robot)
    assert held == ("batch",) and "no wheels" in left_out["mujoco"]
    monkeypatch.setattr(crowd, "CROWDNAV", replace(crowd.CROWDNAV, episode_s=1.0))
    inputs = ("position", "goal_position", "people_position", "people_velocity", "people_radius")
    policy = write_straight_policy(tmp_path / "policy.onnx", robot, "base_crowd", inputs, "planar_twist")
    verified = verify(policy, backends=["batch", "mujoco"], episodes=2, margins=["none"])
    data = read(tmp_path)
    assert list(data["backends"]) == ["batch"] and "no wheels" in data["left_out"]["mujoco"]
    assert "These simulators do not support the task: mujoco." in data["worth"]
    assert "Left out: mujoco" in verified.table() and "left out" in verified.report.read_text()
    assert list(data["backends"]["batch"]["baselines"]) == ["orca"]
    with pytest.raises(UserError, match="None of these simulators supports the task: crowdnav_robot is holonomic"):
        verify(policy, backends=["mujoco"], episodes=1)


def test_a_car_is_held_against_the_fastest_line(tmp_path: Path) -> None:
    pytest.importorskip("casadi")
    inputs = ("scan", "linear_velocity", "angular_velocity")
    policy = write_straight_policy(tmp_path / "policy.onnx", base("racecar"), "base_racing", inputs, "twist")
    with pytest.raises(UserError, match="The margin 'scan_delay_s' cannot be measured: this task has no margins"):
        verify(policy, backends=["batch"], episodes=2, margins=["scan_delay_s"])
    verified = verify(policy, backends=["batch"], episodes=2, margins=["none"])
    data = read(tmp_path)
    assert data["robot_sha256"] == base("racecar").sha256
    entry = data["backends"]["batch"]
    assert (entry["episodes"], entry["success"], entry["contact"], entry["paired"]) == (2, 0.0, 1.0, 0)
    theirs = entry["baselines"]["pure_pursuit"]
    assert theirs["contact"] == 0.0 and 5.0 < theirs["lap_s"] < 20.0
    assert any("Contact is 100.0%" in reason for reason in data["reasons"])
    assert any("are too few" in reason for reason in data["reasons"])
    assert set(data["transfer"]) == {"straight", "pure_pursuit"} and "Races" in verified.table()
    names = {path.name for path in tmp_path.iterdir()}
    assert {"laps.png", "paths_batch.png", "animation_batch.gif", "report.html"} <= names
    with pytest.raises(UserError, match="races are compared only with pure_pursuit on the fastest line"):
        verify(policy, backends=["batch"], episodes=1, drivers=["dwa"])


def test_an_explorer_is_tried_on_grids_and_leading_a_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "SECONDS_PER_M", 0.3)
    policy = write_exploring_policy(tmp_path / "policy.onnx", ROBOT, cell_m=0.5, side_m=10.5)
    verified = verify(policy, backends=["batch"], episodes=2, drivers=["frontier_greedy"])
    data = read(tmp_path)
    assert list(data["backends"]) == ["batch", exploration.DRIVEN] and not data["passed"]
    grids, driven = data["backends"].values()
    assert grids["unit"] == "moves" and grids["success"] == 0.0 and grids["baselines"]["frontier_greedy"]["to_90"] < 90
    assert driven["unit"] == "s" and 0.0 < driven["half"] < 0.9 and driven["crashed"] == 0.0
    assert driven["reference"] == "frontier_greedy"
    names = {path.name for path in tmp_path.iterdir()}
    assert {"coverage_batch.png", "coverage_batch_driven.png", "paths_batch_driven.png"} <= names
    assert "animation_batch_driven.gif" in names and "explorer_policy leads a robot" in verified.report.read_text()
    with pytest.raises(UserError, match="drivers: dwa does not explore"):
        verify(policy, backends=["batch"], episodes=1, drivers=["dwa"])
    with pytest.raises(UserError, match="drivers: an empty list is not allowed"):
        verify(policy, backends=["batch"], episodes=1, drivers=[])


def test_floors_that_robots_drive_over_are_the_terrain_of_the_grids() -> None:
    told = {"recipe": {"task_settings": {"expedition": {"terrain": {"side": 12, "obstacles": 5}, "steps": 3}}}}
    contract = replace(
        contract_for(ROBOT, ("position",), ("waypoint",), name="a", task="base_exploration"), training=told
    )
    expedition = expedition_of(contract)
    assert expedition.terrain.side == 12 and expedition.steps == 400  # an easier end is nobody's to choose
    assert expedition_of(replace(contract, training={})) == ExplorationSetting()
    floor, *_ = floors_of(expedition, 2, 1)
    occupied = expedition.held_out(exploration._STREAM + 1, 2).occupied[0]
    middles = (np.arange(12) + 0.5) * 0.5 - 3.0
    x, y = np.meshgrid(middles, middles)
    inside = floor.distance(np.column_stack([x.ravel(), y.ravel()])).reshape(12, 12) < 0.0
    np.testing.assert_array_equal(inside, occupied)
    np.testing.assert_allclose(floor.start[:2], [-2.75, -2.75])
    assert floor.distance([[3.05, 0.0]])[0] < 0.0 < floor.distance([[2.9, -2.9]])[0]


def test_who_is_to_be_held_against_a_planner_needs_one() -> None:
    assert known_planners(["dwa", "dwa", "orca"]) == ["dwa", "orca"] and known_planners([]) == []
    assert known_planners([], Bounds(at_least={"success": 0.95})) == []
    with pytest.raises(UserError, match="name at least one, such as --drivers dwa"):
        known_planners([], Bounds(at_least={"success": 0.95, "lead_high": 0.0}))
    with pytest.raises(UserError, match="Unknown planner 'orka'"):
        known_planners(["orka"])
