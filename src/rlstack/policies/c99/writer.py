"""Lines of C, and loops over strided tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.policies.c99.program import BOOLEAN, FLOAT, INTEGER, Place, View

SCRATCH = {FLOAT: "f", INTEGER: "n", BOOLEAN: "b"}
"""Names of the scratch memory of each kind within the step function."""


def literal(value: Any, kind: str) -> str:
    """Return a number as C, a float with the digits that give the same float32."""
    return literals(np.array([value]), kind)[0]


def literals(values: NDArray[Any], kind: str) -> list[str]:
    """Return numbers as C, as :func:`literal` does."""
    if kind != FLOAT:
        return [str(int(value)) for value in values]
    return [_NOT_FINITE.get(text) or f"{text}f" for text in values.astype(np.float32).astype(str).tolist()]


_NOT_FINITE = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}


class Writer:
    """Collects indented lines."""

    def __init__(self, depth: int = 1) -> None:
        self.lines: list[str] = []
        self._depth = depth
        self._loops = 0

    def line(self, text: str) -> None:
        """Add one line."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Put what follows into braces."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def loop(self, count: int) -> Iterator[str]:
        """Loop ``count`` times and give the counter's name; once needs no loop and counts 0."""
        if count == 1:
            yield "0"
            return
        name = f"i{self._loops}"
        self._loops += 1
        with self.block(f"for (int {name} = 0; {name} < {count}; {name}++)"):
            yield name
        self._loops -= 1

    @contextmanager
    def loops(self, shape: Sequence[int], *strides: Sequence[int]) -> Iterator[list[str]]:
        """Loop over a shape and give each operand's offset from its start, in C.

        Axes that all operands step through evenly become one loop.
        """
        axes = [(n, [s[axis] for s in strides]) for axis, n in enumerate(shape) if n != 1]
        merged: list[tuple[int, list[int]]] = []
        for count, steps in axes:
            if merged and all(before == step * count for before, step in zip(merged[-1][1], steps)):
                merged[-1] = (merged[-1][0] * count, steps)
            else:
                merged.append((count, steps))
        yield from self._nest(merged, [""] * len(strides))

    def _nest(self, axes: list[tuple[int, list[int]]], terms: list[str]) -> Iterator[list[str]]:
        if not axes:
            yield terms
            return
        (count, steps), *rest = axes
        with self.loop(count) as counter:
            yield from self._nest(rest, [plus(term, times(step, counter)) for term, step in zip(terms, steps)])


def times(step: int, counter: str) -> str:
    """Return ``step * counter``, empty where it is 0."""
    if step == 0 or counter == "0":
        return ""
    return counter if step == 1 else f"{step} * {counter}"


def plus(*terms: str) -> str:
    """Return the sum of those terms that are not empty."""
    return " + ".join(term for term in terms if term)


def element(view: View, offset: str = "") -> str:
    """Return one element of a tensor, ``offset`` elements of its buffer beyond its first; a constant as a number."""
    buffer, start = view.buffer, view.start
    if buffer.values is not None and not offset:
        return literal(buffer.values.reshape(-1)[start], buffer.kind)
    if buffer.place is Place.SCRATCH:
        start += buffer.offset
        base = SCRATCH[buffer.kind]
    else:
        base = f"{'' if buffer.place is Place.CONSTANT else _OWNER[buffer.place]}{buffer.name}"
    return f"{base}[{plus(str(start) if start else '', offset) or '0'}]"


_OWNER = {Place.INPUT: "inputs->", Place.STATE: "state->"}
