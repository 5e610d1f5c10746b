"""Statistics over few seeds, as Agarwal et al. define them (NeurIPS 2021, arXiv 2108.13264).

Scores are one array (runs,) for each task. Intervals are percentiles of a stratified bootstrap: runs are drawn with
replacement within each task, so that every task keeps its share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array

RESAMPLES = 10_000
LEVEL = 0.95
_SEED = 0
"""Of the bootstrap: the same runs give the same interval."""

Scores = Sequence[Array]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval, whose ends are the value itself if there is one run alone."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


def interquartile_mean(scores: Scores) -> Estimate:
    """Return the mean of the middle half of all scores, those of all tasks together."""
    return _estimate([scores], lambda drawn: _interquartile(np.concatenate(drawn[0], axis=1)))


def probability_of_improvement(scores: Scores, others: Scores) -> Estimate:
    """Return the probability that a run has a higher score than another group's on the same task, averaged over tasks.

    Equal scores count as half. Both have one array for each task, in the same order.
    """
    return _estimate([scores, others], lambda drawn: np.mean([_higher(a, b) for a, b in zip(*drawn)], axis=0))


def performance_profile(scores: Scores, values: Array) -> list[Estimate]:
    """Return the share of runs whose score is above each of ``values``, averaged over tasks.

    It is the run-score distribution: its area says what the interquartile mean does, its shape how sure a run is to
    reach a score.
    """

    def above(drawn: list[list[Array]]) -> Array:
        shares = [[(own > value).mean(axis=1) for own in drawn[0]] for value in values]
        return np.mean(shares, axis=1).T

    return _estimates([scores], above)


def _interquartile(scores: Array) -> Array:
    """Return (resamples,) of (resamples, runs)."""
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(scores, 0.25, axis=1))


def _higher(scores: Array, others: Array) -> Array:
    """Return (resamples,) the share of pairs in which the first score is higher."""
    ours, theirs = scores[:, :, None], others[:, None, :]
    return np.asarray(((ours > theirs) + 0.5 * (ours == theirs)).mean(axis=(1, 2)))


def _estimate(groups: Sequence[Scores], statistic: Callable[[list[list[Array]]], Array]) -> Estimate:
    return _estimates(groups, lambda drawn: statistic(drawn)[:, None])[0]


def _estimates(groups: Sequence[Scores], statistic: Callable[[list[list[Array]]], Array]) -> list[Estimate]:
    """Return the estimates of a statistic that gives (resamples, n) numbers."""
    rng = np.random.default_rng(_SEED)
    whole = statistic([[np.asarray(one, dtype=float)[None] for one in scores] for scores in groups])
    drawn = statistic([[_drawn(rng, np.asarray(one, dtype=float)) for one in scores] for scores in groups])
    low, high = np.quantile(drawn, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    return [Estimate(float(value), float(a), float(b)) for value, a, b in zip(whole[0], low, high)]


def _drawn(rng: np.random.Generator, scores: Array) -> Array:
    """Return (resamples, runs) drawn with replacement."""
    return scores[rng.integers(0, len(scores), (RESAMPLES, len(scores)))]
