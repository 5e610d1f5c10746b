"""Tasks of Meta-World: their number, groups and sentences, and published results."""

from __future__ import annotations

import pytest

from rlstack.interfaces.instruction import encoded, split_words
from rlstack.training.metaworld.suite import SENTENCES, SUITES, group_means


def test_suites_are_the_benchmarks() -> None:
    assert [len(tasks) for tasks in SENTENCES.values()] == [28, 11, 6, 5]
    assert len(SUITES["metaworld-mt50"].sentences) == 50 and len(SUITES["metaworld-mt10"].sentences) == 10
    assert set(SUITES["metaworld-mt10"].words) < set(SUITES["metaworld-mt50"].words)


def test_every_sentence_fits_the_signal_and_the_network() -> None:
    for sentence in SUITES["metaworld-mt50"].sentences.values():
        assert len(split_words(sentence)) <= 16 and encoded(sentence).any()


def test_the_mean_is_that_of_the_groups_and_not_of_the_tasks() -> None:
    success = {"reach": 1.0, "door-open": 1.0, "window-open": 0.7, "push": 0.3}
    assert group_means(success) == pytest.approx({"easy": 0.9, "hard": 0.3, "mean": 0.6})
