"""Least squares over segments: the estimate, what it is worth, and what must not spoil it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.identification.fit import Fit, Linearised, fit

Floats = NDArray[np.floating[Any]]
TRUTH = np.array([0.7, -0.4])


class Ramp:
    """y = start + a t + b t^2 in each segment, with its own start."""

    def __init__(self, seed: int, segments: int = 40, correlated: bool = False, noise: float = 0.1) -> None:
        rng = np.random.default_rng(seed)
        self.t = np.linspace(0.0, 1.0, 20)
        self.channels = np.zeros(20, dtype=np.intp)
        self.noise, self.prior = np.array([0.1]), np.array([10.0, 10.0])
        self.least = np.full(2, -np.inf)
        errors = noise * rng.normal(size=(segments, 20))
        if correlated:  # a random walk that stays near 0, as of filtered odometry
            for k in range(1, 20):
                errors[:, k] = 0.9 * errors[:, k - 1] + np.sqrt(1.0 - 0.81) * errors[:, k]
        self.measured = rng.normal(size=(segments, 1)) + TRUTH @ [self.t, self.t**2] + errors

    def residual(self, parameters: Floats, states: Floats) -> Floats:
        return np.asarray(states + parameters @ [self.t, self.t**2] - self.measured)

    def linearise(self, parameters: Floats, states: Floats) -> Linearised:
        count = len(states)
        slopes = np.broadcast_to(np.stack([self.t, self.t**2], axis=1), (count, 20, 2))
        return Linearised(self.residual(parameters, states), np.ones((count, 20, 1)), slopes)

    def moved(self, states: Floats, change: Floats) -> Floats:
        return states + change


def fitted(problem: Ramp) -> Fit:
    start = np.zeros(2)
    return fit(problem, start, problem.measured[:, :1].copy(), start)


def test_it_finds_the_parameters_and_the_noise() -> None:
    found = fitted(Ramp(0))
    assert np.abs((found.parameters - TRUTH) / found.deviation).max() < 3.0
    assert 0.09 < found.noise[0] < 0.11 and found.iterations < 10


def test_measurements_without_noise_are_not_fitted_to_the_last_digit() -> None:
    numbers: list[int] = []
    problem = Ramp(0, noise=1e-7)
    found = fit(problem, np.zeros(2), problem.measured[:, :1].copy(), np.zeros(2), numbers.append)
    np.testing.assert_allclose(found.parameters, TRUTH, atol=1e-5)
    assert found.noise[0] == 0.01 * problem.noise[0]
    assert numbers == list(range(1, found.iterations + 1)) and found.iterations < 8


def test_intervals_hold_the_truth_as_often_as_they_say_where_noise_is_correlated_too() -> None:
    for correlated in (False, True):
        inside = []
        for seed in range(60):
            found = fitted(Ramp(seed, correlated=correlated))
            inside.append(np.abs(found.parameters - TRUTH) < 1.645 * found.deviation)
        assert 0.8 <= np.mean(inside) <= 0.98, correlated


def test_a_spoilt_segment_and_missing_measurements_change_nothing() -> None:
    problem = Ramp(1)
    problem.measured[3] += 50.0 * problem.t**3
    problem.measured[5, 7:9] = np.nan
    found = fitted(problem)
    assert np.abs((found.parameters - TRUTH) / found.deviation).max() < 3.0
    assert not found.kept[3] and found.kept.sum() == 39


def test_what_is_at_its_least_value_is_told_and_draws_no_other() -> None:
    off = []
    for seed in range(40):
        problem = Ramp(seed)
        problem.measured = problem.measured - TRUTH[1] * problem.t**2  # the second one is 0, below which it cannot be
        problem.least = np.array([-np.inf, 0.0])
        found = fitted(problem)
        assert found.parameters[1] >= 0.0 and found.deviation[1] < 0.1 and found.iterations < 12
        off.append((found.parameters - [TRUTH[0], 0.0]) / found.deviation)
    assert np.abs(off).max() < 3.5 and (np.array(off)[:, 1] == 0.0).mean() > 0.3, "half of them would be below it"


def test_what_nothing_tells_keeps_its_prior() -> None:
    problem = Ramp(2)
    problem.t = np.zeros(20)  # every slope is 0
    found = fitted(problem)
    np.testing.assert_allclose(found.deviation, problem.prior, rtol=1e-6)
