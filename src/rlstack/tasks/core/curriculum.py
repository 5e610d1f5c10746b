"""Trials drawn by success: those of a kind that succeeds about half the time teach most (VLA-RL, arXiv 2505.18719)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

CANDIDATES = 3
"""Trials that are drawn for each one that is kept."""

_FLOOR = 0.05
"""Least weight of a kind; the largest is a quarter more."""
_SHARE = 0.1
"""Share of the newest trial in a kind's success rate."""


class SuccessCurriculum:
    """Success rates of kinds of trials, and choices by them, for N robots.

    Args:
        kinds: Number of kinds.
        count: N.
    """

    def __init__(self, kinds: int, count: int) -> None:
        self.success = np.full(kinds, 0.5)
        """Success rate of each kind."""
        self.kind = np.zeros(count, np.intp)
        """(N,) kinds of the present trials."""

    def choose(self, kinds: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the indices (n,) of trials to keep, one of each :data:`CANDIDATES` neighbouring ones.

        Args:
            kinds: (n * CANDIDATES,) kinds of the trials.
            rng: Random generator.
        """
        rate = self.success[kinds]
        weight = (_FLOOR + rate * (1.0 - rate)).reshape(-1, CANDIDATES).cumsum(axis=1)
        drawn = (rng.random((len(weight), 1)) * weight[:, -1:] > weight[:, :-1]).sum(axis=1)
        return np.asarray(np.arange(len(weight)) * CANDIDATES + drawn)

    def record(self, index: NDArray[np.intp], success: NDArray[np.bool_]) -> None:
        """Record the success (n,) of the trials of robots (n), which ended."""
        for kind, won in zip(self.kind[index], success):
            self.success[kind] += _SHARE * (float(won) - self.success[kind])

    def state_dict(self) -> dict[str, Any]:
        """Return the rates and the present kinds."""
        return {"success": torch.from_numpy(self.success.copy()), "kind": torch.from_numpy(self.kind.copy())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.success[:], self.kind[:] = state["success"].numpy(), state["kind"].numpy()
