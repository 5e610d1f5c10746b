"""White noise in measurements of a smooth motion, and how sure it is: from differences of successive errors.

A difference of order n removes what is smooth over n + 1 measurements, the motion or what a model leaves of it, and
multiplies the variance of white noise by the sum of its squared binomials. Two orders that agree, and a distribution
that is normal, show that nothing but white noise is left.
"""

from __future__ import annotations

from math import comb

import numpy as np

from rlstack.arrays import Array

_ORDERS = (2, 3)
_QUANTILES = {0.5: 1.4826, 0.25: 3.1384}
"""Standard deviation of a normal distribution over quantiles of its absolute values; jolts raise the higher."""
_SPREAD = 1.166
"""Relative standard deviation of that estimate times the root of the number of values (Hampel, 1974)."""


def white_noise(pieces: Array) -> tuple[float, float]:
    """Return the standard deviation of the white noise and the standard deviation of its logarithm.

    The second one contains by how much orders and quantiles disagree; it is infinite where nothing is told.

    Args:
        pieces: (S, K, width) successive measurements, or errors of a prediction; NaN: none.
    """
    found: list[float] = []
    count = 0
    for order in _ORDERS:
        steps = np.diff(pieces, n=order, axis=1)
        steps = np.abs(steps[np.isfinite(steps)])
        if not (count := len(steps)):
            return 0.0, np.inf
        scale = float(np.sqrt(comb(2 * order, order)))
        found += [factor * float(np.quantile(steps, share)) / scale for share, factor in _QUANTILES.items()]
    if min(found) <= 0.0:
        return 0.0, np.inf
    # successive differences are correlated: by that many the values count less (the sum of the squared correlations)
    order = _ORDERS[-1]
    alike = 2.0 * sum((comb(2 * order, order - k) / comb(2 * order, order)) ** 2 for k in range(1, order + 1)) + 1.0
    apart = np.log(max(found) / min(found))
    return found[len(_QUANTILES)], float(np.hypot(_SPREAD * np.sqrt(alike / count), apart))


def calm(pieces: Array, share: float = 0.25) -> Array:
    """Return the share of pieces (S, K, width) in which the signal moves least, by the means of their thirds."""
    third = max(pieces.shape[1] // 3, 1)
    moved = np.linalg.norm(pieces[:, -third:].mean(axis=1) - pieces[:, :third].mean(axis=1), axis=-1)
    return pieces[np.argsort(moved)[: max(round(share * len(pieces)), 1)]]
