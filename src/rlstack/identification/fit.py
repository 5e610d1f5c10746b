"""Robust nonlinear least squares over short segments with free initial states, and what its estimate is worth.

Multiple shooting: a recording is cut into segments of a fraction of a second, and each is predicted from an initial
state of its own, which is estimated with the parameters (Bock, "Recent Advances in Parameter Identification Techniques
for O.D.E.", 1983). So an unstable motion stays near the recording, and a gap or a disturbance spoils one segment only.
Each iteration eliminates the initial states segment by segment, which leaves normal equations of the parameters alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError

HUBER = 3.0
"""Residuals beyond this many standard deviations count linearly."""

MOST_ITERATIONS = 40
_SETTLED = 0.01
"""Iterations end where the logarithm of the likelihood gains less than this: a seventh of a standard deviation."""
_STILL = 1e-4
"""Iterations also end where no parameter moves further than this, in standard deviations of its wide prior: where
measurements are without noise, the likelihood gains for ever by digits that nobody needs."""
_TOGETHER = 4
"""First iterations, in which the channels' noise keeps its proportions and every segment counts: a channel that is far
from fitting would otherwise pass for a noisy sensor, and the motion that tells most for an outlier."""

_LEAST_NOISE = 0.01
"""Least noise of a channel, as a share of the first guess. A simulator without noise would else be fitted to its last
digit, in iterations that never settle."""
_FIRST_DAMPING = 1e-3
_OUTLYING = 5.0
"""A segment whose mean squared residual is this many times the median is left out: a push, a contact, a lost track."""


@dataclass(frozen=True)
class Linearised:
    """The residuals of S segments, R rows each, and their derivatives.

    Args:
        residual: (S, R) predicted minus measured, in the units of the channels; NaN: not measured.
        of_state: (S, R, n) by the segments' initial states.
        of_parameters: (S, R, P) by the parameters.
    """

    residual: Array
    of_state: Array
    of_parameters: Array


class Problem(Protocol):
    """What is fitted: a model, a recording in segments, and parameters without units of order one (see ``prior``)."""

    channels: NDArray[np.intp]
    """(R,) which of the sensors' channels a row is of; all rows of a channel have the same noise."""
    noise: Array
    """(channels,) first guess of the standard deviations, in the channels' units."""
    prior: Array
    """(P,) standard deviation of each parameter about its start; wide, so that it only keeps what nothing tells."""
    least: Array
    """(P,) smallest value of each parameter, or -inf."""

    def linearise(self, parameters: Array, states: Array) -> Linearised:
        """Return residuals and derivatives at parameters (P,) and initial states (S, n)."""

    def residual(self, parameters: Array, states: Array) -> Array:
        """Return the residuals (S, R) alone."""

    def moved(self, states: Array, change: Array) -> Array:
        """Return initial states (S, ...) after a change (S, n) in the directions of ``of_state``."""


@dataclass(frozen=True)
class Fit:
    """The estimate.

    Args:
        parameters: (P,) estimated.
        states: Initial states of the segments.
        covariance: (P, P) of the parameters; it holds where residuals are correlated in time or between channels.
        noise: (channels,) standard deviations.
        kept: (S,) segments that counted.
        iterations: Number of iterations.
        correlation: (channels,) correlation of successive residuals of a channel: 0 where they are white.
    """

    parameters: Array
    states: Array
    covariance: Array
    noise: Array
    kept: NDArray[np.bool_]
    iterations: int
    correlation: Array

    @property
    def deviation(self) -> Array:
        """(P,) standard deviations."""
        return np.sqrt(np.diag(self.covariance))


