from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlstack.guard.observation import Observation
from rlstack.guard.pose_history import KEPT_S, PoseHistory


def seen(stamp_s: float) -> Observation:
    still = [0.0, 0.0, 0.0]
    return Observation(stamp_s, still, [0.0, 0.0, 0.0, 1.0], still, still, 0.0, 0.0)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30), st.floats(0.0, 100.0))
def test_the_nearest_pose_is_one_of_the_last_moments(stamps: list[float], when_s: float) -> None:
    history = PoseHistory()
    assert not history
    for stamp_s in sorted(set(stamps)):
        history.add(seen(stamp_s))
    kept = [stamp_s for stamp_s in stamps if stamp_s >= max(stamps) - KEPT_S]
    assert history.newest_s == max(stamps)
    assert abs(history.nearest(when_s).stamp_s - when_s) == min(abs(stamp_s - when_s) for stamp_s in kept)


def test_a_stamp_that_goes_back_starts_anew() -> None:
    history = PoseHistory()
    history.add(seen(5.0))
    history.add(seen(1.0))
    assert history.newest_s == history.nearest(5.0).stamp_s == 1.0
    history.forget()
    assert not history
