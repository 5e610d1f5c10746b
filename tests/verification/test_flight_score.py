from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlstack.tasks.bounds import Bounds
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_score import score_flights
from rlstack.verification.judgement import judge
from rlstack.verification.scores import wilson

HOVER = SuccessCriteria()


def hover(*distances):
    """Fly 81 samples (8 s at 10 Hz) at a constant distance per episode."""
    return np.tile(np.array(distances, dtype=float), (81, 1))


def test_known_figures(flights):
    distance = hover(0.05, 0.15, 0.3, 0.05)
    distance[10, 3] = 5.0
    figures = score_flights(
        flights(
            distance,
            labels=["none", "wind", "wind", "none"],
            interventions=[0, 2, 1, 0],
            latency_s=[0.001, 0.002, 0.003, np.nan],
        ),
        HOVER,
    )
    assert figures["episodes"] == 4
    assert figures["success"] == 0.75
    assert figures["within_0_1"] == 0.5
    assert figures["lost"] == 0.25
    assert figures["error_m"] == pytest.approx(0.1)
    assert figures["error_p95_m"] == pytest.approx(0.3)
    assert figures["rmse_m"] == pytest.approx(0.1) and figures["rmse_p95_m"] == pytest.approx(0.3)
    assert figures["error_mean_m"] == pytest.approx((0.05 + 0.15 + 0.3) / 3)
    assert figures["recover_s"] == pytest.approx(0.55)  # of 0, 0, 1.1 and never
    assert math.isinf(figures["recover_p95_s"])
    assert figures["never_recovered"] == 0.25
    assert figures["excursion_max_m"] == pytest.approx(5.0)
    assert (figures["interventions"], figures["intervened"]) == (3, 0.5)
    assert (figures["latency_p50_ms"], figures["latency_p99_ms"]) == (pytest.approx(2.0), pytest.approx(3.0))
    assert (figures["tilt_rad"], figures["speed_m_s"], figures["command_change_rad_s"]) == (0.0, 0.0, 0.0)
    assert list(figures.groups) == ["none", "wind"]
    assert figures.groups["wind"].to_json() == {
        "episodes": 2,
        "success": 0.5,
        "success_low": pytest.approx(0.0945, abs=1e-4),
        "success_high": pytest.approx(0.9055, abs=1e-4),
        "lost": 0.0,
        "error_m": pytest.approx(0.225),
    }


def test_attitude_speed_and_commands_are_of_the_window_and_of_kept_episodes(flights):
    episodes = flights(hover(0.0, 0.0, 9.0))
    half = math.radians(30) / 2
    episodes.orientation[30:, 0] = [math.sin(half), 0, 0, math.cos(half)]
    episodes.orientation[:30] = [1, 0, 0, 0]  # upside down before the window
    episodes.linear_velocity[:, 1] = [3.0, 4.0, 0.0]
    episodes.linear_velocity[:, 2] = 100.0
    episodes.command[::2, 0] += 10.0
    figures = score_flights(episodes, HOVER)
    assert figures["tilt_rad"] == pytest.approx(math.radians(15))
    assert figures["speed_m_s"] == pytest.approx(2.5)
    assert figures["command_change_rad_s"] == pytest.approx(5.0)


def test_all_lost_has_no_figures_of_kept_episodes_and_json_has_no_infinity(flights):
    episodes = flights(hover(0.0, 0.0))
    episodes.position[5:] = np.nan
    figures = score_flights(episodes, HOVER)
    assert (figures["success"], figures["lost"], figures["error_mean_m"], figures["tilt_rad"]) == (0.0, 1.0, None, None)
    assert math.isinf(figures["error_m"]) and math.isinf(figures["error_p95_m"]) and math.isinf(figures["recover_s"])
    data = json.loads(json.dumps(figures.to_json(), allow_nan=False))
    assert data["error_m"] is None and data["recover_s"] is None and data["latency_p50_ms"] is None
    assert data["by_label"]["none"]["error_m"] is None


def test_json_holds_every_figure_as_a_plain_number(flights):
    result = score_flights(flights(hover(0.05, 0.3)), HOVER)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert set(data) == result.by_key.keys() | dataclasses.asdict(HOVER).keys() | {
        "by_label",
        "success_low",
        "success_high",
    }
    assert (data["radius_m"], data["from_s"], data["to_s"], data["lost_m"]) == (0.2, 3.0, 8.0, 2.0)
    assert data["episodes"] == 2 and data["success"] == 0.5
    assert data["error_m"] == result["error_m"]
    assert data["by_label"]["none"]["episodes"] == 2


