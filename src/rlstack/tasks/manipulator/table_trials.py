"""Trials of instructed tasks on a table: several blocks, a sentence, and where all of them stand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.tasks.manipulator.trials import ArmTrials


def beside(number: int) -> str:
    """Return the name in the scene of a block beside the object, counted from 0."""
    return f"block_{number + 1}"


@dataclass(frozen=True)
class TableTrials(ArmTrials):
    """Initial conditions of N episodes with M blocks; the first one is the instructed one, which is the object.

    The other blocks have its mass and friction.

    Args:
        instruction: (N, 128) uint8, see :mod:`rlstack.interfaces.instruction`.
        colour: (N, M, 3) colours, 0 to 1.
        beside_position: (N, M - 1, 3) m of the other blocks.
        beside_yaw: (N, M - 1) rad.
        beside_half: (N, M - 1, 3) m.
    """

    instruction: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, INSTRUCTION_BYTES), np.uint8))
    colour: Array = field(default_factory=lambda: np.empty((0, 1, 3)))
    beside_position: Array = field(default_factory=lambda: np.empty((0, 0, 3)))
    beside_yaw: Array = field(default_factory=lambda: np.empty((0, 0)))
    beside_half: Array = field(default_factory=lambda: np.empty((0, 0, 3)))


def from_segment(point: Array, start: Array, end: Array) -> Array:
    """Return the distances (n, k), seen from above, of points (n, k, 3) from segments, (n, 3) to (n, 3)."""
    along = (end - start)[:, None, :2]
    share = ((point[..., :2] - start[:, None, :2]) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-12)
    nearest = start[:, None, :2] + np.clip(share, 0.0, 1.0)[..., None] * along
    return np.asarray(np.linalg.norm(point[..., :2] - nearest, axis=-1))
