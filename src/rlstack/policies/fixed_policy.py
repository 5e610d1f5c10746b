"""A policy for one robot and fixed sizes, with constants computed: what other forms are written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnxruntime
from onnx import numpy_helper

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.policies.contract import STATE_PREFIX, Contract
from rlstack.policies.dry_run import repeated
from rlstack.policies.family_contract import bind
from rlstack.policies.policy_file import load_policy
from rlstack.policies.serialization import contract_from, unpack
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class FixedPolicy:
    """A policy whose sizes are all known."""

    contract: Contract
    """Bound to one robot, and without named sizes."""
    model: onnx.ModelProto
    """With a batch of 1, and without the contract."""
    sha256: str
    """Of the policy file."""
    where: str

    @property
    def graph(self) -> onnx.GraphProto:
        """The model's graph."""
        return self.model.graph


def fixed_policy(path: str | Path, robot: RobotSpec | None, sizes: Mapping[str, int]) -> FixedPolicy:
    """Load a policy with every check, and fix its sizes.

    Args:
        path: The file, or the name of a released policy.
        robot: The robot that it is for; a policy for a family needs one.
        sizes: Size of each named axis, such as ``points``.

    Raises:
        UserError: The file is refused, is for a family and there is no robot, or a named size is not given.
    """
    policy = load_policy(path, robot=robot)
    where, contract = str(policy.path), policy.contract
    if contract.needs_robot:
        raise UserError(f"{where} is for the family '{contract.robot}': say for which robot with --robot.")
    data = policy.path.read_bytes()
    package = unpack(data, where)
    written = contract_from(package.data, where)
    constants = bind(written, robot, where)[1] if written.needs_robot and robot is not None else {}
    named = sorted({size for port in contract.inputs for size in port.dynamic})
    for name in sizes:
        if name not in named:
            raise UserError(f"{where} has no size '{name}' to fix (it has {', '.join(named) or 'none'}).")
    if missing := [name for name in named if name not in sizes]:
        raise UserError(
            f"{where}: this form needs fixed sizes, and '{missing[0]}' of the input"
            f" '{next(p.name for p in contract.inputs if missing[0] in p.dynamic)}' may differ between calls."
            f" Fix it, such as with --size {missing[0]}=4."
        )
    shapes = {port.name: (1, *port.sized(sizes)) for port in contract.inputs}
    shapes.update({STATE_PREFIX + state.name: (1, *state.shape) for state in contract.state})
    model = folded(_fixed(package.model, shapes, constants))
    return FixedPolicy(_sized(contract, sizes), model, policy.sha256, where)


def _sized(contract: Contract, sizes: Mapping[str, int]) -> Contract:
    return replace(contract, inputs=tuple(replace(p, shape=p.sized(sizes)) for p in contract.inputs))


def _fixed(
    model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Array]
) -> onnx.ModelProto:
    """Return the model with fixed shapes of its inputs, and with constants in place of inputs.

    Those that have a default are among the latter: other forms take noise for 0.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph
    defaults = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.input if value.name not in {*constants, *defaults}]
    for value in kept:
        for axis, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ())):
            axis.Clear()
            axis.dim_value = size
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(repeated(value, 1), name) for name, value in constants.items())
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return fixed


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model as onnxruntime simplifies it: what follows from constants and shapes is computed.

    Args:
        model: With inputs of fixed shapes.
    """
    once = _folded(model)
    # operators that onnxruntime writes as others bring questions for shapes along, which only a second pass answers
    return _folded(once) if any(node.op_type == "Shape" for node in once.graph.node) else once


def _folded(model: onnx.ModelProto) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    with TemporaryDirectory() as folder:
        file = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(file)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(file)
    del folded.metadata_props[:]
    return folded