def test_every_figure_has_a_definition_with_the_numbers_it_was_judged_by(flights):
    result = score_flights(flights(hover(0.05)), SuccessCriteria(radius_m=0.35, from_s=2.0, to_s=6.5, lost_m=4.0))
    documented = result.by_key
    assert "0.35 m" in documented["success"].definition
    assert "from second 2 to second 6.5" in documented["success"].definition
    assert "4 m" in documented["lost"].definition
    assert all(figure.text and figure.definition for figure in result.figures)


def test_text(flights):
    texts = {figure.key: figure.text for figure in score_flights(flights(hover(0.0513, 0.3)), HOVER).figures}
    assert texts["success"] == "50.0%"
    assert texts["error_m"] == "0.176 m"
    assert texts["latency_p50_ms"] == "not measured"
    assert texts["recover_p95_s"] == "never"
    assert texts["episodes"] == "2"


def test_judge_passes_and_says_why_not(flights):
    good = score_flights(flights(hover(*[0.05] * 100)), HOVER)
    assert judge(good, Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01})) == []
    bad = score_flights(flights(hover(*[0.05] * 9, 3.0)), HOVER)
    reasons = judge(
        bad,
        Bounds(
            at_least={"success": 0.95},
            at_most={"lost": 0.01, "error_m": 0.01, "rmse_m": 0.02, "latency_p99_ms": 2.0, "recover_s": 1.0},
        ),
    )
    assert reasons == [
        "10 episodes are too few: at least 100 are required.",
        "Success is 90.0%, but at least 95.0% is required.",
        "Lost is 10.0%, but at most 1.0% is required.",
        "Position error is 0.050 m, but at most 0.010 m is required.",
        "RMSE is 0.050 m, but at most 0.020 m is required.",
        "Control latency, 99th percentile was not measured, but at most 2.00 ms is required.",
    ]


def test_a_bound_for_a_figure_that_there_is_not_is_a_mistake(flights):
    with pytest.raises(ValueError, match=r"does not have: \['collided'\]"):
        judge(score_flights(flights(hover(0.05)), HOVER), Bounds(at_most={"collided": 0.1}))


def test_judge_refuses_what_is_infinite_and_shows_near_misses(flights):
    episodes = flights(hover(3.0, 0.05))
    never = score_flights(episodes, HOVER)
    assert judge(never, Bounds(at_least={"success": 0}, at_most={"lost": 1, "recover_s": 5.0}, episodes=2)) == [
        "Time to recover is never, but at most 5.00 s is required."
    ]
    changed = {"success": 0.94996, "lost": 0.0}
    near = dataclasses.replace(
        never, figures=tuple(dataclasses.replace(f, value=changed.get(f.key, f.value)) for f in never.figures)
    )
    assert judge(near, Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01}, episodes=1)) == [
        "Success is 0.94996, but at least 95.0% is required."
    ]


@given(st.integers(0, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(deadline=None)
def test_wilson_contains_the_share_and_mirrors(trial):
    successes, count = trial
    low, high = wilson(successes, count)
    assert 0.0 <= low <= high <= 1.0
    if count:
        assert low <= successes / count <= high
        assert high - low < 2.0 / math.sqrt(count)
    mirrored = wilson(count - successes, count)
    assert (1 - mirrored[1], 1 - mirrored[0]) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))


def test_wilson_known_values():
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    for successes, count, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]:
        assert wilson(successes, count) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(
    hnp.arrays(float, st.tuples(st.just(81), st.integers(1, 6)), elements=st.floats(0.0, 3.0)),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=50)
def test_shares_add_up_and_order_does_not_matter(flights, distance, random):
    count = distance.shape[1]
    labels = [random.choice(["a", "b", "c"]) for _ in range(count)]
    result = score_flights(flights(distance, labels=labels), HOVER)
    assert result["within_0_1"] <= result["success"]
    low, high = result.figure("success").interval
    assert low <= result["success"] <= high
    groups = result.groups.values()
    assert sum(g["episodes"] for g in groups) == count
    assert sum(g["success"] * g["episodes"] for g in groups) == pytest.approx(result["success"] * count)
    assert sum(g["lost"] * g["episodes"] for g in groups) == pytest.approx(result["lost"] * count)
    assert (result["never_recovered"] == 0.0) == (result["recover_p95_s"] < math.inf or count > 20)

    # The distances are the same in another order; the directions only differ by rounding.
    order = random.sample(range(count), count)
    episodes = flights(distance, labels=labels)
    shuffled = dataclasses.replace(
        episodes,
        position=episodes.position[:, order],
        labels=episodes.labels[order],
    )
    again = score_flights(shuffled, HOVER)
    for key in ("success", "within_0_1", "lost", "error_m", "error_p95_m", "recover_s", "excursion_max_m"):
        assert again[key] == pytest.approx(result[key])
    assert again.groups.keys() == result.groups.keys()
