from __future__ import annotations

import json

import numpy as np
import pytest

from rlstack.tasks.bounds import Bounds
from rlstack.verification.exploration_plots import notable
from rlstack.verification.exploration_score import score_exploration
from rlstack.verification.judgement import judge
from rlstack.verification.trial_records import ExplorationRecord


def seen(
    coverage: list[list[float]], *, crashed: list[bool] | None = None, name: str = "mine", **more: object
) -> ExplorationRecord:
    shares = np.array(coverage)
    hit = np.array(crashed or [False] * len(shares))
    options = {"moves": True, **more}
    return ExplorationRecord(
        driver=name,
        simulator="batch",
        rate_hz=1.0,
        wall_s=1.0,
        coverage=shares,
        done=shares[:, -1] >= 0.9,
        contacts=hit.astype(int),
        **options,  # type: ignore[arg-type]
    )


MINE = seen([[0.1, 0.5, 0.95, 1.0], [0.1, 0.3, 0.6, 0.8]])
GREEDY = seen([[0.1, 0.6, 0.7, 0.95], [0.1, 0.4, 0.7, 0.92]], name="greedy")
UTILITY = seen([[0.1, 0.2, 0.3, 0.95], [0.1, 0.2, 0.4, 0.5]], name="utility")


def test_the_planner_that_is_soonest_is_the_reference_and_the_best_at_each_time_the_bar() -> None:
    score = score_exploration(MINE, {"utility": UTILITY, "greedy": GREEDY})
    assert (score["episodes"], score["success"], score["crashed"]) == (2, 0.5, 0.0)
    assert (
        score["to_90"] == 2.5
        and score.settings["reference"] == "utility"
        and score["steps_ratio"] == pytest.approx(2.5 / 3.0)
    )
    # greedy is 10 points ahead after the first move
    assert score["least_lead"] == pytest.approx(-0.1)
    assert score["half"] == pytest.approx((0.1 + 0.5 + 0.1 + 0.3) / 4.0)
    figures = score.by_key
    assert figures["to_90"].title == "Moves to 90%" and "of utility" in figures["steps_ratio"].definition
    json.dumps(score.to_json(), allow_nan=False)
    assert score.compared == ("success", "to_90") and score.figure("to_90").fine_title == "Moves to 90%"


def test_planners_may_have_explored_fewer_grounds() -> None:
    few = seen([[0.1, 0.6, 0.7, 0.95]], name="greedy")
    score = score_exploration(MINE, {"greedy": few})
    assert score["steps_ratio"] == pytest.approx(2.0 / 3.0) and score["episodes"] == 2
    alone = score_exploration(MINE)
    assert alone.settings["reference"] == "" and alone["steps_ratio"] is None and alone["least_lead"] is None


def test_contact_is_no_success_and_seconds_are_said() -> None:
    hit = seen([[0.1, 0.95], [0.1, 0.95]], crashed=[True, False], moves=False)
    score = score_exploration(hit)
    assert (score["success"], score["crashed"], score["to_90"]) == (0.5, 0.5, 1.0)
    title, text = score.figure("to_90").title, score.figure("to_90").text
    assert (title, text) == ("Time to 90%", "1.00 s")
    failures = judge(
        score, Bounds(at_least={"success": 0.98}, at_most={"crashed": 0.0, "steps_ratio": 1.0}, episodes=2)
    )
    assert [reason.split(" is ")[0] for reason in failures[:2]] == ["Success", "Contact"]
    assert "was not measured" in failures[2]
    assert notable(hit, 2) == [0, 1]
    guarded = seen([[0.1, 1.0]], interventions=np.array([2]), latency_s=np.array([0.002]))
    score = score_exploration(guarded)
    assert (score["interventions"], score["intervened"], score["latency_p99_ms"]) == (2, 1.0, pytest.approx(2.0))
