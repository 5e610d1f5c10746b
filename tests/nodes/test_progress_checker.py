from __future__ import annotations

import numpy as np

from rlstack.nodes.progress_checker import ProgressChecker

S = 1_000_000_000


def at(x: float) -> np.ndarray:
    return np.array([x, 0.0, 0.0])


def test_a_base_that_comes_nearer_is_driving_until_it_is_there() -> None:
    progress = ProgressChecker(0.2, 5.0)
    assert progress.status == "no goal" and progress.warning == ""
    for k in range(20):
        progress.update(k * S, at(0.1 * k), at(2.0))
        assert progress.status == ("arrived" if 2.0 - 0.1 * k < 0.2 else "driving")
    progress.update(1000 * S, at(1.9), at(2.0))
    assert progress.status == "arrived"  # for as long as it likes


def test_a_goal_that_comes_no_nearer_is_said_to_be_out_of_reach_until_there_is_another() -> None:
    progress = ProgressChecker(0.2, 5.0)
    for k in range(7):
        progress.update(k * S, at(1.0 + 0.001 * k), at(2.0))
    assert progress.status == "no way found"
    assert "2.00, 0.00 m has come no nearer than 1.00 m for 6 s" in progress.warning
    progress.update(7 * S, at(1.0), at(-2.0))
    assert progress.status == "driving" and progress.warning == ""


def test_time_that_goes_back_begins_anew() -> None:
    progress = ProgressChecker(0.2, 5.0)
    progress.update(100 * S, at(0.0), at(2.0))
    progress.update(1 * S, at(0.0), at(2.0))
    assert progress.status == "driving" and progress.waited_s == 0.0
