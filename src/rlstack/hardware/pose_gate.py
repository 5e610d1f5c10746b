"""Poses from outside, such as motion capture: which of them an estimator may be given."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array

_NORM_ERROR = 0.02


class PoseGate:
    """Keeps back poses that are not finite, no rotation, or not newer than the last, and counts them."""

    def __init__(self) -> None:
        self._last_s = -np.inf
        self.refused = 0

    def admits(self, time_s: float, position: Array, orientation: Array) -> bool:
        """Return whether a pose may be passed on.

        Args:
            time_s: When it was measured, s.
            position: (3,) m.
            orientation: (4,) xyzw.
        """
        turned = abs(float(np.linalg.norm(orientation)) - 1.0) < _NORM_ERROR
        if turned and np.isfinite(position).all() and self._last_s < time_s < np.inf:
            self._last_s = time_s
            return True
        self.refused += 1
        return False
