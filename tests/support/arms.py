"""For tests of arms: a policy that leads the joints to a posture a little at a time, and a Panda that sees little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rlstack.interfaces.instruction import TextInput
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.policies import contract_for, write_policy
from rlstack.robots import RobotSpec, load_robot

Array = NDArray[np.float64]

_OPSET, _IR_VERSION = 17, 8


def write_posture_policy(
    path: Path,
    robot: Manipulator,
    posture: Array,
    *,
    speed: float = 0.2,
    task: str = "arm_reach",
    inputs: tuple[str, ...] = ("joint_position", "goal_position"),
    rate_hz: float = 20.0,
    weights: Mapping[str, float] | None = None,
    words: tuple[str, ...] = (),
) -> Path:
    """Write a policy whose target is where the joints are, and nearer to a posture (joints,) by a share of their speed.

    The goal is an input that changes nothing, as do others, but for those with ``weights``: the sum of their numbers,
    times that, is added to every joint's target. An instruction is one of ``words``.
    """
    text = TextInput(words=words, examples=(" ".join(words),)) if words else None
    contract = contract_for(robot, inputs, ("joint_target",), text=text, name="posture", task=task, rate_hz=rate_hz)
    (output,) = contract.outputs
    most = speed / rate_hz * np.array([drive.velocity_max for drive in robot.drives])
    constants = {
        "posture": posture[None],
        "most": most[None],
        "least": -most[None],
        "low": np.array(output.minimum)[None],
        "high": np.array(output.maximum)[None],
        **{f"weight_{k}": np.array((weights or {}).get(name, 0.0)) for k, name in enumerate(inputs[1:])},
    }
    nodes = [
        helper.make_node("Sub", ["posture", "joint_position"], ["left"]),
        helper.make_node("Min", ["left", "most"], ["capped"]),
        helper.make_node("Max", ["capped", "least"], ["change"]),
        helper.make_node("Add", ["joint_position", "change"], ["wanted_0"]),
    ]
    for k, name in enumerate(inputs[1:]):
        nodes += [
            helper.make_node("ReduceSum", [name], [f"sum_{k}"], keepdims=0, noop_with_empty_axes=0),
            helper.make_node("Mul", [f"sum_{k}", f"weight_{k}"], [f"more_{k}"]),
            helper.make_node("Add", [f"wanted_{k}", f"more_{k}"], [f"wanted_{k + 1}"]),
        ]
    nodes += [
        helper.make_node("Max", [f"wanted_{len(inputs) - 1}", "low"], ["raised"]),
        helper.make_node("Min", ["raised", "high"], ["joint_target"]),
    ]
    graph = helper.make_graph(
        nodes,
        "posture",
        [_tensor(port.name, port.shape) for port in contract.inputs],
        [_tensor(port.name, port.shape) for port in contract.outputs],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    write_policy(model, contract, path)
    return path


def _tensor(name: str, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])


def small_panda(pixels: int) -> Manipulator:
    """Return the Panda with cameras of so many pixels each way, which are rendered soon."""
    return small(load_robot("panda"), pixels)


def small(robot: RobotSpec, pixels: int) -> Manipulator:
    """Return an arm with cameras of so many pixels each way."""
    assert isinstance(robot, Manipulator)
    return replace(robot, cameras={n: replace(c, width=pixels, height=pixels) for n, c in robot.cameras.items()})
