"""Sweeps: the same numbers as the function called for each item, on both kinds of code, for any counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.fused import Kernel, LoopKernel, clip, where, zeros
from rlstack.fused.devices import TEST_DEVICE
from tests.fused.programs import bounded, exact, programs, run
from tests.fused.test_expression import inputs, on_expressions
from tests.support import docs


def mixed(item: Any, x: Any, v: Any) -> dict[str, Any]:
    """Use everything that lies somewhere else: of the robot, of the item, of both, truth values, constants."""
    length, ahead = np.sqrt(x[0] * x[0] + 1.0), x[0] < x[1]
    return {
        "both": np.stack([item[0] * length + v[0], where(ahead, item[1] * v[1], length)]),
        "robot": [length, ahead],
        "item": [np.exp(item[0]) * v[1], 2.5, item[1]],
        "truth": [(item[0] < 0.0) & ahead, x[1]],
    }


def plainly(numbers: Any, x: Any, v: Any) -> dict[str, Any]:
    items, count = len(numbers), x.shape[1]
    made: dict[str, list[Any]] = {}
    for number, own in zip(numbers, v.reshape(items, 2, count)):
        length, ahead = np.sqrt(x[0] ** 2 + 1.0), x[0] < x[1]
        for name, rows in (
            ("both", [number[0] * length + own[0], np.where(ahead, number[1] * own[1], length)]),
            ("robot", [length, ahead]),
            ("item", [np.exp(number[0]) * own[1], np.full(count, 2.5), np.full(count, number[1])]),
            ("truth", [(number[0] < 0.0) & ahead, x[1]]),
        ):
            made.setdefault(name, []).extend(rows)
    return {name: np.array(rows, dtype=float) for name, rows in made.items()}


def swept(sweep: LoopKernel, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays = {name: zeros(k, count, dtype=sweep.dtype) for name, k in {**sweep.inputs, **sweep.outputs}.items()}
    rng = np.random.default_rng(count)
    for name in sweep.inputs:
        arrays[name][:] = rng.normal(size=arrays[name].shape)
    sweep(arrays)
    return {n: arrays[n] for n in sweep.inputs}, {n: arrays[n] for n in sweep.outputs}


@pytest.mark.parametrize("items", [1, 2, 7])
@pytest.mark.parametrize(("device", "dtype"), [("cpu", "float32"), ("cpu", "float64"), (TEST_DEVICE, "float32")])
def test_each_item_of_each_robot(items: int, device: str, dtype: str) -> None:
    if device == TEST_DEVICE:
        pytest.importorskip("warp")
    numbers = np.random.default_rng(items).normal(size=(items, 2))
    sweep = LoopKernel(mixed, {"x": 2}, numbers, {"v": 2}, device=device, dtype=dtype)
    assert sweep.inputs == {"x": 2, "v": 2 * items}
    assert sweep.outputs == {"both": 2 * items, "robot": 2 * items, "item": 3 * items, "truth": 2 * items}
    for count in (0, 1, 5, 16, 17, 50):
        given_, made = swept(sweep, count)
        for name, wanted in plainly(numbers, **given_).items():
            near = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(made[name], wanted, rtol=near, atol=near, err_msg=name)


@settings(deadline=None, max_examples=25)
@given(programs(longest=15), st.integers(0, 2**32 - 1))
def test_random_programs(steps: Any, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=(3, 1))

    def function(item: Any, x: Any) -> dict[str, Any]:
        return {"y": run(steps, [x[0], item[0], x[1]], on_expressions)}

    x = inputs(seed, 20)[:2]
    sweep = LoopKernel(function, {"x": 2}, numbers)
    y = zeros(sweep.outputs["y"], 20)
    sweep({"x": np.ascontiguousarray(x), "y": y})
    for k, (number,) in enumerate(numbers.astype(np.float32)):
        values = [exact(x[0]), exact(np.full(20, number)), exact(x[1])]
        for row, wanted in zip(y.reshape(3, -1, 20)[k], run(steps, values, bounded)):
            sure = np.broadcast_to(getattr(wanted, "sure", np.True_), (20,))
            value = np.broadcast_to(getattr(wanted, "value", wanted), (20,)).astype(float)
            error = np.broadcast_to(getattr(wanted, "error", 0.0), (20,))
            assert (np.abs(row - value)[sure] <= (4 * error + 1e-6 * np.abs(value))[sure] + 1e-30).all()


def test_a_sweep_of_one_item_is_a_kernel() -> None:
    def function(x: Any) -> dict[str, Any]:
        return {"y": np.stack([clip(x[0], -0.5, 0.5), np.tanh(x[1])])}

    x, one, other = zeros(2, 100), zeros(2, 100), zeros(2, 100)
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    Kernel(function, {"x": 2})({"x": x, "y": one})
    LoopKernel(lambda item, x: function(x), {"x": 2}, np.zeros((1, 0)))({"x": x, "y": other})
    np.testing.assert_array_equal(one, other)


def test_the_first_robots_only_and_nothing_beside_them() -> None:
    sweep = LoopKernel(lambda item, x: {"y": [x[0] * item[0]]}, {"x": 1}, np.arange(3.0)[:, None])
    whole, x = np.full((5, 60), 7.0, np.float32), np.full((1, 50), 2.0, np.float32)
    sweep({"x": x, "y": whole[1:4, 5:55]}, 37)
    np.testing.assert_array_equal(whole[1:4, 5:42], np.repeat([[0.0], [2.0], [4.0]], 37, axis=1))
    whole[1:4, 5:42] = 7.0
    assert (whole == 7.0).all()


def test_other_numbers_make_the_same_code() -> None:
    from rlstack.fused.graph import ITEM, Graph, InnerLoop
    from rlstack.fused.llvm_ir import IrWriter

    def text(numbers: Any) -> str:
        graph = Graph()
        node = graph.apply("mul", graph.input("x", 0), graph.input(ITEM, 0))
        return IrWriter(graph, ["x", "y"], [("y", 0, node)], 8, "float32", InnerLoop(numbers, {"y": 1})).text()

    assert text(np.zeros((3, 1))) == text(np.ones((3, 1))) != text(np.ones((4, 1)))


def test_what_makes_no_sense_is_refused() -> None:
    numbers = np.ones((3, 1))
    for wrong in (np.ones(3), np.ones((0, 1))):
        with pytest.raises(ValueError, match=r"items' constants have the shape"):
            LoopKernel(lambda item, x: {"y": x}, {"x": 1}, wrong)
    with pytest.raises(ValueError, match="given twice"):
        LoopKernel(lambda item, x: {"y": x}, {"x": 1}, numbers, {"x": 1})
    for name in ("x", "v"):
        with pytest.raises(ValueError, match="outputs need other names"):
            LoopKernel(lambda item, x, v, name=name: {name: x}, {"x": 1}, numbers, {"v": 1})
    with pytest.raises(TypeError, match=r"fused\.where"):
        LoopKernel(lambda item, x: {"y": x if item[0] > 0 else -x}, {"x": 1}, numbers)
    with pytest.raises(UserError, match="float32 only"):
        LoopKernel(lambda item, x: {"y": x}, {"x": 1}, numbers, device=TEST_DEVICE, dtype="float64")
    sweep = LoopKernel(lambda item, x: {"y": x * item}, {"x": 1}, numbers)
    with pytest.raises(ValueError, match="'y' has 1 rows; the function was compiled for 3"):
        sweep({"x": zeros(1, 4), "y": zeros(1, 4)})


def test_the_pages_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    _, program = docs.blocks("docs/fused.md", "python")
    names: dict[str, Any] = {}
    exec(program, names)
    assert capsys.readouterr().out == "(64, 4096)\n"
    walls, angles = names["arrays"]["walls"], names["angles"][:, None]
    met = [walls[k] * np.cos(angles) + walls[k + 1] * np.sin(angles) for k in (0, 2)]
    np.testing.assert_allclose(names["arrays"]["range"], 1.0 / np.maximum(np.maximum(*met), 0.1), rtol=1e-4)
