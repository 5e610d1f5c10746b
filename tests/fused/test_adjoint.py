"""Reverse mode: the rules against torch's on random programs, and compiled gradients against finite differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import GRADIENT, Kernel, clip, maximum, minimum, where, zeros
from rlstack.fused.adjoint import gradients
from rlstack.fused.expression import Scalar
from rlstack.fused.graph import BINARY, UNARY, Graph
from tests.fused.programs import Step, bounded, exact, programs, run
from tests.fused.test_expression import inputs, on_expressions

torch = pytest.importorskip("torch")

COUNT = 64


def evaluate(graph: Graph, roots: list[int], rows: Mapping[tuple[str, int], Any]) -> dict[int, Any]:
    """Compute a graph in double precision."""
    values: dict[int, Any] = {}
    logic: dict[str, Any] = {
        **{"lt": np.less, "le": np.less_equal, "eq": np.equal, "select": np.where},
        **{"and": np.logical_and, "or": np.logical_or, "not": np.logical_not},
    }
    with np.errstate(all="ignore"):
        for node in graph.schedule(roots):
            op, value = graph.ops[node], graph.values[node]
            if op in ("const", "input"):
                values[node] = np.full(COUNT, value) if op == "const" else rows[value]
            else:
                function = UNARY.get(op) or BINARY.get(op) or logic[op]
                values[node] = function(*(values[n] for n in graph.args[node]))
    return values


def on_tensors(op: str, *x: Any) -> Any:
    x = tuple(torch.as_tensor(v, dtype=None if torch.is_tensor(v) else torch.float64) for v in x)
    names = {"neg": "neg", "not": "logical_not", "and": "logical_and", "or": "logical_or", "select": "where"}
    names.update({"min": "minimum", "max": "maximum"})
    return getattr(torch, names.get(op, op))(*x)


@settings(deadline=None, max_examples=150)
@given(programs(), st.integers(0, 2**32 - 1))
def test_the_rules_are_those_of_torch(steps: list[Step], seed: int) -> None:
    graph, x = Graph(), inputs(seed, COUNT).astype(np.float64)
    made = run(steps, [Scalar(graph, graph.input("x", row)) for row in range(3)], on_expressions)
    last = made[-1]
    if not isinstance(last, Scalar):
        return
    seeds = {last.node: Scalar(graph, graph.input("seed", 0))}
    found = gradients(graph, seeds, [graph.input("x", row) for row in range(3)])
    wanted = [node.node for node in found.values() if node is not None]
    seed_row = np.random.default_rng(seed).normal(size=COUNT)
    values = evaluate(graph, wanted, {**{("x", row): x[row] for row in range(3)}, ("seed", 0): seed_row})

    tensors = [torch.tensor(row, requires_grad=True) for row in x]
    result = run(steps, tensors, on_tensors)[-1]
    if result.requires_grad:
        result.backward(torch.tensor(seed_row))
    # only where nothing is near a kink or out of range; there the rules may well differ
    smooth = np.logical_and.reduce([np.broadcast_to(b.sure, COUNT) for b in run(steps, list(map(exact, x)), bounded)])
    for row, node in enumerate(found):
        mine = np.zeros(COUNT) if found[node] is None else values[found[node].node]
        grad = tensors[row].grad
        other = np.zeros(COUNT) if grad is None else grad.numpy()
        sound = smooth & (np.abs(other) < 1e12)
        scale = 1e-6 * (1.0 + np.abs(other[sound]))
        assert (np.abs(mine[sound] - other[sound]) <= scale).all()


def function(x: Any, p: Any) -> dict[str, Any]:
    """Smooth where it is tested, with every operation that has a slope."""
    a, b, c = x
    length = np.sqrt((x * x).sum() + 1.0)
    y = where(a > 0.0, np.exp(-a) / p[0], np.log(length) * b) + maximum(a, minimum(b, c)) + abs(c) * np.tanh(b)
    return {"y": [y, y * length - clip(a, -0.5, 0.5)], "z": [a**3 / (1.0 + b**2), 1.0, a > b]}


def test_compiled_gradients_match_finite_differences() -> None:
    sizes = {"x": 3, "p": 1}
    forward, reverse = Kernel(function, sizes), Kernel(function, sizes, ("x", "p"))
    assert reverse.inputs == {**sizes, GRADIENT + "y": 2, GRADIENT + "z": 3}
    assert reverse.outputs == {GRADIENT + "x": 3, GRADIENT + "p": 1}
    rng = np.random.default_rng(0)
    arrays = {name: zeros(rows, 300) for name, rows in {**reverse.inputs, **reverse.outputs, **forward.outputs}.items()}
    # away from the kinks
    signs = rng.choice([-1.0, 1.0], size=(3, 300))
    arrays["x"][:] = signs * (np.array([[0.6], [1.6], [2.6]]) + 0.8 * rng.random((3, 300)))
    arrays["p"][:] = rng.uniform(1, 2, (1, 300))
    for name in ("y", "z"):
        arrays[GRADIENT + name][:] = rng.normal(size=arrays[GRADIENT + name].shape)
    reverse(arrays)

    def objective() -> Any:
        forward(arrays)
        return sum((arrays[n].astype(float) * arrays[GRADIENT + n]).sum(axis=0) for n in ("y", "z"))

    for name in ("x", "p"):
        for row in arrays[name]:
            kept, step = row.copy(), np.float32(2.0**-9)
            row[:] = kept + step
            above = objective()
            row[:] = kept - step
            below = objective()
            row[:] = kept
            index = [np.shares_memory(row, other) for other in arrays[name]].index(True)
            np.testing.assert_allclose(
                arrays[GRADIENT + name][index], (above - below) / (2 * step), rtol=2e-3, atol=4e-3, err_msg=name
            )


def slope(of: Any, at: float) -> float:
    kernel = Kernel(lambda x: {"y": [of(x[0])]}, {"x": 1}, ("x",))
    arrays = {name: zeros(1, 16) for name in (*kernel.inputs, *kernel.outputs)}
    arrays["x"][:], arrays[GRADIENT + "y"][:] = at, 1.0
    kernel(arrays)
    return float(arrays[GRADIENT + "x"][0, 0])


@pytest.mark.parametrize(
    ("of", "at", "wanted"),
    [
        (lambda x: minimum(x, 1.0), 0.9, 1.0),
        (lambda x: minimum(x, 1.0), 1.1, 0.0),
        (lambda x: minimum(x, 1.0), 1.0, 1.0),
        (lambda x: maximum(0.0, x), 0.0, 1.0),
        (lambda x: minimum(3.0 * x, 2.0 * x), 0.0, 3.0),
        (lambda x: minimum(2.0 * x, 3.0 * x), 0.0, 2.0),
        (lambda x: clip(x, -1.0, 1.0), -1.0, 1.0),
        (lambda x: clip(x, -1.0, 1.0), 1.0, 1.0),
        (lambda x: clip(x, -1.0, 1.0), 1.01, 0.0),
        (lambda x: where(x > 1.0, 5.0 * x, 7.0 * x), 1.0, 7.0),
        (lambda x: where(x > 1.0, 5.0 * x, 7.0 * x), 1.1, 5.0),
        (lambda x: where(x > 0.0, np.sqrt(maximum(x, 1e-12)), 0.0), -1.0, 0.0),
        (lambda x: np.abs(np.array([x]))[0], 0.0, 1.0),
        (lambda x: x.floor() * x, 2.5, 2.0),
        (lambda x: (x > 0.0) * x, 2.5, 1.0),
        (lambda x: x * 0.0 + 3.0, 2.5, 0.0),
    ],
)
def test_at_a_kink_the_slope_is_that_of_the_branch_taken(of: Any, at: float, wanted: float) -> None:
    assert slope(of, at) == wanted


def test_an_expression_that_is_given_twice_gathers_both_gradients() -> None:
    kernel = Kernel(lambda x: {"y": [2.0 * x[0], 2.0 * x[0]], "z": [x[0]]}, {"x": 1}, ("x",))
    arrays = {name: zeros(rows, 16) for name, rows in {**kernel.inputs, **kernel.outputs}.items()}
    arrays[GRADIENT + "y"][:] = [[3.0], [5.0]]
    arrays[GRADIENT + "z"][:] = 7.0
    kernel(arrays)
    assert (arrays[GRADIENT + "x"] == 2 * (3 + 5) + 7).all()


def test_only_inputs_can_be_wanted() -> None:
    with pytest.raises(ValueError, match=r"\['y'\] are no inputs; inputs: \['x'\]"):
        Kernel(lambda x: {"y": x}, {"x": 1}, ("y",))
