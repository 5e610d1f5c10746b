"""Policies that follow a path: an axis whose size may differ from call to call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from rlstack import schema
from rlstack.errors import UserError
from rlstack.policies import Policy, contract_for, describe, load_policy, write_policy
from tests.policies.graphs import (
    PATH_SHAPES,
    crazyflie,
    model,
    path_contract,
    path_model,
    path_reference,
    put,
    sealed,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("paths") / "policy.onnx"
    write_policy(path_model(), path_contract(), path)
    return path


@pytest.fixture
def policy(file: Path) -> Policy:
    return load_policy(file, robot=crazyflie())


def path_inputs(seed: int, points: int, start_s: float = -1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    orientation = rng.normal(size=(points, 4))
    return {
        "position": rng.normal(size=3),
        "path_time": start_s + np.cumsum(rng.uniform(0.05, 1.0, points)),
        "path_position": rng.normal(size=(points, 3)),
        "path_orientation": orientation / np.linalg.norm(orientation, axis=-1, keepdims=True),
    }


def test_the_contract_says_which_axis_is_dynamic(policy: Policy) -> None:
    shapes = {port.name: port.shape for port in policy.contract.inputs}
    assert shapes == {
        "position": (3,),
        "path_time": ("points",),
        "path_position": ("points", 3),
        "path_orientation": ("points", 4),
    }
    assert schema.to_data(policy.contract)["inputs"][2]["shape"] == ["points", 3]
    assert "[points, 3]" in describe(policy.contract)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.floats(-40.0, 5.0), st.integers(0, 1000))
def test_any_number_of_points(file: Path, points: int, start_s: float, seed: int) -> None:
    inputs = path_inputs(seed, points, start_s)
    found = load_policy(file).step(inputs)["rotor_speed"]
    np.testing.assert_allclose(found, path_reference(inputs), rtol=1e-5, atol=0.05)


def test_the_number_of_points_may_change_and_the_state_stays(policy: Policy) -> None:
    for calls, points in enumerate([7, 7, 2, 30, 2, 3]):
        inputs = path_inputs(calls, points)
        found = policy.step(inputs)["rotor_speed"]
        np.testing.assert_allclose(found, path_reference(inputs, calls), rtol=1e-5, atol=0.01)


def test_memory_is_bound_again_only_when_the_number_changes(policy: Policy) -> None:
    policy.step(path_inputs(0, 5))
    binding, memory = policy._binding, policy._input_memory
    for seed in range(3):
        policy.step(path_inputs(seed, 5))
    assert policy._binding is binding and policy._input_memory is memory
    policy.step(path_inputs(0, 6))
    assert policy._binding is not binding


def test_many_robots_with_paths_of_one_length(policy: Policy) -> None:
    policy.reset(4)
    for calls, points in enumerate([6, 9]):
        each = [path_inputs(10 * calls + i, points) for i in range(4)]
        together = {name: np.stack([inputs[name] for inputs in each]) for name in each[0]}
        found = policy.step(together)["rotor_speed"]
        expected = [path_reference(inputs, calls) for inputs in each]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.01)


def test_a_batch_of_one_robot_keeps_its_axis(policy: Policy) -> None:
    inputs = path_inputs(3, 4)
    found = policy.step({name: value[None] for name, value in inputs.items()})["rotor_speed"]
    assert found.shape == (1, 4)
    np.testing.assert_allclose(found[0], path_reference(inputs), rtol=1e-5, atol=0.01)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path_time": [0.0], "path_position": np.zeros((1, 3))}, "path_time: 1 points are not allowed: .* at least 2"),
        ({"path_time": []}, "path_time: 0 points are not allowed"),
        ({"path_time": [0.0, 1.0, 1.0]}, "path_time: must increase from each value to the next"),
        ({"path_time": [0.0, 1.0, 0.5]}, "path_time: must increase"),
        ({"path_time": [1e6, 1e6 + 1e-3, 2e6]}, r"path_time: must increase .* differ as float32"),
        ({"path_time": [0.0, np.nan, 1.0]}, "path_time: holds a value that is not finite"),
        ({"path_time": [0.0, 1.0, np.inf]}, "path_time: holds a value that is not finite"),
        ({"path_position": np.full((3, 3), np.nan)}, "path_position: holds a value that is not finite"),
        ({"path_position": np.zeros((4, 3))}, r"path_position: .* must be \(3, 3\) .* as many points as path_time has"),
        ({"path_orientation": np.ones((2, 4))}, r"path_orientation: .* with as many points as path_time has"),
        ({"path_time": 1.0}, r"path_time: the shape \(\) is not allowed"),
        ({"path_time": np.zeros((1, 1, 2))}, r"path_time: the shape \(1, 1, 2\) is not allowed"),
    ],
)
def test_bad_paths_are_refused_by_name(policy: Policy, changes: dict[str, Any], words: str) -> None:
    policy.step(path_inputs(0, 3))
    with pytest.raises(ValueError, match=words):
        policy.step({**path_inputs(0, 3), **changes})
    inputs = path_inputs(1, 3)
    np.testing.assert_allclose(policy.step(inputs)["rotor_speed"], path_reference(inputs, 1), rtol=1e-5, atol=0.01)


def refused(folder: Path, **inputs: list[int | str]) -> str:
    """The hash is right: only the graph's axes are wrong."""
    bare = path_model(inputs=inputs)
    with pytest.raises(UserError) as caught:
        load_policy(put(folder, sealed(bare, path_contract())))
    with pytest.raises(UserError) as written:
        write_policy(bare, path_contract(), folder / "policy.onnx")
    assert str(written.value) == str(caught.value)
    return str(caught.value)


