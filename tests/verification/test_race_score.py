from __future__ import annotations

import json

import numpy as np
import pytest

from rlstack.tasks.bounds import Bounds
from rlstack.verification.judgement import judge
from rlstack.verification.race_plots import ending, notable
from rlstack.verification.race_score import score_races
from rlstack.verification.trial_records import RaceRecord

NAN = np.nan


def raced(
    laps: list[list[float]], *, driver: str = "mine", contact: list[bool] | None = None, **more: object
) -> RaceRecord:
    """Return races of 30 m laps; a lap that is NaN was not finished."""
    count = len(laps)
    return RaceRecord(
        driver=driver,
        simulator="batch",
        wall_s=1.0,
        seeds=np.arange(count),
        length_m=np.full(count, 30.0),
        lap_s=np.array(laps),
        contact=np.array(contact or [False] * count),
        clearance_m=np.linspace(0.2, 0.1, count),
        pose=np.zeros((5, count, 3)),
        speed_m_s=np.zeros((5, count)),
        rate_hz=20.0,
        **more,  # type: ignore[arg-type]
    )


MINE = raced([[12.0, 11.0], [12.0, 9.0], [13.0, NAN], [NAN, NAN]], contact=[False, False, True, False])
YARDSTICK = raced([[10.0, 10.0], [10.0, 10.0], [10.0, 10.0]], driver="pure_pursuit")


def test_laps_are_held_against_the_yardsticks_on_tracks_that_both_finish() -> None:
    score = score_races(MINE, YARDSTICK)
    assert (score["episodes"], score["success"], score["contact"], score["slow"]) == (4, 0.5, 0.25, 0.25)
    assert (
        score["lap_ratio"] == pytest.approx(1.0)
        and score["paired"] == 2
        and score.settings["reference"] == "pure_pursuit"
    )
    assert (
        score["lap_s"] == pytest.approx(10.0)
        and score["first_lap_s"] == pytest.approx(12.0)
        and score["clean_laps"] == 5
    )
    assert score["clearance_least_m"] == pytest.approx(0.2 - 0.1 / 3.0)
    assert score["speed_m_s"] == pytest.approx((30.0 / 11.0 + 30.0 / 9.0) / 2.0)
    assert score.figure("success").fine_text.startswith("50.0 [") and score.figure("lap_ratio").fine_text.startswith(
        "1.000 ["
    )
    json.dumps(score.to_json(), allow_nan=False)
    with pytest.raises(ValueError, match="not on the same tracks"):
        score_races(MINE, raced([[1.0, 1.0]] * 2 + [[1.0, 1.0]] * 3))


def test_contact_slow_laps_and_too_few_races_fail() -> None:
    asked = Bounds(at_least={"success": 0.95}, at_most={"contact": 0.02, "lap_ratio": 1.1}, episodes=3)
    assert judge(score_races(raced([[11.0, 10.5]] * 3), YARDSTICK), asked) == []
    failures = judge(score_races(MINE, YARDSTICK), asked)
    assert [reason.split(" is ")[0] for reason in failures] == ["Success", "Contact"]
    slow = judge(score_races(raced([[12.0, 12.0]] * 3), YARDSTICK), asked)
    assert slow == ["Flying lap over the baseline's is 1.200, but at most 1.100 is required."]
    # without a baseline, nothing is known of how fast it is
    assert "was not measured" in judge(score_races(raced([[11.0, 10.5]] * 3)), asked)[0]
    assert "are too few" in judge(score_races(raced([[11.0, 10.5]]), raced([[1.0, 10.0]])), asked)[0]


def test_nobody_who_finishes_leaves_figures_unmeasured() -> None:
    score = score_races(raced([[NAN, NAN]]), raced([[1.0, 1.0]], driver="p"))
    assert (
        score["lap_s"] is None and score["lap_ratio"] is None and score["paired"] == 0 and score["clearance_m"] is None
    )
    guarded = raced([[1.0, 1.0]] * 2, interventions=np.array([0, 3]), latency_s=np.array([0.001, 0.004]))
    score = score_races(guarded)
    assert (score["interventions"], score["intervened"], score["latency_p99_ms"]) == (3, 0.5, pytest.approx(4.0))


def test_races_are_joined_and_failures_are_seen_first() -> None:
    both = RaceRecord.joined([raced([[1.0, 1.0]]), MINE])
    assert len(both.seeds) == 5 and both.pose.shape == (5, 5, 3) and both.clean_laps == 7
    assert notable(MINE, 3).tolist() == [3, 2, 1]
    assert [ending(MINE, k) for k in range(4)] == ["finished", "finished", "contact", "out of time"]
