"""Populations whose trainings are over at once: who goes on from whom, with what, and that kills make no difference."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.sweep.command import Sweep
from rlstack.bringup.sweep.comparison import compare_best
from rlstack.bringup.sweep.exploration import best_first, first_settings, next_settings
from rlstack.bringup.sweep.gaussian_process import DriftingProcess
from rlstack.bringup.sweep.plan import TUNING_SEED, Constraint
from rlstack.bringup.sweep.population import Population, check_population
from rlstack.bringup.sweep.population_report import descent, rows, write_population
from rlstack.bringup.sweep.space import read_ranges
from rlstack.errors import UserError
from rlstack.files import write_atomically, write_json
from rlstack.training.recipe import read_recipe
from rlstack.training.run_files import CHECKPOINT, FIGURES, RECIPE
from tests.bringup.sweep.test_trials import RATE
from tests.bringup.sweep.test_trials import RECIPE as TRAINED
from tests.bringup.sweep.test_trials import plan as plan_of_trials

CLIP = "algorithm_settings.max_gradient_norm"
VARY = ("learning_rate=log:1e-4:1e-2", "max_gradient_norm=0.5:2")
RANGES = read_ranges(VARY, TRAINED)


def plan(search="pbt", **changes):
    usual = {"search": search, "ranges": RANGES, "population": 4, "generations": 3, "seeds": 1}
    return plan_of_trials(**{**usual, **changes})


class Parts:
    """Workers that do a part of a training at once, and end in a random order.

    A checkpoint holds the figure so far, to which each part adds the more the nearer its learning rate is to 1e-3.
    """

    def __init__(self, seed=0, dies=0.0, status=1, broken=()):
        self.random, self.dies, self.status, self.broken = random.Random(seed), dies, status, broken
        self.running = []
        self.started = 0

    def free(self):
        return len(self.running) < 3

    def start(self, job):
        self.started += 1
        self.running.append(job)

    def ended(self):
        if not self.running or self.random.random() < 0.3:
            return []
        job = self.running.pop(self.random.randrange(len(self.running)))
        if job.folder.name in self.broken or self.random.random() < self.dies:
            job.log.write_text("rlstack: it broke\n")
            return [(job, 2 if job.folder.name in self.broken else self.status)]
        recipe, checkpoint = job.folder / RECIPE, job.folder / CHECKPOINT
        if not recipe.is_file():
            write_atomically(recipe, job.recipe.read_text())
        text = recipe.read_text()  # reading it as YAML takes ten times as long
        begun = float(checkpoint.read_text()) if checkpoint.is_file() else 0.0
        spent = json.loads((job.folder / FIGURES).read_text())["cpu_seconds"] if begun else 0.0
        rates = re.findall(r"(?:^ *learning_rate: |:learning_rate=)([\d.e-]+)", text, re.M)
        found = begun + 1.0 - abs(math.log10(float(rates[-1] if len(rates) == 1 else rates[-2])) + 3.0) / 2.0
        write_atomically(checkpoint, str(found))
        figures = {"finished": job.until == 1.0, "until": job.until, "cpu_seconds": spent + 2.0}
        write_json(
            job.folder / FIGURES, {**figures, "evaluation": {"success": found}, "evaluations": [{"success": found}]}
        )
        return [(job, 0)]

    def stop(self, job):
        raise AssertionError

    def close(self):
        self.running.clear()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("rlstack.bringup.sweep.trials._WAIT_S", 0.0)
    monkeypatch.setattr("rlstack.bringup.sweep.trials._LOOK_S", 0.0)


def nothing(done, count):
    """Take no notice of the progress."""


def train(folder: Path, asked, workers) -> Population:
    population = Population(folder, asked, workers)
    population.run(nothing)
    return population


@pytest.mark.parametrize("search", ["pbt", "pb2"])
def test_neither_order_nor_kills_matter(tmp_path, search):
    class Killed(Exception):
        pass

    asked = plan(search)
    whole = train(tmp_path / "whole", asked, Parts()).past
    chance, kills, started = random.Random(1), 0, 0
    while True:
        workers = Parts(seed=kills, dies=0.1, status=-9)

        def killed(done, count):
            if chance.random() < 0.1:
                raise Killed

        try:
            found = Population(tmp_path / "again", asked, workers).run(killed)
            break
        except Killed:
            kills += 1
        finally:
            started += workers.started
    assert kills > 2 and found == whole and started > 12
    assert sum(one.parent is not None for members in whole for one in members) >= 2
    assert all(one.cpu_seconds == 2.0 for members in whole for one in members)


def test_bad_ones_go_on_from_good_ones_with_other_settings(tmp_path):
    population = train(tmp_path, plan(), Parts())
    past, place = population.past, tmp_path / "members"
    for k, members in enumerate(past[1:], 1):
        order = [one.number for one in best_first(population.plan, past[k - 1])]
        copied = [one for one in members if one.parent is not None]
        assert {one.number for one in copied} == {order[-1]}
        for one in copied:
            parent = past[k - 1][one.parent]
            assert one.parent == order[0] and one.values != parent.values
            mine, theirs = (read_recipe(place / name / RECIPE) for name in (one.run, parent.run))
            assert mine.seed == theirs.seed >= TUNING_SEED
            assert mine.changes[: len(theirs.changes)] == theirs.changes[: len(mine.changes)]
            assert f"{round(k / 3, 6):g}:learning_rate={one.values[RATE]:.6g}" in mine.changes
            assert not (place / past[k - 1][one.number].run / CHECKPOINT).exists()  # nobody goes on from there
    assert len({one.values[RATE] for one in past[0]}) == 4 and {len(members) for members in past} == {4}


def test_the_report_has_the_schedule_and_the_test_trains_it_anew(tmp_path):
    asked = plan(tests=1, constraints=(Constraint("cpu_seconds", True, 100.0),))
    population = train(tmp_path, asked, Parts(seed=2, broken=("02-000",)))
    past, best = population.past, population.as_outcome(population.best())
    assert past[0][2].why == "it broke" and past[1][2].run == "02-001"
    line = descent(past, best.number)
    assert len(line) == 3 and line[-1] == best.number
    test = compare_best(tmp_path, asked, best, Parts(), nothing)
    write_population(tmp_path, asked, past, best, test)
    trained = read_recipe(tmp_path / "best.yaml")
    first = past[0][line[0]]
    assert trained.algorithm_settings.learning_rate == first.values[RATE] and trained.seed == TRAINED.seed
    assert list(trained.changes) == best.values["changes"]
    tested = [read_recipe(file) for file in (tmp_path / "tests").glob("*/best/*.yaml")]
    assert len(tested) == 1 and {one.changes for one in tested} == {trained.changes}
    page = (tmp_path / "sweep.html").read_text()
    assert "4 members, 3 generations (PBT)" in page and "Generation 0, member 2: it broke" in page
    assert "11 figures" in page and f"settings of member {best.number}, as they changed" in page
    assert json.loads((tmp_path / "sweep.json").read_text())["descent"] == line
    table = rows(asked, past)
    assert len(table) == 5 and table[1][0] == str(best.number)


def test_those_that_keep_the_constraints_come_first_and_none_may_count(tmp_path):
    asked = plan(generations=2, constraints=(Constraint("cpu_seconds", True, 1.0),))
    population = train(tmp_path, asked, Parts())
    assert population.best() is None
    assert {row[-1] for row in rows(asked, population.past)[1:]} == {"not cpu_seconds<=1"}
    write_population(tmp_path, asked, population.past, None, None)
    assert not (tmp_path / "best.yaml").exists()


def test_a_population_of_which_all_fail_says_why(tmp_path):
    with pytest.raises(UserError, match="All members of generation 0 failed, the last one so: it broke"):
        train(tmp_path, plan(), Parts(broken=[f"{k:02d}-000" for k in range(4)]))


def test_listed_and_whole_settings_change_to_their_neighbours():
    ranges = read_ranges(("restart=0,0.25,0.5", "window=10:12"), TRAINED)
    asked = plan(ranges=ranges, population=8)
    settings = first_settings(asked)
    assert {one["algorithm_settings.restart"] for one in settings} == {0, 0.25, 0.5}
    assert {one["algorithm_settings.window"] for one in settings} == {10, 11, 12}
    from rlstack.bringup.sweep.exploration import Member

    members = [Member(k, f"{k}", None, values, k / 8, (), 1.0) for k, values in enumerate(settings)]
    for generation in range(1, 20):
        for parent, values in next_settings(asked, [members] * generation)[:2]:
            assert parent in (6, 7) and values["algorithm_settings.window"] in (10, 11, 12)
            assert values["algorithm_settings.restart"] in (0, 0.25, 0.5)


def test_pb2_goes_where_improvements_were_and_not_where_others_are():
    rng = np.random.default_rng(0)
    x = rng.random((40, 1))
    gains = -((x[:, 0] - 0.7) ** 2)
    model = DriftingProcess(x, np.repeat(np.arange(5.0), 8), (gains - gains.mean()) / gains.std())
    grid = np.linspace(0.0, 1.0, 101)[:, None]
    none = np.empty((0, 1))
    best = float(grid[np.argmax(model.upper_bound(grid, 5.0, none)), 0])
    assert abs(best - 0.7) < 0.15
    alone, crowded = (model.upper_bound(np.array([[best]]), 5.0, tried)[0] for tried in (none, np.full((5, 1), best)))
    assert crowded < alone


def test_what_was_long_ago_counts_less():
    x = np.tile(np.linspace(0.0, 1.0, 8), 6)[:, None]
    times = np.repeat(np.arange(6.0), 8)
    drifting = np.where(times < 4, 1.0 - 2.0 * x[:, 0], 2.0 * x[:, 0] - 1.0)  # what was good is bad by now
    model = DriftingProcess(x, times, drifting)
    low, high = model.upper_bound(np.array([[0.0], [1.0]]), 6.0, np.empty((0, 1)))
    assert model.drift > 0.0 and high > low


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"vary": ("envs=16:64",)},
            "envs cannot change in mid-run. The algorithm apg can change: learning_rate, final",
        ),
        ({"search": "pb2", "vary": ("learning_rate=1e-3,1e-2",)}, "learning_rate has listed values, and PB2 searches"),
        ({"population": 1}, "--population and --generations must be at least 2"),
        ({"seeds": 2}, "--seeds and --prune are not allowed"),
    ],
)
def test_what_a_population_cannot_do_is_refused(changes, said):
    vary = {"ranges": read_ranges(changes.pop("vary"), TRAINED)} if "vary" in changes else {}
    with pytest.raises(UserError, match=said):
        check_population(plan(**{**changes, **vary}))


def test_options_of_populations_and_of_trials_exclude_each_other():
    vary = ("learning_rate=log:1e-4:1e-2",)
    with pytest.raises(UserError, match="are of --search pbt and pb2"):
        Sweep("quadrotor_hover", vary, generations=5).run()
    with pytest.raises(UserError, match="has no --trials: give --population"):
        Sweep("quadrotor_hover", vary, search="pbt", trials=5).run()
