"""Margins of the reality grid in a run's figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlstack.bringup.sweep.plan import figure, read_constraint, with_margins
from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.robots import load_robot
from rlstack.training.recipe import load_recipe
from rlstack.training.run_margins import _number, margins_of
from rlstack.verification import reality_runner
from rlstack.verification.reality import Axis, Margin, Point

HOVER = load_recipe("quadrotor_hover")


def test_a_policys_margins_are_those_of_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluated(verifier: Any, apply: Any, who: str | None, value: float = 0.0) -> Point:
        assert verifier.request.seed == HOVER.selection.seed and who is None
        return Point(value, 1.0 if value == 0.0 or value >= 0.6 else 0.5)

    monkeypatch.setattr(reality_runner, "_evaluated", evaluated)  # in place of flights
    recipe = replace(HOVER, selection=replace(HOVER.selection, margins=("mass_scale_low",)))
    found = margins_of(recipe, load_robot("crazyflie"), find_policy("quadrotor_hover"))
    assert found == {"mass_scale_low": 0.65}, "after two bisections"


def test_without_success_the_margin_is_on_the_other_side() -> None:
    axis = Axis(
        key="a", title="", unit="", nominal=1.0, farthest=0.4, required=None, reason="", apply=max, resolution=0.1
    )
    assert _number(axis, Margin(None, False, ())) == pytest.approx(1.6)
    assert _number(axis, Margin(0.7, False, ())) == 0.7


def test_a_sweep_asks_for_the_margins_that_it_compares() -> None:
    named = with_margins(HOVER, ["success", "margin.mass_scale", read_constraint("margin.gust_share>=0.1").figure])
    assert named.selection.margins == ("mass_scale", "gust_share")
    assert with_margins(HOVER, ["success"]) == HOVER
    assert figure({"margins": {"mass_scale": 1.4}, "evaluation": {}}, "margin.mass_scale") == 1.4
    with pytest.raises(UserError, match="Unknown margin 'mass'"):
        with_margins(HOVER, ["margin.mass"])
