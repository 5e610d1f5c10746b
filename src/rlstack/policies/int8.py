"""A policy file whose matrix products are computed with 8-bit integers, by onnxruntime's own quantisation."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from rlstack.errors import UserError
from rlstack.policies.policy_file import load_policy, write_policy
from rlstack.policies.serialization import contract_from, unpack

LEAST_WEIGHTS = 65_536
"""Weights from which a smaller file is worth its deviation: 0.25 MiB as float32."""

_LEAST_SIDE, _LEAST_SIZE = 8, 1024
"""Matrices that are narrower or smaller stay float32: they hold few weights, and coordinates or actions."""

_LAYERS = ("Conv", "GRU", "LSTM")
"""Learned operations, beside matrix products and look-ups in learned tables."""
_PASSING = ("Cast", "Clip", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operations whose output is their first input in another form."""
_SCALING = ("Add", "Div", "Mul", "Sub")
"""Operations that shift or scale where one input is a constant."""


@dataclass(frozen=True)
class Int8:
    """What was quantised.

    Args:
        products: Number of matrix products.
        weights: Number of their weights.
        path: The new file.
        bytes_before, bytes_after: Sizes of both files.
    """

    products: int
    weights: int
    path: Path
    bytes_before: int
    bytes_after: int


def write_int8(path: str | Path, out: Path) -> Int8:
    """Write a policy file with 8-bit weights and, in their products, 8-bit activations.

    Weights have a scale for each column, activations one of their present range, so that no inputs for calibration are
    needed. Everything else, such as convolutions, normalisation and the tokeniser's tables, stays float32, and so do
    the first layers, which get what is measured: positions that share one range of 8 bits with other quantities lose
    the most. The contract stays the same, but for its evaluation, which was the other file's: it goes to
    ``training`` with that file's hash.

    Args:
        path: The policy file, or the name of a released policy.
        out: The new file.

    Raises:
        UserError: The policy is refused, has too few weights for it, or is quantised already; or the new file cannot
            be written.
    """
    policy = load_policy(path)
    where, data = str(policy.path), policy.path.read_bytes()
    package = unpack(data, where)
    contract = contract_from(package.data, where)
    if "int8" in contract.training:
        raise UserError(f"{where} is quantised already.")
    model, products, weights = _quantised(package.model, where)
    origin = {"of": policy.sha256, "evaluation": contract.evaluation}
    write_policy(model, replace(contract, training={**contract.training, "int8": origin}, evaluation={}), out)
    return Int8(products, weights, out, len(data), out.stat().st_size)


def _quantised(model: onnx.ModelProto, where: str) -> tuple[onnx.ModelProto, int, int]:
    """Return a model with 8-bit matrix products, their number, and that of their weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.onnx_model import ONNXModel

    plain = ONNXModel(onnx.ModelProto.FromString(model.SerializeToString()))
    plain.replace_gemm_with_matmul()
    graph = plain.model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    chosen, weights, held = [], 0, _Held(graph, constants)
    for number, node in enumerate(graph.node):
        learned = [
            name for name in node.input if name in constants and _is_learned(numpy_helper.to_array(constants[name]))
        ]
        if node.op_type == "MatMul" and node.input[1] in learned and not held.measured(node.input[0]):
            node.name = f"product_{number}"
            chosen.append(node.name)
            weights += numpy_helper.to_array(constants[node.input[1]]).size
        held.pass_on(node, bool(learned))
    if weights < LEAST_WEIGHTS:
        raise UserError(
            f"{where} has {weights:,} weights in matrix products that could be 8-bit integers: below {LEAST_WEIGHTS:,}"
            " its file would hardly be smaller and its commands less exact. Use it as it is."
        )
    with TemporaryDirectory() as folder, _quiet():
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(plain.model, before)
        quantize_dynamic(
            before,
            after,
            nodes_to_quantize=chosen,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QUInt8,  # signed weights saturate 16-bit sums on processors with AVX2 and no VNNI
        )
        return onnx.load(after), len(chosen), weights


class _Held:
    """What the tensors of a graph hold: constants, features that layers made, measured quantities, or both of these.

    Args:
        graph: Its nodes are gone through in their order.
        constants: Its constants by name.
    """

    def __init__(self, graph: onnx.GraphProto, constants: Iterable[str]) -> None:
        self._fixed = {"", *constants, *(node.output[0] for node in graph.node if node.op_type == "Constant")}
        self._features = set[str]()
        self._mixed = set[str]()

    def measured(self, name: str) -> bool:
        """Return whether a tensor holds what no layer has made: measured quantities, by fixed arithmetic at most."""
        return name in self._mixed or (name not in self._features and name not in self._fixed)

    def pass_on(self, node: onnx.NodeProto, learned: bool) -> None:
        """Note what a node's outputs hold; ``learned``: it computes with learned weights."""
        if self._fixed.issuperset(node.input):
            self._fixed.update(node.output)
        elif learned or node.op_type in _LAYERS or not self._features.isdisjoint(node.input):
            self._features.update(node.output)
            if not learned and any(self.measured(name) for name in self._passed(node)):
                self._mixed.update(node.output)

    def _passed(self, node: onnx.NodeProto) -> Iterable[str]:
        """Return the inputs that are in a node's output as they were, shifted and scaled at most."""
        if (node.op_type in _SCALING and not self._fixed.isdisjoint(node.input)) or node.op_type == "Concat":
            return node.input
        return node.input[:1] if node.op_type in _PASSING else ()


def _is_learned(matrix: NDArray[Any]) -> bool:
    """Return whether a matrix holds a layer's weights: a table of whole numbers, such as a tokeniser's, is exact."""
    wide = matrix.ndim == 2 and min(matrix.shape) >= _LEAST_SIDE and matrix.size >= _LEAST_SIZE
    return wide and not np.array_equal(matrix, np.round(matrix))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep onnxruntime from advising to optimise the graph first: what runs it does so."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
