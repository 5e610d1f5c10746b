"""Small hostile files: none of them may hang the loader, or take the machine's memory.

Each is sealed with the right hash, and is valid ONNX that onnxruntime would run.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rlstack.errors import UserError
from rlstack.policies import load_policy, released_policies, write_policy
from rlstack.policies.graph_sizes import check_sizes
from rlstack.policies.limits import LARGE as LARGE_POLICIES
from rlstack.policies.limits import ORDINARY
from rlstack.policies.operators import ALLOWED
from tests.policies.graphs import INPUTS, SIZES, mlp_contract, mlp_model, model, put, sealed, weights

Nodes = list[onnx.NodeProto]
LOAD_S = 5.0
"""Time within which each is refused, with room for a busy machine; they take hours otherwise."""


def hostile(nodes: Nodes, constants: dict[str, Any] | None = None) -> onnx.ModelProto:
    """A good policy to whose output is added the sum over ``big``, which ``nodes`` compute from ``x``, times zero."""
    arrays = {**weights(), "low": np.float32(0.0), "high": np.float32(2272.6), "nothing": np.float32(0.0)}
    arrays |= {name: np.asarray(value) for name, value in (constants or {}).items()}
    nodes = [
        helper.make_node("Concat", INPUTS, ["x"], axis=1),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["g1"]),
        helper.make_node("Tanh", ["g1"], ["h"]),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["g2"]),
        *nodes,
        helper.make_node("ReduceSum", ["big"], ["total"], keepdims=0),
        helper.make_node("Mul", ["total", "nothing"], ["none"]),
        helper.make_node("Add", ["g2", "none"], ["g3"]),
        helper.make_node("Clip", ["g3", "low", "high"], ["rotor_speed"]),
    ]
    return model(nodes, {n: [SIZES[n]] for n in INPUTS}, {"rotor_speed": [4]}, arrays)


def refused(folder: Path, bare: onnx.ModelProto) -> str:
    """Return why a file is refused, which must be soon and without memory."""
    path = put(folder, sealed(bare, mlp_contract()))
    assert path.stat().st_size < 50_000
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(UserError) as caught:
        load_policy(path)
    assert time.monotonic() - started < LOAD_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "KiB"
    return str(caught.value)


def loop(body: Nodes) -> onnx.GraphProto:
    step = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    goes = helper.make_tensor_value_info("goes", TensorProto.BOOL, [])
    on, value = helper.make_tensor_value_info("on", TensorProto.BOOL, []), ("v", "after")
    before, after = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in value)
    return helper.make_graph(body, "body", [step, goes, before], [on, after])


def test_a_loop_that_never_ends(tmp_path: Path) -> None:
    body = [helper.make_node("Identity", ["goes"], ["on"]), helper.make_node("Sin", ["v"], ["after"])]
    nodes = [helper.make_node("Loop", ["turns", "yes", "one"], ["big"], body=loop(body))]
    constants = {"turns": np.int64(2**62), "yes": np.bool_(True), "one": np.ones(1, np.float32)}
    assert "the operator 'Loop' of node '' is not one of those" in refused(tmp_path, hostile(nodes, constants))


def test_a_branch_hides_nothing(tmp_path: Path) -> None:
    inner = [helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(np.ones(1, np.float32)))]
    out = [helper.make_tensor_value_info("v", TensorProto.FLOAT, [1])]
    branch = helper.make_graph(inner, "branch", [], out)
    nodes = [helper.make_node("If", ["yes"], ["big"], then_branch=branch, else_branch=branch)]
    assert "the operator 'If'" in refused(tmp_path, hostile(nodes, {"yes": np.bool_(True)}))


LARGE = np.array([40_000, 50_000], np.int64)
"""8 GB of float32."""

GROWTH: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["to"], ["big"])], {"to": LARGE}),
    "Expand": ([helper.make_node("Expand", ["one", "to"], ["big"])], {"one": np.ones((1, 1), np.float32), "to": LARGE}),
    "Tile": ([helper.make_node("Tile", ["one", "to"], ["big"])], {"one": np.ones((1, 1), np.float32), "to": LARGE}),
    "Tile of the inputs": ([helper.make_node("Tile", ["x", "to"], ["big"])], {"to": LARGE}),
    "Pad": ([helper.make_node("Pad", ["x", "to"], ["big"])], {"to": np.array([0, 0, 40_000, 50_000], np.int64)}),
    "Range": (
        [helper.make_node("Range", ["zero", "end", "step"], ["big"])],
        {"zero": np.float32(0.0), "end": np.float32(2e9), "step": np.float32(1.0)},
    ),
    "Resize": (
        [helper.make_node("Resize", ["image", "", "scales"], ["big"])],
        {"image": np.ones((1, 1, 4, 4), np.float32), "scales": np.array([1, 1, 1e4, 1e4], np.float32)},
    ),
    "OneHot": (
        [helper.make_node("OneHot", ["which", "depth", "ends"], ["big"])],
        {"which": np.zeros(10, np.int64), "depth": np.int64(10**9), "ends": np.array([0, 1], np.float32)},
    ),
}
GROWTH["broadcast"] = (
    [
        helper.make_node("ConstantOfShape", ["row"], ["r"]),
        helper.make_node("ConstantOfShape", ["column"], ["c"]),
        helper.make_node("Add", ["r", "c"], ["big"]),
    ],
    {"row": np.array([1, 50_000], np.int64), "column": np.array([40_000, 1], np.int64)},
)
GROWTH["MatMul"] = (
    [*GROWTH["broadcast"][0][:2], helper.make_node("MatMul", ["c", "r"], ["big"])],
    GROWTH["broadcast"][1],
)
DOUBLED = [helper.make_node("Concat", [f"d{k}", f"d{k}"], [f"d{k + 1}"], axis=1) for k in range(30)]
GROWTH["doubled thirty times"] = (
    [helper.make_node("Identity", ["x"], ["d0"]), *DOUBLED, helper.make_node("Identity", ["d30"], ["big"])],
    {},
)
GROWTH["the batch to the sixth"] = (
    [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Mul", ["s", "many"], ["m"]),
        helper.make_node("Concat", ["m", "m", "m", "m"], ["to"], axis=0),
        helper.make_node("ConstantOfShape", ["to"], ["big"]),
    ],
    {"many": np.array([200], np.int64)},
)
GROWTH["many of a hundred megabytes"] = (
    [
        *(helper.make_node("ConstantOfShape", ["to"], [f"c{k}"]) for k in range(80)),
        helper.make_node("Sum", [f"c{k}" for k in range(80)], ["big"]),
    ],
    {"to": np.array([5_000, 5_000], np.int64)},
)


@pytest.mark.parametrize("name", GROWTH)
def test_kilobytes_that_become_gigabytes(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, hostile(*GROWTH[name]))
    assert "the tensors of a step for a batch of 1 would take more than 256 MiB" in message, message
    assert "Export a smaller network" in message


def test_hours_of_multiplications(tmp_path: Path) -> None:
    nodes = [helper.make_node("ConstantOfShape", ["to"], ["m0"])]
    nodes += [helper.make_node("MatMul", [f"m{k}", f"m{k}"], [f"m{k + 1}"]) for k in range(20)]
    nodes += [helper.make_node("Identity", ["m20"], ["big"])]
    message = refused(tmp_path, hostile(nodes, {"to": np.array([1500, 1500], np.int64)}))
    assert "the operator 'MatMul'" in message and "would take more than 5e+09 operations" in message


def test_an_einsum_over_many_indices(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["to"], ["m"]),
        helper.make_node("Einsum", ["m"] * 6, ["big"], equation="ab,cd,ef,gh,ij,kl->"),
    ]
    assert "operations" in refused(tmp_path, hostile(nodes, {"to": np.array([100, 100], np.int64)}))


def test_a_size_that_only_a_flight_would_tell(tmp_path: Path) -> None:
    """At rest it is small: the speed says how many gigabytes."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "much"], ["grown"]),
        helper.make_node("Cast", ["grown"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["whole", "flat"], ["to"]),
        helper.make_node("ConstantOfShape", ["to"], ["big"]),
    ]
    bare = hostile(nodes, {"much": np.float32(1e9), "flat": np.array([1], np.int64)})
    message = refused(tmp_path, bare)
    assert "'ConstantOfShape'" in message and "depends on values that are known only in flight" in message
    # a promise in the file about that size changes nothing
    bare.graph.value_info.append(helper.make_tensor_value_info("big", TensorProto.FLOAT, [1]))
    assert "depends on values that are known only in flight" in refused(tmp_path, bare)


