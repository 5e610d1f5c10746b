"""The operators that can be written as C: of each its output's shape and type, its code and its multiply-adds."""

from __future__ import annotations

from rlstack.policies.c99.operators import elementwise, products, reductions, selection
from rlstack.policies.c99.operators.operator import Operator

OPERATORS: dict[str, Operator] = {
    **elementwise.OPERATORS,
    **reductions.OPERATORS,
    **products.OPERATORS,
    **selection.OPERATORS,
}
"""By ONNX's name; operators that only rearrange elements are in :mod:`rlstack.policies.c99.layout`."""

INTERNAL = frozenset(["Border", "Contract", "Copy", "TopPlaces"])
"""Those that ONNX does not have."""
