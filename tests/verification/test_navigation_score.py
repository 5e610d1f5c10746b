from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.tasks.bounds import Bounds
from rlstack.verification.judgement import judge
from rlstack.verification.navigation_score import score_baseline, score_drives
from rlstack.verification.scores import wilson
from rlstack.verification.trial_records import NAVIGATION_ENDINGS
from tests.support.drives import recorded


def test_figures_are_what_their_definitions_say() -> None:
    drives = recorded(["arrived", "arrived", "collided", "timed out", "gave up"], [4.0, 5.0, 2.0, 6.0, 6.0])
    score = score_drives(drives, arrival_m=0.2)
    assert (score["episodes"], score["success"], score["collided"], score["timed_out"], score["gave_up"]) == (
        5,
        0.4,
        0.2,
        0.2,
        0.2,
    )
    assert score.figure("success").interval == wilson(2, 5)
    assert score["time_s"] == 4.5
    # 0.5 m/s for 4 and 5 s, and the 0.2 m that are left, of 2 m
    assert score["path_ratio"] == pytest.approx((2.2 + 2.7) / 2 / 2.0)
    assert score["spl"] == pytest.approx((2.0 / 2.2 + 2.0 / 2.7) / 5)
    assert score["clearance_m"] == pytest.approx(0.305) and score["clearance_least_m"] == pytest.approx(0.3)
    assert score["speed_m_s"] == pytest.approx(0.5) and score["jerk_m_s3"] == pytest.approx(0.0, abs=1e-9)
    assert score["turning_rad_s2"] == 0.0
    assert (
        score["lead"] is None
        and score["time_ratio"] is None
        and score["disturbed"] is None
        and score["intervened"] is None
    )


def test_jerk_is_the_second_difference_of_speed() -> None:
    drives = recorded(["arrived"], [1.0])
    speed = 0.5 * 3.0 * (0.1 * np.arange(11)) ** 2  # jerk of 3 m/s^3
    twist = drives.twist.copy()
    twist[:, 0, 0] = speed
    assert score_drives(replace(drives, twist=twist), arrival_m=0.2)["jerk_m_s3"] == pytest.approx(3.0)


def test_a_way_shorter_than_the_shortest_counts_no_better() -> None:
    score = score_drives(recorded(["arrived"], [1.0], shortest_m=2.0), arrival_m=0.2)
    assert score["spl"] == 1.0 and score["path_ratio"] == pytest.approx(0.35)


def test_a_planner_is_compared_on_the_ways_that_both_finish() -> None:
    ours = recorded(["arrived", "arrived", "collided", "arrived"], [4.0, 6.0, 3.0, 9.0])
    theirs = recorded(["arrived", "arrived", "arrived", "timed out"], [5.0, 5.0, 5.0, 9.0], driver="dwa")
    score = score_drives(ours, arrival_m=0.2, beside=theirs)
    assert score.settings["reference"] == "dwa" and score["paired"] == 2 and score["lead"] == 0.0
    assert score["time_ratio"] == pytest.approx(1.0)
    assert "dwa" in score.figure("time_ratio").definition
    fewer = score_drives(ours, arrival_m=0.2, beside=theirs.take(slice(0, 1)))
    assert fewer["paired"] == 1 and fewer["time_ratio"] == pytest.approx(0.8)
    with pytest.raises(ValueError, match="same episodes"):
        score_drives(ours, arrival_m=0.2, beside=replace(theirs, shortest_m=theirs.shortest_m + 1.0))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_the_interval_of_a_lead_holds_it_unless_few_ways_say_all(pairs: list[tuple[bool, bool]]) -> None:
    def drives(which: int, driver: str) -> object:
        return recorded(["arrived" if pair[which] else "collided" for pair in pairs], [1.0] * len(pairs), driver=driver)

    score = score_drives(drives(0, "mine"), arrival_m=0.2, beside=drives(1, "dwa"))
    assert score["lead"] is not None and score["lead_high"] is not None
    assert score["lead"] == pytest.approx(np.mean([a - b for a, b in np.array(pairs, dtype=int)]))
    shrunk = score["lead"] * len(pairs) / (len(pairs) + 2.0)
    assert shrunk < score["lead_high"] <= 1.0


