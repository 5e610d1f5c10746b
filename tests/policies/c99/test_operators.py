"""Each operator as C against onnxruntime, on drawn shapes and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from rlstack.errors import UserError
from rlstack.policies.c99.lower import lower

from ...support.compiled_graphs import CompiledGraphs, answer, contract_of, graph_of
from ...support.compiled_policy import needs_compiler

Case = tuple[str, tuple[int, ...], tuple[NDArray[Any], ...], dict[str, Any]]
"""Operator, shape of the input, constants beside it, attributes."""


def ints(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def cases() -> list[Case]:
    random = np.random.default_rng(5)

    def weights(*shape: int) -> NDArray[np.float32]:
        return random.normal(size=shape).astype(np.float32)

    found: list[Case] = [(name, (2, 3), (), {}) for name in UNARY]
    found += [(name, (2, 3, 4), (weights(3, 1),), {}) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu")]
    found += [(name, (2, 3, 4), (ints(1),), {"keepdims": kept}) for name in REDUCTIONS for kept in (0, 1)]
    found += [(name, (2, 3, 4), (), {"axis": axis}) for name in ("Softmax", "LogSoftmax") for axis in (1, -1)]
    found += [
        ("Clip", (3, 4), (np.float32(-0.3), np.float32(0.4)), {}),
        ("Pow", (3,), (np.float32(2.0),), {}),
        ("LayerNormalization", (2, 5), (weights(5), weights(5)), {}),
        ("BatchNormalization", (2, 3, 4), (weights(3), weights(3), weights(3), np.abs(weights(3))), {}),
        ("Gemm", (2, 3), (weights(4, 3), weights(4)), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
        ("Gemm", (3, 2), (weights(3, 4),), {"transA": 1}),
        ("MatMul", (2, 3, 4), (weights(4, 5),), {}),
        ("MatMul", (4,), (weights(2, 4, 3),), {}),
        ("MatMul", (2, 3, 4), (weights(4),), {}),
        ("Concat", (2, 3), (weights(2, 1),), {"axis": 1}),
        ("Gather", (3, 4), (ints(2, 0, -1),), {"axis": 1}),
        ("Gather", (3, 4), (np.array([[0, 1], [2, 1]]),), {"axis": 0}),
        ("GatherElements", (3, 4), (np.array([[0, 2, 1, 1]]),), {"axis": 0}),
        ("Slice", (4, 6), (ints(3, -1), ints(0, -(2**62)), ints(0, 1), ints(-1, -2)), {}),
        ("Transpose", (2, 3, 4), (), {"perm": [2, 0, 1]}),
        ("Expand", (3, 1), (ints(2, 3, 4),), {}),
        ("Reshape", (2, 6), (ints(0, -1, 2),), {}),
        (
            "Conv",
            (1, 4, 5, 6),
            (weights(6, 2, 3, 2), weights(6)),
            {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]},
        ),
        ("Conv", (1, 2, 9), (weights(3, 2, 3),), {"dilations": [2], "pads": [1, 3]}),
        ("Conv", (1, 2, 9), (weights(3, 2, 4),), {"strides": [2], "auto_pad": "SAME_UPPER"}),
        (
            "MaxPool",
            (1, 2, 5, 6),
            (),
            {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1], "strides": [2, 2], "ceil_mode": 1},
        ),
        ("AveragePool", (1, 2, 5, 6), (), {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1], "strides": [2, 2]}),
        ("AveragePool", (1, 2, 7), (), {"kernel_shape": [3], "pads": [1, 1], "count_include_pad": 1}),
        ("AveragePool", (1, 2, 6), (), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
        ("GlobalAveragePool", (1, 2, 3, 4), (), {}),
        ("GlobalMaxPool", (1, 2, 3, 4), (), {}),
        ("InstanceNormalization", (1, 3, 2, 4), (weights(3), weights(3)), {}),
        ("LpNormalization", (2, 3), (), {"axis": 1, "p": 1}),
        ("TopK", (2, 6), (ints(3),), {"axis": 1, "largest": 0}),
        ("TopK", (6, 2), (ints(6),), {"axis": 0}),
        ("Pad", (2, 3), (ints(1, -1, 0, 2), np.float32(0.5)), {}),
        ("Tile", (2, 3), (ints(2, 3),), {}),
        ("DepthToSpace", (1, 8, 2, 3), (), {"blocksize": 2}),
        ("DepthToSpace", (1, 8, 2, 3), (), {"blocksize": 2, "mode": "CRD"}),
        ("SpaceToDepth", (1, 2, 4, 6), (), {"blocksize": 2}),
        ("Trilu", (3, 4), (np.array(1),), {"upper": 0}),
        ("Einsum", (2, 3, 4), (weights(2, 5, 4),), {"equation": "bik,bjk->jbi"}),
        ("Einsum", (2, 3, 4), (), {"equation": "abc->ca"}),
        ("GRU", (2, 1, 3), (weights(1, 12, 3), weights(1, 12, 4), weights(1, 24)), {"hidden_size": 4}),
        (
            "GRU",
            (1, 1, 3),
            (weights(1, 12, 3), weights(1, 12, 4), weights(1, 24), np.ones(1, np.int32), weights(1, 1, 4)),
            {"hidden_size": 4, "linear_before_reset": 1},
        ),
        (
            "LSTM",
            (3, 1, 2),
            (
                weights(2, 12, 2),
                weights(2, 12, 3),
                weights(2, 24),
                np.full(1, 3, np.int32),
                weights(2, 1, 3),
                weights(2, 1, 3),
                weights(2, 9),
            ),
            {"hidden_size": 3, "direction": "bidirectional"},
        ),
        (
            "RNN",
            (3, 1, 2),
            (weights(1, 4, 2), weights(1, 4, 4)),
            {"hidden_size": 4, "direction": "reverse", "activations": ["Relu"]},
        ),
    ]
    return found


UNARY = [
    "Abs",
    "Atan",
    "Ceil",
    "Celu",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]
REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


OUTPUTS = {"TopK": ["y", "places"], "GRU": ["", "y"], "LSTM": ["", "", "y"], "RNN": ["y", ""]}
"""Names of an operator's outputs, where it has more than y."""


