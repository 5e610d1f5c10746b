"""A Gaussian process whose function drifts over time, for PB2: which settings improve a training most, by now.

Parker-Holder et al., "Provably Efficient Online Hyperparameter Optimization with Population-Based Bandits" (NeurIPS
2020, arXiv 2002.02518): a squared exponential kernel over the settings, times (1 - drift)^(|t - t'| / 2) over time
(Bogunovic et al., "Time-Varying Gaussian Process Bandit Optimization", arXiv 1601.06650), and an upper confidence bound
whose variance counts points that are being tried as if they were known (Desautels et al., JMLR 15, 2014).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from rlstack.arrays import Array

_LENGTHS = tuple(float(x) for x in np.geomspace(0.1, 2.0, 8))
"""Length scales that are tried; settings are between 0 and 1."""
_DRIFTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_NOISES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Variances of the noise that are tried, as shares of the function's."""
_MOST = 300
"""Points that are used at most, the latest ones: more take long, and say little by then."""


class DriftingProcess:
    """Predicts an improvement from settings and time.

    Its length scale, drift and noise are those of a grid under which the points are most probable; so it is the same
    wherever it is fitted.

    Args:
        settings: (n, k) between 0 and 1.
        times: (n,) of the same points, in order.
        improvements: (n,) there, of about unit variance.
    """

    def __init__(self, settings: Array, times: Array, improvements: Array) -> None:
        self._x, self._t = settings[-_MOST:], times[-_MOST:]
        self.count, y = len(self._x), improvements[-_MOST:]
        grid = itertools.product(_LENGTHS, _DRIFTS, _NOISES)
        self.length, self.drift, self.noise = max(grid, key=lambda one: self._evidence(y, *one))
        self._cholesky = self._factor(self._x, self._t)
        self._weights = self._solved(y)
        self.variance = max(float(y @ self._weights) / self.count, 1e-6)

    def upper_bound(self, settings: Array, time: float, tried: Array) -> Array:
        """Return (m,) upper confidence bounds.

        Args:
            settings: (m, k) that may be tried.
            time: When.
            tried: (p, k) that are being tried at that time.
        """
        now = np.full(len(settings), time)
        mean = self._kernel(settings, now, self._x, self._t) @ self._weights
        x, t = np.concatenate([self._x, tried]), np.concatenate([self._t, np.full(len(tried), time)])
        across = np.linalg.solve(self._factor(x, t), self._kernel(settings, now, x, t).T)
        left = np.clip(1.0 - (across**2).sum(axis=0), 0.0, None) * self.variance
        beta = 0.2 + max(0.0, math.log(0.4 * self.count))  # as in the authors' code
        return np.asarray(mean + np.sqrt(beta * left))

    def _kernel(self, x: Array, t: Array, others: Array, then: Array) -> Array:
        apart = ((x[:, None] - others[None]) ** 2).sum(axis=-1)
        ago = np.abs(t[:, None] - then[None])
        return np.asarray(np.exp(-0.5 * apart / self.length**2) * (1.0 - self.drift) ** (0.5 * ago))

    def _factor(self, x: Array, t: Array) -> Array:
        return np.asarray(np.linalg.cholesky(self._kernel(x, t, x, t) + self.noise * np.eye(len(x))))

    def _solved(self, y: Array) -> Array:
        return np.asarray(np.linalg.solve(self._cholesky.T, np.linalg.solve(self._cholesky, y)))

    def _evidence(self, y: Array, length: float, drift: float, noise: float) -> float:
        """Return the logarithm of the points' probability, but for a constant, with the variance that suits best."""
        self.length, self.drift, self.noise = length, drift, noise
        self._cholesky = self._factor(self._x, self._t)
        variance = max(float(y @ self._solved(y)) / len(y), 1e-6)
        return -0.5 * len(y) * math.log(variance) - float(np.log(np.diag(self._cholesky)).sum())
