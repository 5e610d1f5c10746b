"""Policies of a base that see people: as many as there are, tried before they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from rlstack.errors import UserError
from rlstack.interfaces.people_messages import NOBODY
from rlstack.policies import contract_for, load_policy, write_policy
from rlstack.robots import load_robot

INPUTS = ("position", "scan", "people_position", "people_radius")


def write_wary_policy(path: Path, *, divides: bool = False) -> Path:
    """Write a policy that drives as fast as the nearest wall is far, and turns by where people are at most."""
    contract = contract_for(load_robot("turtlebot3_burger"), INPUTS, ("twist",), name="wary", task="test")
    one = numpy_helper.from_array(np.array([1], dtype=np.int64), "one")
    two = numpy_helper.from_array(np.array([2], dtype=np.int64), "two")
    axis = numpy_helper.from_array(np.array([2], dtype=np.int64), "axis")
    most = numpy_helper.from_array(np.array(contract.outputs[0].maximum, dtype=np.float32), "most")
    least = numpy_helper.from_array(np.array(contract.outputs[0].minimum, dtype=np.float32), "least")
    nodes = [
        helper.make_node("ReduceMin", ["scan"], ["room"], axes=[1], keepdims=1),
        helper.make_node("Slice", ["people_position", "one", "two", "axis"], ["aside"]),
        helper.make_node("ReduceMax", ["aside"], ["left"], axes=[1, 2], keepdims=0),
        helper.make_node("Unsqueeze", ["left", "one"], ["turn"]),
        helper.make_node("ReduceSum", ["people_radius", "one"], ["crowd"], keepdims=1),
        # nobody on top of the robot: a graph that cannot bear an empty place is found out before it drives
        helper.make_node("Div", ["turn", "crowd"], ["by"])
        if divides
        else helper.make_node("Identity", ["turn"], ["by"]),
        helper.make_node("ReduceSum", ["position", "one"], ["unused"], keepdims=1),
        helper.make_node("Sub", ["unused", "unused"], ["nothing"]),
        helper.make_node("Add", ["by", "nothing"], ["turned"]),
        helper.make_node("Concat", ["room", "turned"], ["both"], axis=1),
        helper.make_node("Max", ["both", "least"], ["above"]),
        helper.make_node("Min", ["above", "most"], ["twist"]),
    ]
    graph = helper.make_graph(
        nodes,
        "wary",
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in contract.inputs],
        [helper.make_tensor_value_info("twist", TensorProto.FLOAT, ["batch", 2])],
        [one, two, axis, most, least],
    )
    write_policy(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), contract, path)
    return path


@pytest.mark.parametrize("people", [5, 1, 12])
def test_it_sees_as_many_people_as_there_are(tmp_path: Path, people: int) -> None:
    policy = load_policy(write_wary_policy(tmp_path / "p.onnx"), robot=load_robot("turtlebot3_burger"))
    random = np.random.default_rng(people)
    where = random.uniform(-1.0, 1.0, (people, 3))
    for scan in (np.full(360, 0.2), np.linspace(0.16, 8.0, 360)):
        twist = policy.step(
            {"position": np.ones(3), "scan": scan, "people_position": where, "people_radius": np.ones(people)}
        )["twist"]
        np.testing.assert_allclose(twist, [scan.min(), where[:, 1].max()], rtol=1e-5)


def test_nobody_is_one_far_away_and_none_at_all_is_refused(tmp_path: Path) -> None:
    policy = load_policy(write_wary_policy(tmp_path / "p.onnx", divides=True))
    nobody = {name: NOBODY[name] for name in ("people_position", "people_radius")}
    here = {"position": np.zeros(3), "scan": np.full(360, 8.0)}
    assert policy.step({**here, **nobody})["twist"].tolist() == pytest.approx([0.22, 0.0])
    with pytest.raises(ValueError, match="0 people are not allowed: must be at least 1"):
        policy.step({**here, "people_position": np.zeros((0, 3)), "people_radius": np.zeros(0)})
    with pytest.raises(ValueError, match=r"people_radius: .*with as many people as people_position has"):
        policy.step({**here, "people_position": np.zeros((2, 3)), "people_radius": np.zeros(3)})


def test_a_policy_of_a_base_is_for_no_other_robot(tmp_path: Path) -> None:
    path = write_wary_policy(tmp_path / "p.onnx")
    for name in ("husky", "crazyflie"):
        with pytest.raises(UserError, match=f"for the robot 'turtlebot3_burger', not for '{name}'"):
            load_policy(path, robot=load_robot(name))
