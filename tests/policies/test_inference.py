from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from rlstack.policies import Policy, PolicyOutputError, StatePort, contract_for, load_policy, write_policy
from tests.policies.graphs import (
    HIDDEN,
    INPUTS,
    crazyflie,
    gru_contract,
    gru_model,
    gru_reference,
    gru_weights,
    mlp_contract,
    mlp_model,
    mlp_reference,
    model,
    random_inputs,
    weights,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policies")
    write_policy(mlp_model(), mlp_contract(), path / "mlp.onnx")
    write_policy(gru_model(), gru_contract(), path / "gru.onnx")
    return path


@pytest.fixture
def mlp(folder: Path) -> Policy:
    return load_policy(folder / "mlp.onnx")


@pytest.fixture
def gru(folder: Path) -> Policy:
    return load_policy(folder / "gru.onnx")


def test_one_robot(mlp: Policy) -> None:
    for seed in range(20):
        inputs = random_inputs(seed)
        outputs = mlp.step(inputs)
        assert list(outputs) == ["rotor_speed"]
        assert outputs["rotor_speed"].shape == (4,) and outputs["rotor_speed"].dtype == np.float64
        np.testing.assert_allclose(outputs["rotor_speed"], mlp_reference(weights(), inputs), rtol=1e-5, atol=5e-3)


@settings(deadline=None, max_examples=20)
@given(batch=st.integers(1, 40), seed=st.integers(0, 1000))
def test_many_robots(folder: Path, batch: int, seed: int) -> None:
    policy = load_policy(folder / "mlp.onnx")
    policy.reset(batch)
    inputs = random_inputs(seed, batch)
    found = policy.step(inputs)["rotor_speed"]
    assert found.shape == (batch, 4) and policy.batch == batch
    np.testing.assert_allclose(found, mlp_reference(weights(), inputs), rtol=1e-5, atol=5e-3)


def test_outputs_are_the_callers_own(mlp: Policy) -> None:
    first = mlp.step(random_inputs(0))["rotor_speed"]
    kept = first.copy()
    mlp.step(random_inputs(1))
    np.testing.assert_array_equal(first, kept)


def test_inputs_of_other_types_are_converted(mlp: Policy) -> None:
    expected = mlp.step({n: np.arange(len(v), dtype=float) for n, v in random_inputs(0).items()})["rotor_speed"]
    found = mlp.step({n: list(range(len(v))) for n, v in random_inputs(0).items()})["rotor_speed"]
    np.testing.assert_array_equal(found, expected)
    strided = {n: np.repeat(np.arange(len(v), dtype=np.int32), 2)[::2] for n, v in random_inputs(0).items()}
    np.testing.assert_array_equal(mlp.step(strided)["rotor_speed"], expected)


def x_of(inputs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([inputs[n] for n in INPUTS], axis=-1)


def test_state_is_kept_and_reset(gru: Policy) -> None:
    arrays = gru_weights()
    for _ in range(2):
        gru.reset()
        hidden = np.zeros((1, HIDDEN))
        for seed in range(15):
            inputs = random_inputs(seed)
            hidden = gru_reference(arrays, x_of(inputs), hidden)
            expected = np.clip(hidden @ arrays["w2"] + arrays["b2"], 0.0, 2272.6)[0]
            np.testing.assert_allclose(gru.step(inputs)["rotor_speed"], expected, rtol=1e-5, atol=5e-3)


def test_a_batch_moves_as_its_robots_one_by_one(gru: Policy, folder: Path) -> None:
    gru.reset(5)
    single = [load_policy(folder / "gru.onnx") for _ in range(5)]
    for seed in range(6):
        inputs = random_inputs(seed, 5)
        together = gru.step(inputs)["rotor_speed"]
        for index, policy in enumerate(single):
            alone = policy.step({name: value[index] for name, value in inputs.items()})["rotor_speed"]
            np.testing.assert_allclose(together[index], alone, rtol=1e-5, atol=5e-3)


def test_reset_where(gru: Policy, folder: Path) -> None:
    gru.reset(3)
    for seed in range(4):
        gru.step(random_inputs(seed, 3))
    before = [load_policy(folder / "gru.onnx") for _ in range(3)]
    for index in (0, 2):
        for seed in range(4):
            before[index].step({n: v[index] for n, v in random_inputs(seed, 3).items()})
    gru.reset_where(np.array([False, True, False]))
    inputs = random_inputs(9, 3)
    found = gru.step(inputs)["rotor_speed"]
    for index, policy in enumerate(before):
        expected = policy.step({n: v[index] for n, v in inputs.items()})["rotor_speed"]
        np.testing.assert_allclose(found[index], expected, rtol=1e-5, atol=5e-3)


@pytest.mark.parametrize("mask", [np.array([True]), np.array([0, 1]), np.array([[True, False]])])
def test_reset_where_refuses_other_masks(gru: Policy, mask: np.ndarray) -> None:
    gru.reset(2)
    with pytest.raises(ValueError, match=r"mask: .* is not allowed: must be bool of shape"):
        gru.reset_where(mask)


def test_batch_of_one_keeps_its_axis(mlp: Policy) -> None:
    assert mlp.step(random_inputs(0, 1))["rotor_speed"].shape == (1, 4)


def test_reset_refuses_an_empty_batch(mlp: Policy) -> None:
    with pytest.raises(ValueError, match="batch: 0 is not allowed"):
        mlp.reset(0)


def changed(**changes: Any) -> dict[str, Any]:
    return {**random_inputs(0), **changes}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({k: v for k, v in random_inputs(0).items() if k != "position"}, "missing: position"),
        (changed(smell=np.zeros(3)), "unknown: smell"),
        (changed(position=np.zeros(4)), r"position: the shape \(4,\) is not allowed: must be \(3,\) or \(1, 3\)"),
        (changed(position=np.zeros((2, 3))), r"position: the shape \(2, 3\) .* call reset\(batch=N\)"),
        (changed(orientation=np.zeros((1, 4))), "orientation: give every input with a batch axis, or none"),
        (changed(position=np.array([0.0, np.nan, 0.0])), "position: holds a value that is not finite"),
        (changed(linear_velocity=np.array([0.0, 0.0, np.inf])), "linear_velocity: holds a value that is not finite"),
        (changed(angular_velocity=np.array([0.0, 0.0, 1e300])), "angular_velocity: .* beyond float32"),
        (changed(position=np.array(["a", "b", "c"])), "position: <U1 is not allowed: must be real numbers"),
        (changed(position=np.zeros(3, complex)), "position: complex128 is not allowed"),
        (changed(position=None), r"position: the shape \(\) is not allowed"),
    ],
)
def test_inputs_refused_by_name(gru: Policy, folder: Path, inputs: dict[str, Any], message: str) -> None:
    gru.step(random_inputs(1))
    with pytest.raises(ValueError, match=message) as caught:
        gru.step(inputs)
    assert not isinstance(caught.value, PolicyOutputError)
    untouched = load_policy(folder / "gru.onnx")
    untouched.step(random_inputs(1))
    np.testing.assert_array_equal(
        gru.step(random_inputs(2))["rotor_speed"], untouched.step(random_inputs(2))["rotor_speed"]
    )


