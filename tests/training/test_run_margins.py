"""Margins of the reality grid in a run's figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlstack.bringup.sweep.plan import figure, read_constraint, with_margins
from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.robots import load_robot
from rlstack.training.recipe import load_recipe
from rlstack.training.run_margins import _number, margins_of
from rlstack.verification.reality import Axis, Margin

HOVER = load_recipe("quadrotor_hover")


def test_a_policys_margins_are_those_of_the_grid() -> None:
    recipe = replace(HOVER, selection=replace(HOVER.selection, margins=("mass_scale_low",)))
    found = margins_of(recipe, load_robot("crazyflie"), find_policy("quadrotor_hover"))
    assert list(found) == ["mass_scale_low"]
    assert 0.4 <= found["mass_scale_low"] <= 0.7, "the released policy passes"


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
