from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlstack.errors import UserError
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_outcome import judge_window, outcome

HOVER = SuccessCriteria()


def ramp(*parts):
    """Join (seconds, distance) pieces of a 10 Hz flight; one more sample closes the last second."""
    return np.concatenate([np.full(round(seconds * 10), distance) for seconds, distance in parts] + [[parts[-1][1]]])


def test_known_flights(flights):
    good = ramp((2.0, 0.5), (6.0, 0.05))
    grazing = ramp((2.0, 0.5), (6.0, 0.1999))
    late = ramp((3.1, 0.5), (4.9, 0.05))  # outside in the first judged sample
    gust = ramp((4.0, 0.05), (0.1, 0.21), (3.9, 0.05))
    gone = ramp((5.0, 0.05), (3.0, 2.01))
    result = outcome(flights(np.stack([good, grazing, late, gust, gone], axis=1)), HOVER)
    assert result.success.tolist() == [True, True, False, False, False]
    assert result.close.tolist() == [True, False, False, False, False]
    assert result.lost.tolist() == [False, False, False, False, True]
    np.testing.assert_allclose(result.recover_s, [2.0, 2.0, 3.1, 4.1, np.inf])
    np.testing.assert_allclose(result.excursion_m, [0.5, 0.5, 0.5, 0.21, 2.01])
    np.testing.assert_allclose(result.error_m[0], 0.05)
    np.testing.assert_allclose(result.error_m[4], (20 * 0.05 + 31 * 2.01) / 51)
    np.testing.assert_allclose(result.rmse_m[0], 0.05)
    np.testing.assert_allclose(result.rmse_m[4], np.sqrt((20 * 0.05**2 + 31 * 2.01**2) / 51))


def test_what_happens_outside_the_window_does_not_decide_success(flights):
    before = ramp((2.9, 1.9), (7.1, 0.0))
    after = ramp((8.1, 0.0), (1.9, 1.9))
    result = outcome(flights(np.stack([before, after], axis=1)), HOVER)
    assert result.success.all()
    assert not result.lost.any()
    assert result.recover_s[0] == pytest.approx(2.9)
    assert math.isinf(result.recover_s[1])


def test_a_moving_goal_is_followed_not_its_start(flights):
    episodes = flights(ramp((2.0, 0.5), (6.0, 0.05))[:, None])
    along = np.linspace(0.0, 10.0, 81)[:, None, None] * np.array([1.0, 0.0, 0.0])
    assert not episodes.moving
    moved = replace(episodes, position=episodes.position + along, goal_position=episodes.goal_position + along)
    assert moved.moving
    np.testing.assert_allclose(moved.error_m, episodes.error_m, atol=1e-12)
    assert not outcome(moved, HOVER).lost.any()  # 10 m from where it began
    left_behind = replace(episodes, goal_position=episodes.goal_position + along)
    assert outcome(left_behind, HOVER).lost.all()


def test_inside_all_the_time_recovers_at_once(flights):
    assert outcome(flights(np.zeros((81, 1))), HOVER).recover_s[0] == 0.0


@pytest.mark.parametrize("name", ["position", "orientation", "linear_velocity", "angular_velocity"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_lost(flights, name, bad):
    episodes = flights(np.zeros((81, 3)))
    getattr(episodes, name)[40, 1, 0] = bad
    result = outcome(episodes, HOVER)
    assert result.lost.tolist() == [False, True, False]
    assert result.success.tolist() == [True, name != "position", True]


@pytest.mark.parametrize("rate_hz", [10.0, 30.0, 100.0, 333.0])
def test_the_window_holds_both_its_ends(flights, rate_hz):
    episodes = flights(np.zeros((int(9 * rate_hz) + 1, 1)), rate_hz=rate_hz)
    window = judge_window(episodes, HOVER)
    assert window.sum() == 5 * rate_hz + 1
    assert episodes.time_s[window][[0, -1]] == pytest.approx([3.0, 8.0])


def test_flights_that_are_too_short_are_refused(flights):
    with pytest.raises(UserError, match=r"batch last 7\.9 s .* fly at least 8 s"):
        outcome(flights(np.zeros((80, 2))), HOVER)
    with pytest.raises(UserError, match="no episodes"):
        outcome(flights(np.zeros((81, 0))), HOVER)
    with pytest.raises(UserError, match=r"No sample lies between second 3\.01 and second 3\.02: the control"):
        outcome(flights(np.zeros((81, 1))), SuccessCriteria(from_s=3.01, to_s=3.02))


distances = hnp.arrays(float, st.tuples(st.just(81), st.integers(1, 5)), elements=st.floats(0.0, 3.0))


@given(distances)
@settings(deadline=None, max_examples=50)
def test_recovery_is_the_first_sample_of_the_last_stay(flights, distance):
    episodes = flights(distance)
    result = outcome(episodes, HOVER)
    for n in range(len(episodes)):
        outside = np.flatnonzero(episodes.error_m[:, n] > 0.2)
        expected = 0.0 if outside.size == 0 else (outside[-1] + 1) / 10.0
        assert result.recover_s[n] == pytest.approx(expected if expected <= 8.0 else np.inf)


@given(distances, st.floats(0.05, 2.5), st.floats(1.0, 3.0))
@settings(deadline=None, max_examples=50)
def test_a_wider_radius_never_judges_worse(flights, distance, radius, wider):
    episodes = flights(distance)
    narrow, wide = (outcome(episodes, SuccessCriteria(radius_m=r)) for r in (radius, radius * wider))
    assert (narrow.success <= wide.success).all()
    assert (narrow.recover_s >= wide.recover_s).all()
    assert (narrow.error_m == wide.error_m).all()
    assert (narrow.error_m[narrow.success] <= radius + 1e-9).all()
    assert (narrow.error_m <= narrow.rmse_m + 1e-9).all()
    assert (narrow.rmse_m <= narrow.excursion_m + 1e-9).all()
