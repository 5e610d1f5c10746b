"""Small real policies for wheeled bases: ONNX graphs written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import contract_for, envelope_for, write_policy
from rlstack.robots import load_robot

OPSET, IR_VERSION = 17, 8
INPUTS = ("position", "orientation", "scan", "goal_position")


def turtlebot() -> WheeledBase:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    return robot


def write_driving_policy(path: Path, robot: WheeledBase, rate_hz: float = 10.0) -> Path:
    """Write a policy that turns to the goal and drives there, more slowly where the scan is short."""
    contract = contract_for(robot, INPUTS, ("twist",), name="drive", task="test", rate_hz=rate_hz)
    contract = replace(contract, envelope=envelope_for(robot, contract.inputs, rate_hz))
    low, high = contract.outputs[0].minimum, contract.outputs[0].maximum
    constants = {
        "zero": np.array([0], dtype=np.int64),
        "one": np.array([1], dtype=np.int64),
        "two": np.array([2], dtype=np.int64),
        "three": np.array([3], dtype=np.int64),
        "four": np.array([4], dtype=np.int64),
        "axis": np.array([1], dtype=np.int64),
        "gain": np.array([0.6, 3.0], dtype=np.float32),
        "double": np.array(2.0, dtype=np.float32),
        "near": np.array(0.12, dtype=np.float32),
        "clear": np.array([0.2], dtype=np.float32),
        "low": np.array(low, dtype=np.float32),
        "high": np.array(high, dtype=np.float32),
        "nothing": np.array(0.0, dtype=np.float32),
        "all": np.array(1.0, dtype=np.float32),
    }

    def part(source: str, start: str, end: str, name: str) -> object:
        return helper.make_node("Slice", [source, start, end, "axis"], [name])

    nodes = [
        helper.make_node("Sub", ["goal_position", "position"], ["error"]),
        part("error", "zero", "one", "x"),
        part("error", "one", "two", "y"),
        part("orientation", "two", "three", "qz"),
        part("orientation", "three", "four", "qw"),
        helper.make_node("Mul", ["qz", "qw"], ["half"]),
        helper.make_node("Mul", ["half", "double"], ["sin"]),
        helper.make_node("Mul", ["qw", "qw"], ["ww"]),
        helper.make_node("Mul", ["qz", "qz"], ["zz"]),
        helper.make_node("Sub", ["ww", "zz"], ["cos"]),
        *(
            helper.make_node("Mul", [a, b], [f"{a}_{b}"])
            for a, b in (("x", "cos"), ("y", "sin"), ("x", "sin"), ("y", "cos"))
        ),
        helper.make_node("Add", ["x_cos", "y_sin"], ["ahead"]),
        helper.make_node("Sub", ["y_cos", "x_sin"], ["left"]),
        helper.make_node("ReduceMin", ["scan"], ["nearest"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["nearest", "near"], ["room"]),
        helper.make_node("Div", ["room", "clear"], ["part"]),
        helper.make_node("Clip", ["part", "nothing", "all"], ["slow"]),
        helper.make_node("Mul", ["ahead", "slow"], ["forward"]),
        helper.make_node("Concat", ["forward", "left"], ["both"], axis=1),
        helper.make_node("Mul", ["both", "gain"], ["wanted"]),
        helper.make_node("Max", ["wanted", "low"], ["above"]),
        helper.make_node("Min", ["above", "high"], ["twist"]),
    ]
    graph = helper.make_graph(
        nodes,
        "drive",
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in contract.inputs],
        [helper.make_tensor_value_info("twist", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_policy(model, contract, path)
    return path


def write_exploring_policy(path: Path, robot: WheeledBase, cell_m: float = 0.25, side_m: float = 8.0) -> Path:
    """Write a policy for exploration that always goes one cell on along x."""
    inputs = ("map", "map_resolution", "map_origin", "position")
    envelope = {"cell_m": cell_m, "side_m": side_m}
    contract = contract_for(
        robot, inputs, ("waypoint",), name="explore", task="base_exploration", rate_hz=1.0, envelope=envelope
    )
    constants = {
        "step": np.array([1.5, 0.5, 0.0], dtype=np.float32),
        "level": np.array([1.0, 1.0, 0.0], dtype=np.float32),
        "shape": np.array([-1, 1], dtype=np.int64),
        "none": np.array(0.0, dtype=np.float32),
        "small": np.array(0.01, dtype=np.float32),
        "low": np.array(contract.outputs[0].minimum, dtype=np.float32),
        "high": np.array(contract.outputs[0].maximum, dtype=np.float32),
    }
    nodes = [
        helper.make_node("ReduceMax", ["map"], ["most"], axes=[1, 2], keepdims=0),
        helper.make_node("Reshape", ["most", "shape"], ["column"]),
        helper.make_node("Mul", ["column", "none"], ["nothing"]),
        helper.make_node("Sub", ["position", "map_origin"], ["inside"]),
        helper.make_node("Max", ["map_resolution", "small"], ["size"]),
        helper.make_node("Div", ["inside", "size"], ["cells"]),
        helper.make_node("Floor", ["cells"], ["cell"]),
        helper.make_node("Add", ["cell", "step"], ["next"]),
        helper.make_node("Mul", ["next", "size"], ["way"]),
        helper.make_node("Mul", ["way", "level"], ["flat"]),
        helper.make_node("Add", ["flat", "map_origin"], ["place"]),
        helper.make_node("Add", ["place", "nothing"], ["wanted"]),
        helper.make_node("Max", ["wanted", "low"], ["above"]),
        helper.make_node("Min", ["above", "high"], ["waypoint"]),
    ]
    graph = helper.make_graph(
        nodes,
        "explore",
        [helper.make_tensor_value_info(p.name, TensorProto.FLOAT, ["batch", *p.shape]) for p in contract.inputs],
        [helper.make_tensor_value_info("waypoint", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_policy(model, contract, path)
    return path