def test_too_many_nodes(tmp_path: Path) -> None:
    bare = hostile([helper.make_node("Identity", ["x"], ["big"])])
    bare.graph.node.extend(helper.make_node("Neg", ["x"], [f"n{k}"]) for k in range(ORDINARY.nodes))
    started = time.monotonic()
    with pytest.raises(UserError, match=r"nodes and weights, more than 5,000. Export a smaller network"):
        load_policy(put(tmp_path, sealed(bare, mlp_contract())))
    assert time.monotonic() - started < LOAD_S


def test_limits_of_large_networks_for_those_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.onnx"
    write_policy(mlp_model(), mlp_contract(), path)
    monkeypatch.setattr("rlstack.policies.limits.ORDINARY", replace(ORDINARY, nodes=3))
    with pytest.raises(
        UserError, match=r"more than 3\. .* For a large network that you trust, set RLSTACK_LARGE_POLICIES=1"
    ):
        load_policy(path)
    monkeypatch.setenv(LARGE_POLICIES, "1")
    assert load_policy(path).contract.name == mlp_contract().name


def test_sparse_weights(tmp_path: Path) -> None:
    """Three bytes a dimension say how large they are."""
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [1.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("at", TensorProto.INT64, [1], [0]), [10**6, 10**6])
    bare = hostile([helper.make_node("Identity", ["sparse"], ["big"])])
    bare.graph.sparse_initializer.append(sparse)
    assert "the graph has sparse weights" in refused(tmp_path, bare)
    inside = hostile([helper.make_node("Constant", [], ["big"], sparse_value=sparse)])
    assert "would take more than 256 MiB" in refused(tmp_path, inside)