def test_a_driver_that_is_worse_beyond_chance_does_not_pass() -> None:
    count = 200
    theirs = recorded(["arrived"] * count, [1.0] * count, driver="dwa")
    asked = Bounds(at_least={"success": 0.9, "lead_high": 0.0}, at_most={"time_ratio": 1.1})
    near = recorded(["collided"] + ["arrived"] * (count - 1), [1.0] * count)
    far = recorded(["collided"] * 15 + ["arrived"] * (count - 15), [1.0] * count)
    assert judge(score_drives(near, arrival_m=0.2, beside=theirs), asked) == []
    reasons = judge(score_drives(far, arrival_m=0.2, beside=theirs), asked)
    assert len(reasons) == 1 and "Lead over the planner" in reasons[0] and "at least" in reasons[0]
    slow = recorded(["arrived"] * count, [1.2] * count)
    assert "Time over the planner's is 1.200, but at most 1.100 is required." in judge(
        score_drives(slow, arrival_m=0.2, beside=theirs), asked
    )


def test_where_nobody_arrives_times_were_not_measured_and_json_holds_them() -> None:
    score = score_drives(recorded(["collided", "timed out"], [1.0, 2.0]), arrival_m=0.2)
    assert score["time_s"] is None and score["clearance_m"] is None and score["spl"] == 0.0
    data = json.loads(json.dumps(score.to_json(), allow_nan=False))
    assert data["time_s"] is None and data["by_label"]["clutter"]["time_s"] is None
    assert "not measured" in score.figure("time_s").text


def test_classes_of_maps_are_apart() -> None:
    drives = recorded(["arrived", "collided", "arrived"], [1.0, 1.0, 3.0], kinds=["mazes", "rooms", "mazes"])
    groups = score_drives(drives, arrival_m=0.2).groups
    assert list(groups) == ["mazes", "rooms"]
    assert (groups["mazes"]["episodes"], groups["mazes"]["success"], groups["mazes"]["time_s"]) == (2, 1.0, 2.0)
    assert groups["rooms"]["collided"] == 1.0


def test_people_guard_and_latency_are_counted_where_they_are() -> None:
    drives = recorded(
        ["arrived", "arrived"],
        [1.0, 1.0],
        people_m=np.where(np.arange(22).reshape(11, 2) < 11, 0.1, 0.3),
        interventions=np.array([0, 3]),
        latency_s=np.array([0.002, 0.001, 0.004]),
    )
    score = score_drives(drives, arrival_m=0.2)
    assert score["disturbed"] == 0.5
    assert (score["interventions"], score["intervened"]) == (3, 0.5)
    assert score["latency_p50_ms"] == pytest.approx(2.0) and score["latency_p99_ms"] == pytest.approx(4.0)


def test_every_figure_has_a_definition_and_its_own_key() -> None:
    score = score_drives(recorded(["arrived"], [1.0]), arrival_m=0.2)
    assert all(figure.definition for figure in score.figures) and len(score.by_key) == len(score.figures)
    assert len(NAVIGATION_ENDINGS) == 4


def test_the_transfer_table_has_intervals() -> None:
    score = score_drives(recorded(["arrived", "arrived", "collided"], [1.0, 3.0, 1.0]), arrival_m=0.2)
    success, time = score.figure("success"), score.figure("time_s")
    assert success.interval is not None and success.interval[0] < 2 / 3 < success.interval[1]
    assert time.value == 2.0 and time.interval is not None and math.isfinite(time.interval[1])
    assert score.compared == ("success", "collided", "time_s") and time.fine_text.startswith("2.0 [")
    assert score_drives(recorded(["collided"], [1.0]), arrival_m=0.2).figure("time_s").fine_text == "-"


def test_a_baseline_says_how_the_policy_did_beside_it() -> None:
    policy = recorded(["arrived", "collided", "arrived"], [4.0, 6.0, 3.0])
    planner = recorded(["arrived", "arrived"], [5.0, 5.0], driver="dwa")
    score = score_baseline(planner, policy, arrival_m=0.2)
    assert score["episodes"] == 2 and score["lead"] is None
    assert (score["policy_lead"], score["policy_time_ratio"], score["paired"]) == (-0.5, pytest.approx(0.8), 1)