def fit(
    problem: Problem, start: Array, states: Array, centre: Array, progress: Callable[[int], None] | None = None
) -> Fit:
    """Estimate parameters and initial states.

    Args:
        problem: What is fitted.
        start: (P,) where the parameters begin.
        states: (S, ...) first guess of the initial states.
        centre: (P,) centre of the parameters' wide prior.
        progress: Called with the number of each iteration.

    Raises:
        UserError: The recording and the robot's model have nothing in common: the residuals are not finite.
    """
    parameters, noise = np.maximum(start, problem.least), problem.noise.copy()
    kept = np.ones(len(states), dtype=bool)
    damping, iterations, calm = _FIRST_DAMPING, 0, 0
    at = problem.linearise(parameters, states)
    _require_finite(at.residual)
    for iterations in range(1, MOST_ITERATIONS + 1):
        if progress is not None:
            progress(iterations)
        noise = _noise(problem, at, kept, noise)
        if iterations <= _TOGETHER:
            noise = problem.noise * float(np.max(noise / problem.noise))
        else:
            kept = _ordinary(problem, at.residual, noise)
        weight = _weights(problem, at.residual, noise, kept)
        before = _cost(problem, at.residual, noise, kept, parameters - centre)
        while True:
            change, moves = _step(problem, at, weight, parameters, centre, damping)
            tried, tried_states = np.maximum(parameters + change, problem.least), problem.moved(states, moves)
            residual = problem.residual(tried, tried_states)
            cost = _cost(problem, residual, noise, kept, tried - centre)
            if np.isfinite(cost) and cost <= before * (1.0 + 1e-9):
                break
            damping *= 10.0
            if damping > 1e8:
                tried, tried_states, cost = parameters, states, before
                break
        moved = float(np.max(np.abs(tried - parameters) / problem.prior))
        parameters, states, damping = tried, tried_states, max(0.1 * damping, 1e-9)
        at = problem.linearise(parameters, states)
        calm = calm + 1 if before - cost < _SETTLED or moved < _STILL else 0
        if calm >= 2:  # the noise and the weights have settled as well
            break
    noise = _noise(problem, at, kept, noise)
    spread = covariance(problem, at, noise, kept)
    return Fit(parameters, states, spread, noise, kept, iterations, _correlation(problem, at.residual, kept))


def _require_finite(residual: Array) -> None:
    if not np.isfinite(np.where(np.isnan(residual), 0.0, residual)).all():
        raise UserError(
            "The robot's model diverges under the recorded commands within a segment: is it this robot's recording,"
            " and does --robot name a robot of its size?"
        )


def _noise(problem: Problem, at: Linearised, kept: NDArray[np.bool_], before: Array) -> Array:
    """Return the channels' standard deviations, from the median, which a few outliers do not move."""
    noise, states = before.copy(), at.of_state.shape[2]
    share = np.sqrt(len(problem.channels) / max(len(problem.channels) - states, 1))
    for channel in range(len(noise)):
        found = np.abs(at.residual[kept][:, problem.channels == channel])
        found = found[np.isfinite(found)]
        if found.size:
            least = _LEAST_NOISE * float(problem.noise[channel])
            noise[channel] = max(1.4826 * share * float(np.median(found)), least)
    return noise


def _ordinary(problem: Problem, residual: Array, noise: Array) -> NDArray[np.bool_]:
    scaled = np.nan_to_num(residual / noise[problem.channels])
    mean = np.mean(np.minimum(scaled**2, 1e6), axis=1)
    return np.asarray(mean <= _OUTLYING * max(float(np.median(mean)), 1.0))


def _weights(problem: Problem, residual: Array, noise: Array, kept: NDArray[np.bool_]) -> Array:
    """Return the weights (S, R) of squared residuals, Huber's."""
    sigma = noise[problem.channels]
    size = np.abs(residual) / sigma
    weight = np.where(np.isnan(size), 0.0, 1.0 / np.maximum(size / HUBER, 1.0)) / sigma**2
    return np.asarray(weight * kept[:, None])


def _cost(problem: Problem, residual: Array, noise: Array, kept: NDArray[np.bool_], departure: Array) -> float:
    size = np.abs(residual[kept]) / noise[problem.channels]
    size = size[~np.isnan(size)]
    rows = np.where(size <= HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER))
    return float(rows.sum() + 0.5 * np.sum((departure / problem.prior) ** 2))


