import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.verification.reality import Axis, AxisResult, Point, Reality, find_margin, with_margins
from rlstack.verification.reality_plots import draw_reality


def axis(**changes):
    known = {"key": "delay_s", "title": "Delay", "unit": "s", "nominal": 0.0, "farthest": 0.06, "required": 0.02}
    return Axis(**{**known, "reason": "a source", "apply": lambda value, c: c, "resolution": 0.005, **changes})


def search(one, holds_to, **options):
    tried = []

    def evaluate(value):
        tried.append(value)
        return Point(value, 1.0 if one.share(value) <= one.share(holds_to) + 1e-9 else 0.5)

    return find_margin(one, Point(one.nominal, 1.0), evaluate, **options), tried


def test_the_required_value_is_tried_first_and_then_the_farthest():
    margin, tried = search(axis(), 0.06)
    assert tried == [0.02, 0.06] and margin.margin == 0.06 and margin.open_ended
    assert margin.text(axis()) == "60 ms or more"


def test_a_margin_between_required_and_farthest_is_bisected():
    margin, tried = search(axis(), 0.045, refinements=5)
    assert tried[:3] == [0.02, 0.06, 0.04] and margin.margin == 0.045 and not margin.open_ended


def test_below_the_required_value_the_search_goes_inwards():
    margin, tried = search(axis(), 0.01)
    assert tried == [0.02, 0.01, 0.015] and margin.margin == 0.01
    assert not margin.reaches(axis(), 0.02) and margin.reaches(axis(), 0.01)


def test_without_success_in_the_nominal_trials_there_is_no_margin():
    margin = find_margin(axis(), Point(0.0, 0.9), lambda value: Point(value, 1.0))
    assert margin.margin is None and margin.text(axis()) == "none" and not margin.reaches(axis(), 0.0)


def test_only_the_given_values_are_tried():
    rates = axis(
        unit="Hz", nominal=100.0, farthest=25.0, required=50.0, resolution=0.0, values=(100.0, 50.0, 33.0, 25.0)
    )
    margin, tried = search(rates, 33.0)
    assert tried == [50.0, 25.0, 33.0] and margin.margin == 33.0 and margin.text(rates) == "33 Hz"


@given(st.floats(0.0, 1.0), st.booleans(), st.integers(0, 12))
def test_the_margin_holds_and_is_within_one_bisection_of_the_truth(truth, downwards, refinements):
    one = axis(nominal=1.0, farthest=0.2 if downwards else 4.0, required=None, resolution=0.01, unit="x")
    margin, tried = search(one, one.nominal + truth * (one.farthest - one.nominal), refinements=refinements)
    assert margin.margin is not None and one.share(margin.margin) <= truth + 1e-9
    step = max(2.0**-refinements, 0.01 / abs(one.farthest - one.nominal))
    assert truth - one.share(margin.margin) <= step + 0.5 * 0.01 * 2
    assert len(tried) <= refinements + 1 and len(set(tried)) == len(tried)


def result(one, holds_to, **baselines):
    found = {who: search(one, to)[0] for who, to in baselines.items()}
    return AxisResult(one, search(one, holds_to)[0], found)


def grid(*axes, **more):
    return Reality(axes=axes, simulator="batch", trials=100, baseline_trials=50, **more)


def test_a_margin_below_the_required_one_fails_by_name_and_figures():
    reality = grid(result(axis(), 0.01, Lee=0.06))
    (reason,) = reality.failures
    assert "delay" in reason and "the margin is 10 ms, but 20 ms is required" in reason and "a source" in reason
    assert "50.0% success at 20 ms" in reason
    assert reality.rows("mine")[1] == ["Delay", "20 ms", "10 ms", "60 ms or more", "NOT PASSED"]
    data = reality.to_json()
    assert data["passed"] is False and data["axes"]["delay_s"]["margin"] == 0.01
    assert data["axes"]["delay_s"]["baselines"]["Lee"]["margin"] == 0.06


def test_an_axis_without_a_required_margin_is_not_judged():
    reality = grid(result(axis(required=None), 0.0))
    assert reality.failures == [] and reality.rows("mine")[1][-1] == "not judged"
    assert reality.to_json()["axes"]["delay_s"]["passed"] is None


def test_a_judged_axis_that_was_not_measured_fails():
    (reason,) = grid(missing=("Delay", "Mass")).failures
    assert "not measured: delay, mass" in reason


def test_a_task_replaces_required_margins_and_unknown_ones_are_refused():
    (one,) = with_margins([axis()], {"delay_s": 0.03})
    assert one.required == 0.03
    assert with_margins([axis()], {"delay_s": None})[0].required is None
    with pytest.raises(UserError, match=r"glass.*delay_s"):
        with_margins([axis()], {"glass": 1.0})


@pytest.mark.parametrize("wrong", [{"required": 0.07}, {"farthest": 0.0}, {"resolution": 0.0}, {"values": (0.0, 0.06)}])
def test_an_axis_that_cannot_be_searched_is_refused(wrong):
    with pytest.raises(ValueError, match="delay_s"):
        axis(**wrong)


def test_the_chart_is_drawn_for_judged_and_informational_axes():
    pytest.importorskip("matplotlib")
    reality = grid(result(axis(), 0.03, Lee=0.01), result(axis(key="mass", required=None), math.inf))
    (plot,) = draw_reality(reality, "mine")
    assert plot.png.startswith(b"\x89PNG") and "100 trials" in plot.caption
    assert draw_reality(grid(), "mine") == []
