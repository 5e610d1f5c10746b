"""Kernels in double precision: numpy's results, one robot without copies, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.fused import GRADIENT, Kernel, clip, maximum, minimum, where, zeros
from rlstack.fused.devices import TEST_DEVICE
from rlstack.fused.graph import Graph
from rlstack.fused.llvm_ir import IrWriter

EVERYTHING: dict[str, tuple[Any, Any]] = {
    "add": (lambda a, b, c: a + b, None),
    "sub": (lambda a, b, c: a - b, None),
    "mul": (lambda a, b, c: a * b, None),
    "div": (lambda a, b, c: a / b, None),
    "div by a number": (lambda a, b, c: a / 3.0, None),
    "div by a tiny number": (lambda a, b, c: a / 1e-300, None),
    "of a number": (lambda a, b, c: 0.1 / a + 1e-200, None),
    "neg": (lambda a, b, c: -a, None),
    "abs": (lambda a, b, c: abs(a), None),
    "sqrt": (lambda a, b, c: (a * a).sqrt(), lambda a, b, c: np.sqrt(a * a)),
    "exp": (lambda a, b, c: (50.0 * a).exp(), lambda a, b, c: np.exp(50.0 * a)),
    "log": (lambda a, b, c: abs(a).log(), lambda a, b, c: np.log(abs(a))),
    "floor": (lambda a, b, c: (7.0 * a).floor(), lambda a, b, c: np.floor(7.0 * a)),
    "powers": (lambda a, b, c: a**3 + b**-2, None),
    "min": (lambda a, b, c: minimum(a, b), np.minimum),
    "max": (lambda a, b, c: maximum(a, b), np.maximum),
    "clip": (lambda a, b, c: clip(a, -0.1, 0.1), lambda a, b, c: np.clip(a, -0.1, 0.1)),
    "where": (lambda a, b, c: where((a > b) & ~(b >= c) | (a == c), a, b), None),
    "truth": (lambda a, b, c: a > b, None),
    "tanh": (lambda a, b, c: a.tanh(), lambda a, b, c: np.tanh(a)),
    "sigmoid": (lambda a, b, c: a.sigmoid(), lambda a, b, c: 1.0 / (1.0 + np.exp(-a))),
}


@pytest.mark.parametrize("count", [1, 3, 64])
def test_every_operation_is_numpys(count: int) -> None:
    kernel = Kernel(lambda x: {"y": [f(*x) for f, _ in EVERYTHING.values()]}, {"x": 3}, dtype="float64")
    x = np.random.default_rng(count).normal(size=(3, count))
    y = np.zeros((len(EVERYTHING), count))
    kernel({"x": x, "y": y})
    for (name, (function, plain)), got in zip(EVERYTHING.items(), y):
        wanted = plain(*x[: 2 if name in ("min", "max") else 3]) if plain else function(*x)
        # tanh is a difference of numbers near 1
        absolute = 2e-16 if name == "tanh" else 0.0
        np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=absolute, err_msg=name)


def test_the_limits_come_through() -> None:
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 709.78, 710.0, -745.0, -750.0, 1e-310]])
    kernel = Kernel(
        lambda x: {
            "y": [x[0].exp(), x[0].log(), x[0].sqrt(), 1.0 / x[0], x[0] * 2.0, x[0].sigmoid(), 1.0 / x[0] ** 0.5]
        },
        {"x": 1},
        dtype="float64",
    )
    y = np.zeros((7, x.shape[1]))
    kernel({"x": x, "y": y})
    with np.errstate(all="ignore"):
        v = x[0]
        wanted = [np.exp(v), np.log(v), np.sqrt(v), 1.0 / v, v * 2.0, 1.0 / (1.0 + np.exp(-v)), 1.0 / np.sqrt(v)]
    np.testing.assert_allclose(y, wanted, rtol=1e-14, atol=1e-33)
    extremes = Kernel(lambda a, b: {"low": minimum(a, b), "high": maximum(a, b)}, {"a": 1, "b": 1}, dtype="float64")
    a, b = np.array([[np.nan, 1.0, np.inf]]), np.array([[1.0, np.nan, -np.inf]])
    low, high = np.zeros((1, 3)), np.zeros((1, 3))
    extremes({"a": a, "b": b, "low": low, "high": high})
    np.testing.assert_array_equal(low, np.minimum(a, b))
    np.testing.assert_array_equal(high, np.maximum(a, b))


def test_numbers_are_not_rounded_to_single_precision() -> None:
    kernel = Kernel(lambda x: {"y": [x[0] * 0.1, x[0] + 1e-12, x[0] * 1e300]}, {"x": 1}, dtype="float64")
    y = np.zeros((3, 1))
    kernel({"x": np.ones((1, 1)), "y": y})
    assert y[:, 0].tolist() == [0.1, 1.0 + 1e-12, 1e300]


@pytest.mark.parametrize("count", [1, 7])
def test_the_reverse_mode(count: int) -> None:
    def energy(x: Any, k: Any) -> dict[str, Any]:
        return {"e": [k[0] * (x * x).sum() + np.exp(x[0]) * np.log(x[1])]}

    kernel = Kernel(energy, {"x": 2, "k": 1}, wanted=("x",), dtype="float64")
    x, k = np.abs(np.random.default_rng(0).normal(size=(2, count))) + 0.1, np.full((1, count), 3.0)
    out = np.zeros((2, count))
    kernel({"x": x, "k": k, GRADIENT + "e": np.ones((1, count)), GRADIENT + "x": out})
    wanted = [6.0 * x[0] + np.exp(x[0]) * np.log(x[1]), 6.0 * x[1] + np.exp(x[0]) / x[1]]
    np.testing.assert_allclose(out, wanted, rtol=1e-13)


def test_rows_may_lie_anyhow_and_nothing_beside_them_is_touched() -> None:
    kernel = Kernel(lambda x: {"y": 2.0 * x}, {"x": 2}, dtype="float64")
    source, whole = np.random.default_rng(0).normal(size=(4, 9)), np.full((5, 9), 7.0)
    for rows in (source[::2, 2:5], source[::-1, 3:6][:2], zeros(2, 3, dtype="float64")):
        y = whole[1:5:2, 4:7]
        kernel({"x": rows, "y": y})
        np.testing.assert_array_equal(y, 2.0 * rows)
        y[:] = 7.0
        assert (whole == 7.0).all()
    kernel({"x": np.ones((2, 9)), "y": whole[:2]}, count=4)
    assert (whole[:2, :4] == 2.0).all() and (whole[:2, 4:] == 7.0).all()


def test_one_robot_is_computed_where_it_is() -> None:
    def turn(x: Any) -> dict[str, Any]:
        return {"y": np.stack([x[0] * x[3] - x[1] * x[2], x[1] * x[3] + x[0] * x[2], x[2], x[3]])}

    kernel = Kernel(turn, {"x": 4}, dtype="float64")
    x, y = np.ones((4, 1)), np.zeros((4, 1))
    launch = kernel.prepare({"x": x, "y": y})
    best = np.inf
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(200):
            launch()
        best = min(best, (time.perf_counter() - begin) / 200)
    assert y[:, 0].tolist() == [0.0, 2.0, 1.0, 1.0]
    assert best < 5e-6, "about 0.4 microseconds on a quiet machine; with copies it would be tens"


def test_what_does_not_fit_is_refused() -> None:
    kernel = Kernel(lambda x: {"y": x + 1.0}, {"x": 2}, dtype="float64")
    x, y = np.zeros((2, 4)), np.zeros((2, 4))
    for change, error, message in [
        ({"x": np.zeros((2, 4), np.float32)}, TypeError, "'x' is an array of float32; float64 is needed"),
        ({"y": np.zeros((2, 4), np.int64)}, TypeError, "'y' is an array of int64; float64 is needed"),
        ({"x": [[1.0]]}, TypeError, "'x' is a list; a float64 array"),
        ({"x": np.zeros((4, 2)).T}, ValueError, "'x' is an array whose robots are not side by side"),
        ({"y": x}, ValueError, "'y' is written, and shares memory with 'x'"),
        ({"x": np.zeros((3, 4))}, ValueError, "'x' has 3 rows; the function was compiled for 2"),
    ]:
        for call in (kernel, kernel.prepare):
            with pytest.raises(error, match=message):
                call({"x": x, "y": y, **change})
    with pytest.raises(ValueError, match=r"no arrays of 'float16' here: choose one of float32, float64"):
        Kernel(lambda x: {"y": x}, {"x": 1}, dtype="float16")
    with pytest.raises(UserError, match=f"On {TEST_DEVICE} kernels compute in float32 only"):
        Kernel(lambda x: {"y": x}, {"x": 1}, device=TEST_DEVICE, dtype="float64")
    with pytest.raises(ValueError, match="8 robots at a time are not written in double precision"):
        IrWriter(Graph(), [], [], 8, "float64")


def test_tensors_of_double_precision_are_taken() -> None:
    torch = pytest.importorskip("torch")
    kernel = Kernel(lambda x: {"y": x + 1.0}, {"x": 2}, dtype="float64")
    y = torch.zeros(2, 3, dtype=torch.float64)
    kernel({"x": torch.ones(2, 3, dtype=torch.float64), "y": y})
    assert (y == 2.0).all()
    with pytest.raises(TypeError, match=r"'x' is an array of torch\.float32; float64 is needed"):
        kernel({"x": torch.ones(2, 3), "y": y})