def _reduced(problem: Problem, at: Linearised, weight: Array, damping: float) -> tuple[Array, ...]:
    """Return the blocks of the normal equations, the initial states' inverted."""
    residual = np.nan_to_num(at.residual)
    of_state, of_parameters = np.nan_to_num(at.of_state), np.nan_to_num(at.of_parameters)
    weighted = weight[..., None] * of_state
    block = np.einsum("srn,srm->snm", weighted, of_state)
    count = block.shape[1]
    diagonal = np.einsum("snn->sn", block)
    block[:, np.arange(count), np.arange(count)] = diagonal * (1.0 + damping) + 1e-12 * (1.0 + diagonal)
    across = np.einsum("srn,srp->snp", weighted, of_parameters)
    pull = np.einsum("srn,sr->sn", weighted, residual)
    inverse = np.linalg.inv(block)
    return inverse, across, pull, residual, of_parameters


def _step(
    problem: Problem, at: Linearised, weight: Array, parameters: Array, centre: Array, damping: float
) -> tuple[Array, Array]:
    """Return the changes of parameters, without those that lead below their least values, and of initial states."""
    inverse, across, pull, residual, of_parameters = _reduced(problem, at, weight, damping)
    weighted = weight[..., None] * of_parameters
    full = np.einsum("srp,srq->pq", weighted, of_parameters)
    gradient = np.einsum("srp,sr->p", weighted, residual)
    eliminated = np.einsum("snm,smp->snp", inverse, across)
    hessian = full - np.einsum("snp,snq->pq", across, eliminated) + np.diag(1.0 / problem.prior**2)
    right = gradient - np.einsum("snp,sn->p", eliminated, pull) + (parameters - centre) / problem.prior**2
    damped = hessian + damping * np.diag(np.diag(hessian))
    change, free = np.zeros(len(right)), np.ones(len(right), dtype=bool)
    while True:
        change[free] = -np.linalg.solve(damped[np.ix_(free, free)], right[free])
        beyond = (parameters <= problem.least) & (change < 0.0)
        if not beyond.any():
            break
        change[beyond], free = 0.0, free & ~beyond
    moves = -np.einsum("snm,sm->sn", inverse, pull) - np.einsum("snp,p->sn", eliminated, change)
    return change, moves


def covariance(problem: Problem, at: Linearised, noise: Array, kept: NDArray[np.bool_]) -> Array:
    """Return the parameters' covariance (P, P): for each, the larger one of two.

    The normal matrix' inverse is right where residuals are white. The other is estimated from how much the segments
    disagree (clustered "sandwich", White 1980, Liang and Zeger 1986), so it holds for residuals that are correlated
    within a segment, as those of filtered odometry, or of a model that is not quite the robot.

    Args:
        problem: The problem.
        at: Its residuals at the estimate.
        noise: (channels,) standard deviations.
        kept: (S,) segments that count.
    """
    weight = _weights(problem, at.residual, noise, kept)
    inverse, across, pull, residual, of_parameters = _reduced(problem, at, weight, 0.0)
    weighted = weight[..., None] * of_parameters
    eliminated = np.einsum("snm,smp->snp", inverse, across)
    hessian = np.einsum("srp,srq->pq", weighted, of_parameters) - np.einsum("snp,snq->pq", across, eliminated)
    hessian += np.diag(1.0 / problem.prior**2)
    scores = np.einsum("srp,sr->sp", weighted, residual) - np.einsum("snp,sn->sp", eliminated, pull)
    white = np.linalg.inv(hessian)
    count, parameters = int(kept.sum()), len(hessian)
    clustered = white @ (scores[kept].T @ scores[kept]) @ white * count / max(count - parameters, 1)
    larger = np.sqrt(np.maximum(np.diag(clustered) / np.diag(white), 1.0))
    return np.asarray(white * np.outer(larger, larger))


def _correlation(problem: Problem, residual: Array, kept: NDArray[np.bool_]) -> Array:
    found = []
    for channel in range(int(problem.channels.max()) + 1):
        rows = residual[kept][:, problem.channels == channel]
        one, other = rows[:, :-3], rows[:, 3:]  # the same axis of the next measurement
        both = np.isfinite(one) & np.isfinite(other)
        power = float(np.mean(rows[np.isfinite(rows)] ** 2)) if np.isfinite(rows).any() else 0.0
        found.append(float(np.mean(one[both] * other[both])) / power if power > 0.0 and both.any() else 0.0)
    return np.array(found)
