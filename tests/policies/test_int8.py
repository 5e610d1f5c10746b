"""Policy files with 8-bit weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rlstack.errors import UserError
from rlstack.policies import load_policy, write_policy
from rlstack.policies.int8 import write_int8
from tests.policies import graphs

WIDE = 320


def wide_policy(path: Path) -> Path:
    """Write a policy of three wide layers, behind a table of whole numbers that selects its inputs.

    The third one gets features beside these inputs again, shifted and scaled.
    """
    rng = np.random.default_rng(0)
    arrays = {
        "table": np.eye(13, 200, dtype=np.float32),
        "w1": rng.normal(0.0, 0.3, (200, WIDE)).astype(np.float32),
        "b1": rng.normal(size=WIDE).astype(np.float32),
        "w2": rng.normal(0.0, WIDE**-0.5, (WIDE, WIDE)).astype(np.float32),
        "mean": np.full(200, 0.1, np.float32),
        "again": rng.normal(0.0, (200 + WIDE) ** -0.5, (200 + WIDE, WIDE)).astype(np.float32),
        "w3": (300.0 * rng.normal(0.0, WIDE**-0.5, (WIDE, 4))).astype(np.float32),
        "b3": np.full(4, 1000.0, np.float32),
        "low": np.float32(0.0),
        "high": np.float32(2272.6),
    }
    nodes = [
        helper.make_node("Concat", graphs.INPUTS, ["seen"], axis=1),
        helper.make_node("MatMul", ["seen", "table"], ["x"]),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["g1"]),
        helper.make_node("Tanh", ["g1"], ["h1"]),
        helper.make_node("MatMul", ["h1", "w2"], ["g2"]),
        helper.make_node("Tanh", ["g2"], ["h2"]),
        helper.make_node("Sub", ["x", "mean"], ["shifted"]),
        helper.make_node("Concat", ["h2", "shifted"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "again"], ["g_again"]),
        helper.make_node("Tanh", ["g_again"], ["h_again"]),
        helper.make_node("Gemm", ["h_again", "w3", "b3"], ["g3"]),
        helper.make_node("Clip", ["g3", "low", "high"], ["rotor_speed"]),
    ]
    model = graphs.model(nodes, {n: [graphs.SIZES[n]] for n in graphs.INPUTS}, {"rotor_speed": [4]}, arrays)
    write_policy(model, graphs.mlp_contract(evaluation={"success": 0.9}, training={"seed": 3}), path)
    return path


def test_layers_become_8_bit_and_commands_stay_near(tmp_path: Path) -> None:
    path = wide_policy(tmp_path / "policy.onnx")
    written = write_int8(path, tmp_path / "int8.onnx")
    assert written.products == 1 and written.weights == WIDE * WIDE
    assert written.bytes_before - written.bytes_after > 2.9 * written.weights
    kept = {t.name: numpy_helper.to_array(t) for t in onnx.load(written.path).graph.initializer}
    for name in ("table", "w1", "again", "w3"):  # a table, what gets measured quantities, and the commands' layer
        assert kept[name].dtype == np.float32, name
    before, after = load_policy(path), load_policy(written.path)
    rng = np.random.default_rng(1)
    for policy in (before, after):
        policy.reset(50)
    inputs = {name: rng.normal(size=(50, size)) for name, size in graphs.SIZES.items()}
    commands, others = (policy.step(inputs)["rotor_speed"] for policy in (before, after))
    differences = np.abs(commands - others)
    assert 0.0 < differences.max() < 0.05 * commands.std()


def test_the_contract_is_kept_and_names_its_origin(tmp_path: Path) -> None:
    path = wide_policy(tmp_path / "policy.onnx")
    before = load_policy(path)
    after = load_policy(write_int8(path, tmp_path / "int8.onnx").path)
    assert after.contract.inputs == before.contract.inputs and after.contract.outputs == before.contract.outputs
    assert after.contract.training == {"seed": 3, "int8": {"of": before.sha256, "evaluation": {"success": 0.9}}}
    assert after.contract.evaluation == {}  # its figures were the other file's
    with pytest.raises(UserError, match="is quantised already"):
        write_int8(after.path, tmp_path / "again.onnx")


def test_a_small_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has 4,096 weights in matrix products.*below 65,536.*Use it as it is"):
        write_int8("quadrotor_hover", tmp_path / "int8.onnx")
    assert not list(tmp_path.iterdir())