def test_one_robots_inputs_for_a_batch_are_refused(mlp: Policy) -> None:
    mlp.reset(2)
    with pytest.raises(ValueError, match=r"position: the shape \(3,\) is not allowed: must be \(2, 3\)"):
        mlp.step(random_inputs(0))


def counting(folder: Path, output: list[onnx.NodeProto], **constants: np.ndarray) -> Policy:
    """A policy whose state counts its steps; ``output`` makes rotor_speed of ``mixed`` and ``after``."""
    arrays = {"ones": np.ones((3, 4), np.float32), "one": np.ones((1, 4), np.float32), **constants}
    nodes = [
        helper.make_node("MatMul", ["position", "ones"], ["mixed"]),
        helper.make_node("Add", ["state.count", "one"], ["after"]),
        helper.make_node("Identity", ["after"], ["next_state.count"]),
        *output,
    ]
    shapes = {"state.count": [4]}
    graph = model(
        nodes, {"position": [3], **shapes}, {"rotor_speed": [4], "next_state.count": [4]}, arrays, opsets=[("", 18)]
    )
    contract = contract_for(
        crazyflie(),
        ["position"],
        ["rotor_speed"],
        name="c",
        task="t",
        state={"count": (4,)},
        envelope={"tilt_rad": 0.1},
    )
    write_policy(graph, contract, folder / "counting.onnx")
    return load_policy(folder / "counting.onnx")


def test_outputs_that_are_not_finite_raise_and_leave_the_state(tmp_path: Path) -> None:
    policy = counting(
        tmp_path,
        [helper.make_node("Sqrt", ["mixed"], ["root"]), helper.make_node("Add", ["root", "after"], ["rotor_speed"])],
    )
    np.testing.assert_allclose(policy.step({"position": [1.0, 1.0, 2.0]})["rotor_speed"], 3.0)
    with pytest.raises(PolicyOutputError, match="not finite for rotor_speed; its recurrent state was not advanced"):
        policy.step({"position": [-1.0, 0.0, 0.0]})
    np.testing.assert_allclose(policy.step({"position": [4.0, 0.0, 0.0]})["rotor_speed"], 4.0)


def test_a_state_that_is_not_finite_raises(tmp_path: Path) -> None:
    graph = model(
        [
            helper.make_node("Sqrt", ["position"], ["next_state.s"]),
            helper.make_node("MatMul", ["state.s", "zero"], ["rotor_speed"]),
        ],
        {"position": [3], "state.s": [3]},
        {"rotor_speed": [4], "next_state.s": [3]},
        {"zero": np.zeros((3, 4), np.float32)},
    )
    contract = contract_for(crazyflie(), ["position"], ["rotor_speed"], name="c", task="t")
    contract = replace(contract, state=(StatePort(name="s", shape=(3,)),))
    write_policy(graph, contract, tmp_path / "policy.onnx")
    policy = load_policy(tmp_path / "policy.onnx")
    with pytest.raises(PolicyOutputError, match="not finite for s;"):
        policy.step({"position": [-1.0, 0.0, 0.0]})
    policy.step({"position": [1.0, 0.0, 0.0]})


def test_outputs_are_held_to_the_contracts_range(tmp_path: Path) -> None:
    clipped = [helper.make_node("Clip", ["mixed", "low", "high"], ["rotor_speed"])]
    policy = counting(tmp_path, clipped, low=np.float32(0.0), high=np.float32(2272.6))
    assert float(np.float32(2272.6)) > 2272.6, "float32 rounds this limit up"
    assert (policy.step({"position": [1e6, 0.0, 0.0]})["rotor_speed"] == 2272.6).all()
    assert (policy.step({"position": [-1e6, 0.0, 0.0]})["rotor_speed"] == 0.0).all()


def test_an_orientation_without_length_is_refused_by_name(tmp_path: Path) -> None:
    write_policy(mlp_model(), mlp_contract(), tmp_path / "policy.onnx")
    policy = load_policy(tmp_path / "policy.onnx")
    inputs = {port.name: np.zeros(port.shape) for port in policy.contract.inputs}
    with pytest.raises(ValueError, match="orientation: a quaternion of length 0 is not allowed"):
        policy.step(inputs)
    policy.step({**inputs, "orientation": np.array([0.0, 0.0, 0.0, 0.9])})
