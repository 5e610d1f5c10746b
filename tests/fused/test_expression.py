"""What expressions compute, against numpy in double precision, and what they refuse."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import Kernel, clip, greater, maximum, minimum, where, zeros
from rlstack.fused.expression import Scalar
from tests.fused.programs import Step, bounded, exact, programs, run

COUNT = 37


def on_expressions(op: str, *x: Any) -> Any:
    if op in ("min", "max"):
        return minimum(x[0], x[1]) if op == "min" else maximum(x[0], x[1])
    if op == "select":
        return where(*x)
    # numpy's own scalars would ask an expression for its truth
    x = tuple(v if isinstance(v, Scalar) else np.asarray(v).item() for v in x)
    if op in ("and", "or"):
        return x[0] & x[1] if op == "and" else x[0] | x[1]
    if op == "not":
        return ~x[0] if isinstance(x[0], Scalar) else not x[0]
    if op in ("lt", "le", "gt", "ge", "eq"):
        return getattr(operator, op)(*x)
    with np.errstate(all="ignore"):
        if op in ("add", "sub", "mul", "div"):
            a = x[0] if isinstance(x[0], Scalar) else np.float64(x[0])
            return {"add": a + x[1], "sub": a - x[1], "mul": a * x[1]}[op] if op != "div" else a / x[1]
        function = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "neg": np.negative, "abs": np.abs, "floor": np.floor}
        # numpy finds the methods of what an object array holds
        return function[op](np.array([x[0]], dtype=object if isinstance(x[0], Scalar) else float))[0]


def inputs(seed: int, count: int = COUNT) -> Any:
    rng = np.random.default_rng(seed)
    x = zeros(3, count)
    x[:] = rng.normal(size=(3, count)) * np.array([[1.0], [3.0], [0.1]])
    return x


@settings(deadline=None, max_examples=60)
@given(programs(), st.integers(0, 2**32 - 1))
def test_a_program_computes_what_numpy_computes(steps: list[Step], seed: int) -> None:
    x = inputs(seed)
    kernel = Kernel(lambda x: {"y": run(steps, list(x), on_expressions)}, {"x": 3})
    y = zeros(kernel.outputs["y"], COUNT)
    kernel({"x": x, "y": y})
    for step, got, wanted in zip(steps, y, run(steps, [exact(row) for row in x], bounded)):
        sure = np.broadcast_to(wanted.sure, got.shape)
        off = np.abs(got[sure] - np.broadcast_to(wanted.value, got.shape)[sure])
        assert (off <= 2.0 * np.broadcast_to(wanted.error, got.shape)[sure]).all(), step


def one(function: Any, x: Any) -> Any:
    """Return what a function of one row gives for some numbers."""
    x = np.atleast_2d(np.asarray(x, np.float32))
    kernel = Kernel(lambda x: {"y": function(x[0])}, {"x": 1})
    y = zeros(kernel.outputs["y"], x.shape[1])
    kernel({"x": x, "y": y})
    return y if len(y) > 1 else y[0]


def test_numpys_own_functions_work_on_arrays_of_expressions() -> None:
    def function(x: Any) -> dict[str, Any]:
        rows = np.stack([x[:2], x[1:]])
        return {
            "sums": rows.sum(axis=0),
            "product": rows @ x[:2],
            "cross": np.cross(np.eye(3)[0], x),
            "functions": np.concatenate([np.exp(x), np.tanh(x), np.abs(x), np.floor(x), np.ceil(x), np.square(x)]),
            "number": x[0] ** 3 + x[1] ** -2 + x[2] ** 0.5,
        }

    x = inputs(1)
    x[2] = np.abs(x[2])
    kernel = Kernel(function, {"x": 3})
    arrays = {"x": x, **{name: zeros(rows, COUNT) for name, rows in kernel.outputs.items()}}
    kernel(arrays)
    rows = np.stack([x[:2], x[1:]])
    wanted = {
        "sums": rows.sum(axis=0),
        "product": np.einsum("ijn,jn->in", rows, x[:2]),
        "cross": np.stack([0 * x[0], -x[2], x[1]]),
        "functions": np.concatenate([np.exp(x), np.tanh(x), np.abs(x), np.floor(x), np.ceil(x), np.square(x)]),
        "number": (x[0] ** 3 + x[1] ** -2.0 + x[2] ** 0.5)[None],
    }
    for name, value in wanted.items():
        np.testing.assert_allclose(arrays[name], value, rtol=1e-5, atol=2e-7, err_msg=name)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_comes_through(value: float) -> None:
    y = one(lambda x: [x + 1, x * 2, x / 3, -x, minimum(x, 1.0), maximum(0.5, x), clip(x, -1.0, 1.0), x - x], [value])
    with np.errstate(invalid="ignore"):
        wanted = [
            value,
            value,
            value,
            -value,
            np.minimum(value, 1),
            np.maximum(0.5, value),
            np.clip(value, -1, 1),
            np.nan,
        ]
    np.testing.assert_array_equal(y[:, 0], np.float32(wanted))


def test_nan_on_either_side_of_a_minimum_stays() -> None:
    nan, x = zeros(1, 20), zeros(1, 20)
    nan[:], x[:] = np.nan, 2.0
    kernel = Kernel(lambda a, b: {"y": [minimum(a[0], b[0]), maximum(a[0], b[0])]}, {"a": 1, "b": 1})
    for a, b in ((nan, x), (x, nan)):
        y = zeros(2, 20)
        kernel({"a": a, "b": b, "y": y})
        assert np.isnan(y).all()


def test_truth_values_are_one_and_zero_as_numbers() -> None:
    x = np.array([-2.0, 0.0, 0.5, 3.0], np.float32)
    y = one(lambda x: [x > 0.0, (x > 0.0) * x, where(x > 0.0, True, x < -1.0), (x > 0.0) & True, ~(x > 0.0) | False], x)
    up = x > 0.0
    np.testing.assert_array_equal(y, [up, up * x, up | (x < -1.0), up, ~up])


def test_equal_is_asked_of_the_values() -> None:
    y = one(lambda x: [x == 2.0, x != 2.0], [2.0, 3.0])
    np.testing.assert_array_equal(y, [[1, 0], [0, 1]])


def test_constants_are_rounded_as_floats_are() -> None:
    numbers = [0.1, 1 / 3, 3.4028235e38, 3.41e38, -1e39, np.inf, -np.inf, np.nan, 1e-50, -0.0]
    with np.errstate(over="ignore"):
        wanted = np.float32(numbers)
    y = one(lambda x: [where(x > 0.0, n, 0.0) for n in numbers], [1.0])
    np.testing.assert_array_equal(y[:, 0], wanted)


def test_constants_fold_as_numpy_computes_them() -> None:
    def function(x: Any) -> list[Any]:
        zero = x * 0.0  # a constant, and an expression
        return [
            (zero + 1000.0).exp(),
            (zero - 1.0).sqrt(),
            zero.log(),
            1.0 / zero,
            (zero + np.inf).floor(),
            -zero / zero,
            minimum(zero + np.nan, 1.0),
        ]

    np.testing.assert_array_equal(one(function, [5.0])[:, 0], [np.inf, np.nan, -np.inf, np.inf, np.inf, np.nan, np.nan])


def test_dividing_by_a_tiny_constant_is_not_multiplying_by_infinity() -> None:
    assert one(lambda x: [x / 1e-39], [1e-30])[0] == pytest.approx(1e9, rel=1e-5)


def test_plain_arrays_are_numpys() -> None:
    a, b = np.array([1.0, 5.0]), np.array([2.0, 3.0])
    np.testing.assert_array_equal(where(greater(a, b), minimum(a, b), maximum(a, b)), [2.0, 3.0])
    np.testing.assert_array_equal(clip(a, 2.0, 4.0), [2.0, 4.0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: {"y": x if x[0] > 0.0 else -x}, r"fused\.where instead of `if`"),
        (lambda x: {"y": np.minimum(x, 0.0)}, r"fused\.minimum"),
        (lambda x: {"y": x > 0.0}, r"fused\.greater"),
        (lambda x: {"y": x.astype(np.float32)}, "no value yet"),
        (lambda x: {"y": x**1.5}, r"power 1\.5 is not known"),
        (lambda x: {"y": [x[0] & x[1]]}, "'and' needs truth values"),
        (lambda x: {"y": [where(x[0], 1.0, 0.0)]}, "'where' needs truth values"),
        (lambda x: {"y": np.sin(x)}, "no callable sin method"),
        (lambda x: {"y": np.stack([x, x])}, r"shape \(2, 2\)"),
        (lambda x: {"y": ["left"]}, "holds a str"),
    ],
)
def test_what_cannot_be_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Kernel(function, {"x": 2})


def test_expressions_of_two_functions_do_not_mix() -> None:
    kept: list[Any] = []

    def first(x: Any) -> dict[str, Any]:
        kept.append(x[0])
        return {"y": x}

    Kernel(first, {"x": 1})
    with pytest.raises(TypeError, match="in another"):
        Kernel(lambda x: {"y": x + kept[0]}, {"x": 1})
    with pytest.raises(TypeError, match="of another function"):
        Kernel(lambda x: {"y": [kept[0]]}, {"x": 1})