def test_millions_of_empty_parts_are_counted_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    nothing = b"\x0a\x00" * (8 * 2**20)  # 8 million nodes in 16 MiB, which would take a gigabyte
    size = len(nothing)
    varint = bytes([(size >> 7 * k) & 0x7F | (0x80 if k < 3 else 0) for k in range(4)])
    path.write_bytes(b"\x3a" + varint + nothing)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"has more than 500,000 parts: it is no policy"):
        load_policy(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_large_weights_are_still_a_policy(tmp_path: Path) -> None:
    wide = {"w1": np.zeros((13, 100_000), np.float32), "b1": np.zeros(100_000, np.float32)}
    wide["w2"] = np.zeros((100_000, 4), np.float32)
    arrays = {**weights(), **wide}
    bare = hostile([helper.make_node("Identity", ["x"], ["big"])], arrays)
    write_policy(bare, mlp_contract(), tmp_path / "policy.onnx")  # 7 MB: its parts are counted
    assert load_policy(tmp_path / "policy.onnx").contract.name == "mlp"


def test_ctrl_c_ends_a_load(tmp_path: Path) -> None:
    """What passes the bounds loads within seconds, so Ctrl-C is heard between its steps."""
    paths = [str(path) for path in released_policies().values()]
    code = "from rlstack.policies import load_policy\nprint('begun', flush=True)\n"
    code += f"while True: [load_policy(path) for path in {paths}]"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "begun\n"
        time.sleep(0.3)
        child.send_signal(2)
        _, said = child.communicate(timeout=30)
    assert child.returncode != 0 and "KeyboardInterrupt" in said


def test_shapes_are_computed_as_onnxruntime_does() -> None:
    """Every arithmetic on sizes that exporters write comes out as it does when it is run."""
    import onnxruntime

    steps = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "last"], ["n"], axis=0),
        helper.make_node("Add", ["n", "two"], ["a"]),
        helper.make_node("Div", ["a", "minus_three"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Mod", ["n", "minus_three"], ["d"]),
        helper.make_node("Sub", ["c", "d"], ["e"]),
        helper.make_node("Slice", ["s", "minus_one", "far_back", "zero", "minus_one"], ["reversed"]),
        helper.make_node("Concat", ["e", "reversed", "n"], ["f"], axis=0),
        helper.make_node("Max", ["f", "two"], ["g"]),
        helper.make_node("Equal", ["g", "two"], ["h"]),
        helper.make_node("Where", ["h", "two", "g"], ["to"]),
        helper.make_node("ConstantOfShape", ["to"], ["big"]),
        helper.make_node("Slice", ["big", "minus_three", "e", "last_axis"], ["y"]),
    ]
    constants = {"last": [-1], "two": [2], "minus_three": [-3], "minus_one": [-1], "zero": [0], "last_axis": [3]}
    constants["far_back"] = [-(2**31)]
    arrays = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 13])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(steps, "sizes", [x], [y], arrays)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    for batch in (1, 3, 7):
        found = {}
        for name in ("to", "big", "y"):
            output = helper.make_tensor_value_info(name, TensorProto.INT64 if name == "to" else TensorProto.FLOAT, None)
            one = onnx.ModelProto()
            one.CopyFrom(made)
            del one.graph.output[:]
            one.graph.output.append(output)
            session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
            found[name] = session.run(None, {"x": np.zeros((batch, 13), np.float32)})[0]
        known = check_sizes(made, {"some": {"x": (batch, 13)}}, "sizes")[0]
        assert known["to"] == found["to"].shape and known["big"] == tuple(found["to"]) == found["big"].shape
        assert known["y"] == found["y"].shape


def test_the_allowed_operators_exist_and_none_holds_a_graph() -> None:
    for name in ALLOWED:
        schema = onnx.defs.get_schema(name, 26, "") if onnx.defs.has(name, 26, "") else onnx.defs.get_schema(name)
        kinds = {attribute.type for attribute in schema.attributes.values()}
        assert not kinds & {onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS}, name
