"""Each operator as C against onnxruntime, on drawn shapes and values."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rlstack.errors import UserError
from rlstack.policies.c99.lower import lower
from rlstack.policies.c99.source import header, source
from rlstack.policies.contract import Contract, Port

from ...support.compiled_policy import COMPILERS, needs_compiler

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
        ("GroupNormalization", (1, 4, 2, 3), (weights(2), weights(2)), {"num_groups": 2}),
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


def port(name: str, shape: tuple[int, ...], **limits: tuple[float, ...]) -> Port:
    return Port(name=name, shape=shape, unit="1", frame="", topic="t", type="", field="", **limits)


def graph_of(case: Case, name: str) -> onnx.GraphProto:
    operator, shape, constants, attributes = case
    names = [f"c{i}" for i in range(len(constants))]
    nodes = [
        helper.make_node("Squeeze", ["x", "zero"], ["row"]),
        helper.make_node(operator, ["row", *names], OUTPUTS.get(operator, ["y"]), name=name, **attributes),
        helper.make_node("Unsqueeze", ["y", "zero"], ["out"]),
    ]
    initializers = [numpy_helper.from_array(np.asarray(value), n) for n, value in zip(names, constants)]
    initializers.append(numpy_helper.from_array(ints(0), "zero"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, *shape))
    return helper.make_graph(
        nodes, "g", [given], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)], initializers
    )


def contract_of(shape: tuple[int, ...], out: tuple[int, ...]) -> Contract:
    size = int(np.prod(out, dtype=int))
    output = port("out", out, minimum=(-1e30,) * size, maximum=(1e30,) * size)
    return Contract(
        schema_version=2,
        name="n",
        task="t",
        robot="r",
        rate_hz=1.0,
        inputs=(port("x", shape),),
        outputs=(output,),
        code_version="0",
    )


@needs_compiler
def test_every_operator_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    random = np.random.default_rng(9)
    expected, files = [], []
    for number, case in enumerate(cases()):
        graph = graph_of(case, case[0])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        x = random.uniform(-2.0, 2.0, (1, *case[1])).astype(np.float32)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"x": x})
        name = f"case_{number}"
        contract = contract_of(case[1], found.shape[1:])
        program = lower(graph, contract, case[0])
        (tmp_path / f"{name}.h").write_text(header(program, contract, name, ""))
        (tmp_path / f"{name}.c").write_text(source(program, contract, name))
        files.append(str(tmp_path / f"{name}.c"))
        expected.append((case, x, found))
    library = tmp_path / "cases.so"
    words = [*COMPILERS[0].command, "-O0", "-shared", "-fPIC", "-o", str(library), *files, "-lm"]
    subprocess.run(words, check=True)
    loaded = ctypes.CDLL(str(library))
    for number, (case, x, wanted) in enumerate(expected):
        made, state = np.zeros(wanted.shape, np.float32), np.zeros(4096, np.uint8)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (state, x, made)]
        assert getattr(loaded, f"case_{number}_step")(*pointers) == 0, case
        np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-6, err_msg=str(case))


def test_an_operator_that_cannot_be_written_is_refused_by_name_and_node() -> None:
    graph = graph_of(("GridSample", (1, 1, 2, 2), (np.zeros((1, 1, 1, 2), np.float32),), {}), "warped")
    with pytest.raises(UserError, match="operator 'GridSample' of node 'warped' cannot be written as C"):
        lower(graph, contract_of((1, 1, 2, 2), (1, 1, 1, 1)), "mine.onnx")
