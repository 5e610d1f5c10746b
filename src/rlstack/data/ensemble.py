"""A small ensemble that imitates demonstrations: what judges others by :mod:`rlstack.data.compatibility`.

Each member is a ridge regression on random Fourier features (Rahimi and Recht, "Random Features for Large-Scale Kernel
Machines", 2007) of its own, learnt from a resampling of the episodes of its own (bagging, Breiman 1996). So members
agree where there was much to learn from, and differ where there was nothing. It needs NumPy alone and learns in
tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError


class ImitationEnsemble:
    """Learns at once, and says what each member would do.

    Args:
        seen: Of each episode, what was seen (frames, columns).
        done: Of each episode, what was done (frames, elements).
        members: How many there are, 2 or more.
        features: Of each member.
        ridge: How much large weights cost.
        seed: Of features and resampling.

    Raises:
        UserError: There are no two episodes to learn from.
    """

    def __init__(
        self,
        seen: Sequence[np.ndarray],
        done: Sequence[np.ndarray],
        *,
        members: int = 5,
        features: int = 200,
        ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        if len(seen) < 2 or len(seen) != len(done):
            raise UserError(f"{len(seen)} episodes are too few to learn from: two or more are needed.")
        rng = np.random.default_rng(seed)
        inputs = np.concatenate([np.asarray(frames, dtype=float) for frames in seen])
        self._mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
        self._scale = np.where(spread > 1e-9, spread, 1.0)  # a column that never changes tells nothing
        columns = inputs.shape[1]
        self._members: list[tuple[Array, Array, Array]] = []
        for _ in range(members):
            # as a Gaussian kernel of the width sqrt(columns): frames that differ by one deviation everywhere are near
            frequency = rng.normal(size=(columns, features)) / np.sqrt(columns)
            phase = rng.uniform(0.0, 2.0 * np.pi, features)
            chosen = rng.integers(0, len(seen), len(seen))
            known = self._raised(np.concatenate([seen[k] for k in chosen]), frequency, phase)
            wanted = np.concatenate([np.asarray(done[k], dtype=float) for k in chosen])
            square = known.T @ known + ridge * np.eye(known.shape[1])
            self._members.append((frequency, phase, np.linalg.solve(square, known.T @ wanted)))

    def __call__(self, seen: np.ndarray) -> Array:
        """Return what each member would do (members, frames, elements) where this is seen (frames, columns)."""
        return np.stack([self._raised(seen, frequency, phase) @ weights for frequency, phase, weights in self._members])

    def _raised(self, seen: np.ndarray, frequency: Array, phase: Array) -> Array:
        scaled = (np.asarray(seen, dtype=float) - self._mean) / self._scale
        waves = np.sqrt(2.0 / len(phase)) * np.cos(scaled @ frequency + phase)
        return np.concatenate([waves, scaled / np.sqrt(scaled.shape[1]), np.ones((len(scaled), 1))], axis=1)
