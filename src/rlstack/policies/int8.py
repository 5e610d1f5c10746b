"""A policy file whose matrix products are computed with 8-bit integers, by onnxruntime's own quantisation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
    needed. Everything else, such as convolutions, normalisation and the tokeniser's tables, stays float32. The contract
    stays the same, but for its evaluation, which was the other file's: it goes to ``training`` with that file's hash.

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
    chosen, weights = [], 0
    for number, node in enumerate(graph.node):
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        matrix = numpy_helper.to_array(constants[node.input[1]])
        if _is_learned(matrix):
            node.name = f"product_{number}"
            chosen.append(node.name)
            weights += matrix.size
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
