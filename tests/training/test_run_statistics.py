"""Interquartile means, probabilities of improvement and their bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.training.run_statistics import interquartile_mean, performance_profile, probability_of_improvement


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_tasks_scores() -> None:
    found = interquartile_mean([np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0, 100.0])])
    assert found.value == pytest.approx((2.0 + 3.0 + 4.0 + 5.0) / 4.0)
    assert found.low < found.value < found.high


def test_the_interval_is_one_of_the_published_method() -> None:
    """scipy's percentile bootstrap of the same statistic is the reference where there is one task."""
    from scipy import stats

    scores = np.random.default_rng(1).normal(size=20)
    reference = stats.bootstrap(
        (scores,), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), method="percentile", rng=2
    ).confidence_interval
    found = interquartile_mean([scores])
    assert (found.low, found.high) == pytest.approx(tuple(reference), abs=0.03)


def test_the_probability_of_improvement_counts_pairs_and_equal_ones_as_half() -> None:
    found = probability_of_improvement([np.array([1.0, 2.0])], [np.array([0.0, 2.0])])
    assert found.value == pytest.approx((1.0 + 0.0 + 1.0 + 0.5) / 4.0)
    better = probability_of_improvement([np.array([1.0, 2.0]), np.array([5.0])], [np.array([0.0]), np.array([9.0])])
    assert better.value == pytest.approx(0.5), "tasks count alike, whatever their numbers of runs"


def test_tasks_are_strata() -> None:
    scores = [np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0])]
    found = interquartile_mean(scores)
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5), "no task loses its share"


def test_a_profile_is_the_share_of_runs_above_each_value() -> None:
    scores = [np.array([0.0, 1.0, 2.0, 3.0]), np.array([5.0])]
    found = performance_profile(scores, np.array([-1.0, 0.0, 1.5, 4.0, 5.0]))
    assert [one.value for one in found] == [1.0, (0.75 + 1.0) / 2.0, 0.75, 0.5, 0.0]
    assert all(one.low <= one.value <= one.high for one in found) and found[2].low < 0.75
