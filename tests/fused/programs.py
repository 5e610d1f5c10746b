"""Random programs over all operations, and what float32 may make of them.

A program runs on anything with arithmetic: on expressions, on torch tensors, and on :class:`Bounded` numbers, which
carry how far a float32 result may be off and whether it may take another branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

EPSILON = 2.0**-23

CONSTANTS = (0.0, 1.0, -1.0, 2.0, 0.5, -3.7, 0.1, 12.0)
ARITHMETIC = ("add", "sub", "mul", "div", "min", "max", "neg", "sqrt", "exp", "log", "abs", "floor", "select")
CONDITIONS = ("lt", "le", "gt", "ge", "eq", "and", "or", "not")

Step = tuple[str, tuple[int, int, int], tuple[str, str]]


def programs(inputs: int = 3, longest: int = 25) -> st.SearchStrategy[list[Step]]:
    """Draw steps; each takes any of what was there before it and, for a select, a condition made of two comparisons."""
    return st.lists(
        st.tuples(
            st.sampled_from(ARITHMETIC),
            st.tuples(*[st.integers(0, 1000)] * 3),
            st.tuples(st.sampled_from(CONDITIONS), st.sampled_from(CONDITIONS[:4])),
        ),
        min_size=1,
        max_size=longest,
    )


def run(steps: Sequence[Step], inputs: Sequence[Any], apply: Callable[..., Any]) -> list[Any]:
    """Return everything that a program computes."""
    values = [*inputs, *CONSTANTS]
    made = []
    for op, places, (condition, other) in steps:
        a, b, c = (values[-1 - place % len(values)] for place in places)
        if op == "select":
            holds = apply(other, a, b)
            if condition in ("and", "or"):
                holds = apply(condition, holds, apply("lt", b, c))
            elif condition == "not":
                holds = apply("not", holds)
            elif condition == "eq":
                holds = apply("eq", apply("floor", a), apply("floor", b))
            else:
                holds = apply(condition, a, c)
            result = apply("select", holds, b, c)
        else:
            result = apply(op, *((a, b) if op in ("add", "sub", "mul", "div", "min", "max") else (a,)))
        values.append(result)
        made.append(result)
    return made


@dataclass
class Bounded:
    """A number, how far a float32 computation may be from it, and whether that is known."""

    value: Any
    error: Any
    sure: Any


def exact(value: Any) -> Bounded:
    """Return a float32 number that was given."""
    value = np.asarray(value, dtype=np.float64)
    return Bounded(value, np.abs(value) * EPSILON, np.ones(value.shape, dtype=bool))


def bounded(op: str, *given: Any) -> Bounded:
    """Apply an operation to :class:`Bounded` numbers."""
    x = [g if isinstance(g, Bounded) else exact(g) for g in given]
    sure = np.logical_and.reduce(np.broadcast_arrays(*(g.sure for g in x)))
    with np.errstate(all="ignore"):
        value, error, known = _bounded(op, x)
        sure = sure & known & np.isfinite(error)
        if value.dtype != bool:
            size = np.abs(value)
            sure = sure & ((size < 1e15) & ((size > 1e-15) | (size == 0.0)))
    return Bounded(value, error, sure)


def _bounded(op: str, x: Sequence[Bounded]) -> tuple[Any, Any, Any]:
    a, ea = x[0].value, x[0].error
    b, eb = (x[1].value, x[1].error) if len(x) > 1 else (a, ea)
    yes = np.True_
    if op == "select":
        return np.where(a, b, x[2].value), np.where(a, eb, x[2].error), yes
    if op in ("and", "or", "not"):
        return {"and": a & b, "or": a | b, "not": ~a}[op], np.zeros(a.shape), yes
    if op in ("lt", "le", "gt", "ge", "eq"):
        value = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b}[op]
        return value, np.zeros(value.shape), (np.abs(a - b) > ea + eb) | (ea + eb == 0.0)
    if op in ("add", "sub"):
        value = a + b if op == "add" else a - b
        return value, ea + eb + EPSILON * (np.abs(a) + np.abs(b)), yes
    if op == "mul":
        value = a * b
        return value, np.abs(a) * eb + np.abs(b) * ea + ea * eb + EPSILON * np.abs(value), yes
    if op == "div":
        value, least = a / b, np.abs(b) - eb
        return value, (ea + np.abs(value) * eb) / least + 4 * EPSILON * np.abs(value), least > 0.0
    if op in ("min", "max"):
        return np.minimum(a, b) if op == "min" else np.maximum(a, b), np.maximum(ea, eb), yes
    if op == "sqrt":
        least = a - ea
        return np.sqrt(a), ea / np.sqrt(least) + 4 * EPSILON * np.sqrt(a), least > 0.0
    if op == "exp":
        value = np.exp(a)
        return value, value * np.expm1(ea) + 4 * EPSILON * value, yes
    if op == "log":
        least = a - ea
        return np.log(a), ea / least + 4 * EPSILON * (np.abs(np.log(a)) + EPSILON), least > 0.0
    if op == "floor":
        return np.floor(a), np.zeros(a.shape), np.floor(a - ea) == np.floor(a + ea)
    return {"neg": -a, "abs": np.abs(a)}[op], ea, yes
