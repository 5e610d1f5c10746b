"""What an operator that is written as several others is made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.policies.c99.operators.operator import Inputs, Unsupported
from rlstack.policies.c99.program import View

Pads = list[tuple[int, int]]
"""Elements before and after, for each axis."""


class Builder(Protocol):
    """Adds steps to a program."""

    def step(self, operator: str, *inputs: View | None, **attributes: Any) -> View:
        """Add a step of a known operator, and return its output.

        Raises:
            Unsupported: The operator cannot be used on these inputs.
        """

    def constant(self, values: NDArray[Any]) -> View:
        """Return a constant tensor of float32, int64 or bool."""


class Composition(Protocol):
    """Writes one operator as others."""

    def __call__(self, build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
        """Return the outputs, None for one that cannot be had.

        Raises:
            Unsupported: The operator is used in a way that cannot be written as C.
        """


def text(value: bytes | str) -> str:
    """Return an attribute as text."""
    return value.decode() if isinstance(value, bytes) else value


def only(attributes: Mapping[str, Any], **allowed: Any) -> None:
    """Check attributes that may have one value alone.

    Raises:
        Unsupported: One has another.
    """
    for name, value in allowed.items():
        given = attributes.get(name, value)
        given = text(given) if isinstance(given, bytes) else given
        if given != value:
            raise Unsupported(f"with {name} {given}")


def padded(build: Builder, view: View, pads: Pads, fill: float) -> View:
    """Return a tensor of float32 with elements before and after."""
    if not any(before or after for before, after in pads):
        return view
    return build.step("Border", view, build.constant(np.array(fill, np.float32)), pads=pads)