def test_a_graph_for_a_fixed_number_of_points_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, path_time=[5], path_position=[5, 3], path_orientation=[5, 4])
    assert "'path_time' has the shape [batch, 5], but by the contract it is [batch, points]" in message


def test_axes_of_one_name_must_be_one_axis_of_the_graph(tmp_path: Path) -> None:
    message = refused(tmp_path, path_position=["others", 3])
    assert (
        "the axis 'points' of the contract is 'others' in the graph's input 'path_position', but 'points' in its input"
        in message
    )
    message = refused(
        tmp_path, **{name: ["batch", *shape[1:]] for name, shape in PATH_SHAPES.items() if len(shape) > 1}
    )
    assert "is 'batch' in the graph's input 'path_position'" in message
    message = refused(tmp_path, **{n: ["batch", *s[1:]] for n, s in PATH_SHAPES.items() if n.startswith("path")})
    assert "but that of the batch axis" in message


def test_the_graphs_own_name_of_the_axis_does_not_matter(tmp_path: Path) -> None:
    inputs = {n: ["s77", *s[1:]] for n, s in PATH_SHAPES.items() if n.startswith("path")}
    write_policy(path_model(inputs=inputs), path_contract(), tmp_path / "policy.onnx")
    given_path = path_inputs(0, 11)
    found = load_policy(tmp_path / "policy.onnx").step(given_path)["rotor_speed"]
    np.testing.assert_allclose(found, path_reference(given_path), rtol=1e-5, atol=0.01)


def with_shape(index: int, shape: tuple[int | str, ...]) -> Any:
    contract = path_contract()
    ports = list(contract.inputs)
    ports[index] = replace(ports[index], shape=shape)
    return replace(contract, inputs=tuple(ports))


@pytest.mark.parametrize(
    ("index", "shape", "words"),
    [
        (0, ("points",), "'position' has an axis 'points' of no fixed size"),
        (1, ("rotors",), "'path_time' has an axis 'rotors' of no fixed size"),
        (1, (5,), r"'path_time' has the shape \[5\], but this rlstack's has \[points\]"),
        (2, (3, "points"), r"'path_position' has the shape \[3, points\], but this rlstack's has \[points, 3\]"),
    ],
)
def test_shapes_that_the_catalogue_does_not_have(
    tmp_path: Path, index: int, shape: tuple[int | str, ...], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load_policy(put(tmp_path, sealed(path_model(), with_shape(index, shape))))


def test_a_graph_that_fails_for_another_number_of_points_is_refused(tmp_path: Path) -> None:
    """Its interface is dynamic, its inside is not."""
    nodes = [
        helper.make_node("Reshape", ["path_time", "two"], ["pair"]),
        helper.make_node("MatMul", ["pair", "none"], ["rotor_speed"]),
    ]
    arrays = {"two": np.array([-1, 2], np.int64), "none": np.zeros((2, 4), np.float32)}
    bare = model(nodes, {"path_time": ["points"]}, {"rotor_speed": [4]}, arrays)
    contract = contract_for(crazyflie(), ["path_time"], ["rotor_speed"], name="p", task="t")
    with pytest.raises(UserError, match=r"the graph (fails|gives)"):
        load_policy(put(tmp_path, sealed(bare, contract)))


@pytest.mark.parametrize("after_s", [-1.0, 1.0])
def test_a_graph_that_is_not_finite_beyond_the_ends_of_a_path_is_refused(tmp_path: Path, after_s: float) -> None:
    """Its root of the first point's time is NaN for a path that has begun, or that has not."""
    nodes = [
        helper.make_node("Slice", ["path_time", "zero", "one", "one"], ["first"]),
        helper.make_node("Mul", ["first", "sign"], ["turned"]),
        helper.make_node("Sqrt", ["turned"], ["root"]),
        helper.make_node("MatMul", ["root", "none"], ["rotor_speed"]),
    ]
    arrays = {
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "sign": np.float32(after_s),
        "none": np.zeros((1, 4), np.float32),
    }
    bare = model(nodes, {"path_time": ["points"]}, {"rotor_speed": [4]}, arrays)
    contract = contract_for(crazyflie(), ["path_time"], ["rotor_speed"], name="p", task="t")
    with pytest.raises(UserError, match="rotor_speed that is not finite"):
        load_policy(put(tmp_path, sealed(bare, contract)))
