"""Operators that are written as several others, on views of their inputs."""

from __future__ import annotations

from rlstack.policies.c99.composed import normalisation, rearrangement, recurrent, windows
from rlstack.policies.c99.composed.composition import Composition

COMPOSED: dict[str, Composition] = {
    **normalisation.COMPOSED,
    **rearrangement.COMPOSED,
    **recurrent.COMPOSED,
    **windows.COMPOSED,
}
"""By ONNX's name."""
