"""Trials drawn by success."""

from __future__ import annotations

import numpy as np

from rlstack.tasks.core.curriculum import CANDIDATES, SuccessCurriculum


def test_kinds_that_succeed_half_the_time_come_most_often() -> None:
    one, rng = SuccessCurriculum(3, 3), np.random.default_rng(0)
    one.kind[:] = 0, 1, 2
    for k in range(100):
        one.record(np.arange(3), np.array([False, True, k % 2 == 0]))
    assert one.success[0] < 0.01 and one.success[1] > 0.99 and 0.3 < one.success[2] < 0.7
    kinds = rng.integers(0, 3, 6000 * CANDIDATES)
    kept = one.choose(kinds, rng)
    assert (kept // CANDIDATES == np.arange(6000)).all()
    share = np.bincount(kinds[kept], minlength=3) / 6000
    assert share[2] > 0.5 and 0.1 < share[0] < 0.25  # the others still come
    held = one.state_dict()
    other = SuccessCurriculum(3, 3)
    other.load_state_dict(held)
    assert (other.success == one.success).all() and (other.kind == one.kind).all()