NOT_A_NUMBER_IS_LOST = {"GRU", "GlobalMaxPool", "LSTM", "MaxPool", "RNN", "TopK"}
"""onnxruntime gives numbers for NaN here, and C gives NaN, which the step refuses."""


def nodes_of(case: Case, name: str, given: str = "x", out: str = "out") -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    operator, _, constants, attributes = case
    names = {f"c{i}": np.asarray(value) for i, value in enumerate(constants)}
    nodes = [
        helper.make_node("Squeeze", [given, "zero"], ["row"]),
        helper.make_node(operator, ["row", *names], OUTPUTS.get(operator, ["y"]), name=name, **attributes),
        helper.make_node("Unsqueeze", ["y", "zero"], [out]),
    ]
    return nodes, {**names, "zero": ints(0)}


@needs_compiler
def test_every_operator_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    random = np.random.default_rng(9)
    found = cases()
    given = [random.uniform(-2.0, 2.0, (1, *case[1])).astype(np.float32) for case in found]
    graphs = [graph_of(*nodes_of(case, case[0]), case[1]) for case in found]
    expected = [answer(graph, x) for graph, x in zip(graphs, given)]
    shapes = [(case[1], wanted.shape[1:]) for case, wanted in zip(found, expected)]
    compiled = CompiledGraphs(graphs, shapes, tmp_path)
    for number, (case, x, wanted) in enumerate(zip(found, given, expected)):
        np.testing.assert_allclose(compiled(number, x), wanted, rtol=2e-5, atol=2e-6, err_msg=str(case))


@needs_compiler
def test_values_that_are_not_finite_are_as_in_onnxruntime(tmp_path: Path) -> None:
    graphs, shapes, expected, given = [], [], [], []
    chosen = list({case[0]: case for case in cases() if case[0] not in NOT_A_NUMBER_IS_LOST}.values())
    for case in chosen:
        for special in ((np.nan,), (np.inf, -np.inf)):
            nodes, constants = nodes_of(case, case[0], "special", "answer")
            constants["added"] = np.zeros((1, *case[1]), np.float32)
            constants["added"].flat[: len(special)] = special
            constants |= {"nan": np.float32(5e7), "low": np.float32(-1e8), "high": np.float32(1e8)}
            nodes.insert(0, helper.make_node("Add", ["x", "added"], ["special"]))
            nodes.append(helper.make_node("IsNaN", ["answer"], ["not_a_number"]))
            nodes.append(helper.make_node("Where", ["not_a_number", "nan", "answer"], ["shown"]))
            nodes.append(helper.make_node("Clip", ["shown", "low", "high"], ["out"]))
            given.append(np.random.default_rng(2).uniform(-2.0, 2.0, (1, *case[1])).astype(np.float32))
            graphs.append(graph_of(nodes, constants, case[1]))
            expected.append(answer(graphs[-1], given[-1]))
            shapes.append((case[1], expected[-1].shape[1:]))
    compiled = CompiledGraphs(graphs, shapes, tmp_path)
    for number, (x, wanted) in enumerate(zip(given, expected)):
        found = compiled(number, x)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=str(chosen[number // 2]))


def test_an_operator_that_cannot_be_written_is_refused_by_name_and_node() -> None:
    case = ("GridSample", (1, 1, 2, 2), (np.zeros((1, 1, 1, 2), np.float32),), {})
    with pytest.raises(UserError, match="operator 'GridSample' of node 'warped' cannot be written as C"):
        lower(graph_of(*nodes_of(case, "warped"), case[1]), contract_of((1, 1, 2, 2), (1, 1, 1, 1)), "mine.onnx")
