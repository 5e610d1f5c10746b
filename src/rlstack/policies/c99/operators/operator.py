"""What the table of operators holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlstack.policies.c99.program import Step, View
from rlstack.policies.c99.writer import Writer

Shape = tuple[int, ...]
Inputs = Sequence[View | None]


class Unsupported(Exception):
    """An operator is used in a way that cannot be written as C; the text says which."""


def no_products(step: Step) -> int:
    """Return the multiply-adds of an operator that is no matrix product."""
    return 0


@dataclass(frozen=True)
class Operator:
    """One operator of ONNX."""

    output: Callable[[Inputs, Mapping[str, Any]], tuple[Shape, str]]
    """Shape and C type of the output; raises :class:`Unsupported`."""
    emit: Callable[[Writer, Step], None]
    """Writes the code."""
    multiply_adds: Callable[[Step], int] = no_products


def required(inputs: Inputs, number: int) -> View:
    """Return an input that must be there."""
    view = inputs[number] if number < len(inputs) else None
    if view is None:
        raise Unsupported(f"without its input {number}")
    return view


def numbers(inputs: Inputs, number: int) -> list[int] | None:
    """Return an input of integers that must be constant, such as axes; None if it is left out.

    Raises:
        Unsupported: It is computed.
    """
    view = inputs[number] if number < len(inputs) else None
    if view is None:
        return None
    if view.constant is None:
        raise Unsupported(f"with an input {number} that is not constant")
    return [int(value) for value in view.constant.reshape(-1)]
