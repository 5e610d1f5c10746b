"""Settings that change in mid-run: what a recipe may ask for, and that a run that goes on makes no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.training import ALGORITHMS, run
from rlstack.training.algorithm import ChangesInRun
from rlstack.training.recipe import load_recipe
from rlstack.training.recipe_changes import iteration_of, read_changes
from rlstack.training.run_folder import load_checkpoint
from tests.support.learning import small_recipe
from tests.training.test_run import assert_same

CHANGES = ["0.25:entropy=0.01", "0.25:learning_rate=2e-4", "0.25:gae_lambda=0.9"]


def test_a_change_is_the_same_at_once_and_after_a_stop_there_which_ends_with_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe(changes=CHANGES)  # 4 iterations
    part = run.start(recipe, tmp_path / "part", until=0.25)
    assert not part.finished and part.until == 0.25 and [one["step"] for one in part.evaluations] == [512]
    assert load_checkpoint(tmp_path / "part")["iteration"] == 1
    monkeypatch.setattr(run._Run, "_finish", lambda self: self.save())
    monkeypatch.setattr(run._Run, "_evaluation_due", lambda self: False)
    run.start(recipe, tmp_path / "whole")
    run.resume(tmp_path / "part")
    one, other = (load_checkpoint(tmp_path / name) for name in ("whole", "part"))
    assert one["iteration"] == other["iteration"] == 4
    assert_same(one["algorithm"], other["algorithm"])
    asked: Any = SimpleNamespace(iterations=4)
    with pytest.raises(UserError, match=r"0.2 of the run's 4 iterations is less than one"):
        run._Run.stop_after(asked, 0.2)


def test_boundaries_of_as_many_parts_as_iterations_are_apart() -> None:
    for iterations in (1, 5, 7, 30):
        for parts in range(1, iterations + 1):
            ends = [iteration_of(k / parts, iterations) for k in range(parts + 1)]
            assert ends[0] == 0 and ends[-1] == iterations and ends == sorted(set(ends))


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_every_algorithm_can_change_its_learning_rate(name: str) -> None:
    kind = ALGORITHMS.load(name)
    able = getattr(kind, "changeable", ())
    assert "learning_rate" in able and callable(kind.change)
    assert set(able) <= set(kind.Settings.__dataclass_fields__)
    assert isinstance(object.__new__(kind), ChangesInRun)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["0.5:envs=4"], "cannot change envs in mid-run. It can change: learning_rate"),
        (["0.5:hidden=4"], "cannot change hidden in mid-run"),
        (["0.5:learning_rate=-1"], "learning_rate: -1.0 is not allowed"),
        (["1.5:learning_rate=1"], "is not understood: give SHARE:NAME=VALUE"),
        (["0.5 learning_rate"], "is not understood: give SHARE:NAME=VALUE"),
    ],
)
def test_what_cannot_change_is_refused_by_name(changes: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        small_recipe(changes=changes)


def test_ppo_takes_over_what_changes_and_keeps_its_adapted_rate_otherwise() -> None:
    made: Any = object.__new__(ALGORITHMS.load("ppo"))
    before = small_recipe().algorithm_settings
    groups = [{"lr": 5e-4}]
    made.settings = before
    made.learner = SimpleNamespace(learning_rate=5e-4, optimizer=SimpleNamespace(param_groups=groups))
    made.change(replace(before, entropy=0.02, gae_lambda=0.9))
    assert (made.learner.entropy_coef, made.learner.lam, made.learner.learning_rate) == (0.02, 0.9, 5e-4)
    made.change(replace(made.settings, learning_rate=1e-4))
    assert made.learner.learning_rate == groups[0]["lr"] == 1e-4 and made.settings.entropy == 0.02


def test_what_learns_elsewhere_changes_nothing() -> None:
    recipe = load_recipe("arm_push")
    assert len(read_changes(["0.5:learning_rate=1e-3"], recipe.algorithm, recipe.algorithm_settings, "here")) == 1

    apart = replace(load_recipe("arm_push").algorithm_settings, apart=True)
    with pytest.raises(UserError, match="here: changes: the algorithm rlpd cannot change learning_rate"):
        read_changes(["0.5:learning_rate=1e-3"], "rlpd", apart, "here")
