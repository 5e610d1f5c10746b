"""What may be varied, and between what."""

from __future__ import annotations

import pytest

from rlstack.bringup.sweep.space import Range, read_ranges, setting_path, varied, with_fields
from rlstack.errors import UserError
from rlstack.training.recipe import load_recipe

RATE = "algorithm_settings.learning_rate"


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("quadrotor_hover")


def test_ranges_are_read(recipe):
    rate, envs, share = read_ranges(
        ("learning_rate=log:1e-4:1e-2", "envs=16:64", "starts.goal_step_share=0.1,0.2"), recipe
    )
    assert rate == Range(RATE, (), 1e-4, 1e-2, log=True) and rate.name == "learning_rate"
    assert envs == Range("envs", (), 16.0, 64.0, whole=True) and envs.ends == (16, 64)
    assert share == Range("task_settings.starts.goal_step_share", (0.1, 0.2))


def test_a_grid_has_points(recipe):
    rate, envs = read_ranges(("learning-rate=log:1e-4:1e-2:3", "envs=16:64:4"), recipe)
    assert rate.values == (1e-4, 1e-3, 1e-2) and envs.values == (16, 32, 48, 64)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lerning_rate=0:1", "learning_rate"),
        ("learning_rate", "NAME=RANGE"),
        ("learning_rate=1e-3", "one value is no range"),
        ("learning_rate=a:b", "not understood"),
        ("learning_rate=log:0:1", "above 0"),
        ("learning_rate=1e-2:1e-4", "low end must be below"),
        ("learning_rate=1e-4:1e-2:1", "give 2 or more"),
        ("learning_rate=-1:1", "learning_rate"),
        ("envs=0:64", "envs"),
        ("seed=1:5", "all trainings of a sweep share it"),
        ("selection.episodes=10:20", "all trainings of a sweep share it"),
        ("mass=1:2", "quadrotor_hover|mass"),
    ],
)
def test_what_is_not_allowed_is_refused(recipe, text, why):
    with pytest.raises(UserError, match=why):
        read_ranges((text,), recipe)


def test_a_setting_is_varied_once(recipe):
    with pytest.raises(UserError, match="given twice"):
        read_ranges(("learning_rate=1e-4:1e-2", f"{RATE}=1e-4,1e-3"), recipe)


def test_an_end_that_several_settings_have_is_refused(recipe):
    with pytest.raises(UserError, match="give more of its path"):
        setting_path("linear_velocity_m_s", recipe, "--vary")


def test_fields_are_set(recipe):
    changed = with_fields(recipe, ("steps=1e5", "learning_rate=0.002"))
    assert (changed.steps, changed.algorithm_settings.learning_rate) == (100_000, 0.002)
    assert varied(changed, {"seed": 7}, "").seed == 7
    with pytest.raises(UserError, match="NAME=VALUE"):
        with_fields(recipe, ("steps",))
