"""Sweeps whose trainings are over at once: what is drawn, told, kept, tried again, and found again."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pytest

from rlstack.bringup.sweep.command import Sweep, _Told
from rlstack.bringup.sweep.comparison import compare_best
from rlstack.bringup.sweep.plan import (
    TUNING_SEED,
    Constraint,
    Plan,
    check_figures,
    figure,
    figure_if_any,
    read_constraint,
    read_plan,
    write_plan,
)
from rlstack.bringup.sweep.report import rows, told, verdict, write_report
from rlstack.bringup.sweep.space import read_ranges
from rlstack.bringup.sweep.training_job import Job
from rlstack.bringup.sweep.trials import Outcome, Trials
from rlstack.errors import UserError
from rlstack.training.recipe import load_recipe, read_recipe
from rlstack.training.run_files import EVALUATIONS, FIGURES
from rlstack.training.run_summaries import find_runs

RECIPE = load_recipe("quadrotor_hover")
RATE = "algorithm_settings.learning_rate"


VARY = ("learning_rate=log:1e-4:1e-2", "envs=16:64")
RANGES = read_ranges(VARY, RECIPE)


def plan(**changes) -> Plan:
    ranges = read_ranges(changes.pop("vary"), RECIPE) if "vary" in changes else RANGES
    usual = {
        "recipe": RECIPE,
        "ranges": ranges,
        "search": "tpe",
        "prune": "none",
        "trials": 14,
        "seeds": 2,
        "tests": 3,
        "window": 2,
        "figure": "success",
        "lower": False,
        "constraints": (),
        "seed": 0,
    }
    return Plan(**{**usual, **changes})


class Instant:
    """Workers whose trainings end in a random order, with a success that their settings decide."""

    def __init__(self, count=2, seed=0, dies=0.0, status=1, evaluations=1):
        self.count, self.random, self.dies, self.status = count, random.Random(seed), dies, status
        self.evaluations = evaluations
        self.running: list[Job] = []
        self.started = 0

    def free(self):
        return len(self.running) < self.count

    def start(self, job):
        self.started += 1
        self.running.append(job)
        if self.evaluations > 1:
            self._write(job, EVALUATIONS, [{"success": self._success(job), "cpu_seconds": 1.0}])

    def ended(self):
        if not self.running or self.random.random() < 0.3:
            return []
        job = self.running.pop(self.random.randrange(len(self.running)))
        if self.random.random() < self.dies:
            job.log.write_text("rlstack: it broke\n")
            return [(job, self.status)]
        data = {"finished": True, "cpu_seconds": 2.0, "evaluation": {"success": self._success(job)}}
        data["evaluations"] = [data["evaluation"]]
        self._write(job, FIGURES, data)
        return [(job, 0)]

    def stop(self, job):
        if job in self.running:
            self.running.remove(job)

    def close(self):
        self.running.clear()

    def _success(self, job):
        text = job.recipe.read_text()  # reading it as YAML takes ten times as long
        rate, seed = (float(re.search(rf"^ *{name}: (\S+)$", text, re.M)[1]) for name in ("learning_rate", "seed"))
        return 1.0 - abs(math.log10(rate) + 3.0) / 2.0 + 1e-3 * (seed % 10)

    def _write(self, job, name, data):
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / name).write_text(json.dumps(data))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr("rlstack.bringup.sweep.trials._WAIT_S", 0.0)
    monkeypatch.setattr("rlstack.bringup.sweep.trials._LOOK_S", 0.0)


def run(folder: Path, asked: Plan, workers) -> Trials:
    folder.mkdir(exist_ok=True)
    trials = Trials(folder, asked, workers)
    trials.run(asked.trials, lambda done, count: None)
    return trials


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_what_is_tried_does_not_depend_on_the_order_in_which_trainings_end(tmp_path, search):
    found = [
        run(tmp_path / f"{k}", plan(search=search, seeds=1), Instant(count, seed)).outcomes
        for k, (count, seed) in enumerate([(1, 0), (5, 2)])
    ]
    assert found[0] == found[1]
    assert len({one.values[RATE] for one in found[0]}) == 14
    assert all(len(one.each) == 1 and one.cpu_seconds == 2.0 for one in found[0])


def test_a_sweep_that_is_killed_anywhere_goes_on_and_loses_and_repeats_nothing(tmp_path):
    whole = run(tmp_path / "whole", plan(), Instant()).outcomes

    class Killed(Exception):
        pass

    chance, kills, folder = random.Random(3), 0, tmp_path / "killed"
    folder.mkdir()
    started = 0
    while True:
        workers = Instant(seed=kills)

        def killed(done, count):
            if chance.random() < 0.2:
                raise Killed

        trials = Trials(folder, plan(), workers)
        try:
            found = trials.run(14, killed)
            break
        except Killed:
            kills += 1
        finally:
            started += workers.started
    assert kills > 5 and found == whole
    assert len(list((folder / "trials").glob("*/*/training.json"))) == 28
    assert trials.study.told == trials.study.drawn == 14


def test_a_training_that_dies_is_tried_again(tmp_path):
    workers = Instant(dies=0.2)
    found = run(tmp_path / "sweep", plan(trials=5), workers).outcomes
    assert workers.started > 10 and [one.state for one in found].count("complete") >= 4


def test_one_that_is_killed_again_and_again_is_still_tried(tmp_path):
    found = run(tmp_path / "sweep", plan(trials=3, seeds=1), Instant(dies=0.7, status=-9)).outcomes
    assert [one.state for one in found] == ["complete"] * 3


def test_one_that_is_refused_fails_its_trial_and_a_sweep_of_such_ends(tmp_path):
    with pytest.raises(UserError, match="first 3 trials failed, the last one so: it broke"):
        run(tmp_path / "sweep", plan(), Instant(dies=1.0, status=2))
    assert len(list((tmp_path / "sweep" / "trials").glob("*/outcome.json"))) == 3


@pytest.mark.parametrize("compared", ["success", "mean.success"])
def test_trials_that_fall_behind_end_early(tmp_path, compared):
    asked = plan(prune="asha", search="random", seeds=1, trials=20, figure=compared)
    found = run(tmp_path / "sweep", asked, Instant(evaluations=2)).outcomes
    states = [one.state for one in found]
    assert states.count("ended early") > 4 and states.count("complete") > 2
    best = max((one for one in found if one.state == "complete"), key=lambda one: one.value)
    early = [one for one in found if one.state == "ended early"]
    assert all(best.value >= one.value - 1e-9 for one in early)
    assert {one.cpu_seconds for one in early} == {1.0}, "what they took is counted, too"


def test_each_trial_is_told_when_it_is_over_and_those_from_before_are_not(tmp_path, capsys):
    (tmp_path / "sweep").mkdir()
    found = []
    for count in (2, 4):
        trials = Trials(tmp_path / "sweep", plan(seeds=1, prune="asha"), Instant())
        trials.run(count, _Told(trials))
        found.append([line for line in capsys.readouterr().err.splitlines() if line.startswith("trial ")])
    assert [line.partition(":")[0] for lines in found for line in lines] == [f"trial {k}" for k in range(4)]
    values = [one.value for one in trials.outcomes]
    best = [value == max(values[: k + 1]) for k, value in enumerate(values)]
    assert [", the best so far (" in line for lines in found for line in lines] == best
    rate = trials.outcomes[0].values[RATE]
    assert found[0][0].startswith(f"trial 0: success {values[0]:.4g}, the best so far (learning_rate {rate:.4g}, envs ")
    failed = Outcome(0, dict.fromkeys((one.path for one in RANGES), 1.0), "failed", None, (), (), 0.0, "it broke")
    assert told(plan(), [failed]) == "trial 0 failed: it broke (learning_rate 1, envs 1)"


def test_a_grid_is_tried_whole(tmp_path):
    asked = plan(vary=("learning_rate=log:1e-4:1e-2:3", "envs=16,32"), search="grid", trials=6, seeds=1)
    found = run(tmp_path / "sweep", asked, Instant()).outcomes
    assert len({tuple(one.values.values()) for one in found}) == 6
    with pytest.raises(UserError, match=r"envs has endless values: give points"):
        Trials(tmp_path, plan(vary=("envs=16:64",), search="grid"), Instant())


def test_the_best_trial_keeps_the_constraints(tmp_path):
    asked = plan(constraints=(Constraint("cpu_seconds", True, 1.0),), trials=4)
    trials = run(tmp_path / "sweep", asked, Instant())
    assert trials.best() is None and not any(one.counts for one in trials.outcomes)
    assert {row[-1] for row in rows(asked, trials.outcomes)[1:]} == {"not cpu_seconds<=1"}
    assert read_constraint("lost >= 0.5") == Constraint("lost", False, 0.5)
    assert read_constraint("success_chairs + people>=.5") == Constraint("success_chairs + people", False, 0.5)
    with pytest.raises(UserError, match="FIGURE<=NUMBER"):
        read_constraint("lost=3")


def test_an_unknown_figure_is_named_with_those_that_there_are(tmp_path):
    with pytest.raises(UserError, match=r"no figure sucess\. It has: success, cpu_seconds"):
        run(tmp_path / "sweep", plan(figure="sucess"), Instant())
    assert figure({"evaluation": {"lost": 1}}, "lost") == 1.0


def test_a_figure_that_no_training_has_is_refused_before_the_first_one(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"has a figure sucess\. Its evaluations have episodes, success, within_0_1"):
        Sweep("quadrotor_hover", VARY, figure="sucess", out=tmp_path / "sweep").run()
    with pytest.raises(UserError, match=r"has a figure mean\.cpu_seconds"):  # only the end of a training has it
        Sweep("quadrotor_hover", VARY, constraint=("mean.cpu_seconds<=3",), out=tmp_path / "sweep").run()
    assert not (tmp_path / "sweep").exists()
    check_figures(RECIPE, ["error_m", "mean.error_m", "cpu_seconds", "margin.mass_scale"])
    check_figures(load_recipe("base_navigation"), ["success_chairs + people"])
    check_figures(load_recipe("table_suite"), ["success_stack", "mean.success_pick"])
    wrong = (("base_navigation", "success_rooms"), ("table_suite", "success_rooms"), ("arm_push", "success_push"))
    for name, misspelt in wrong:
        with pytest.raises(UserError, match=f"has a figure {misspelt}"):
            check_figures(load_recipe(name), [misspelt])
    monkeypatch.setattr("rlstack.kinds.quadrotor.verification.FlightVerification.evaluated", ())
    check_figures(RECIPE, ["sucess"])  # of a task that does not say what it has


def test_a_figure_may_be_the_mean_over_a_training():
    evaluations = [{"success": 0.2, "error_m": 1.0}, {"success": 0.6}]
    assert figure({"evaluations": evaluations}, "mean.success") == pytest.approx(0.4)
    assert figure_if_any({"evaluations": evaluations}, "mean.error_m") is None
    assert figure_if_any({"evaluations": []}, "mean.success") is None


def test_a_sweep_that_is_stopped_says_how_it_goes_on(tmp_path, monkeypatch, capsys):
    def stopped(folder, asked, workers):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlstack.bringup.sweep.ray_workers.RayWorkers", lambda address, jobs, folder: Instant(jobs))
    monkeypatch.setattr("rlstack.bringup.sweep.command._trials", stopped)
    folder = tmp_path / "my sweep"
    assert Sweep("quadrotor_hover", VARY, ray="local", out=folder).run() == 130
    assert f"Go on: rlstack sweep --resume '{folder}' --ray local" in capsys.readouterr().out
    assert Sweep(resume=folder).run() == 130
    assert f"Go on: rlstack sweep --resume '{folder}'\n" in capsys.readouterr().out


def test_the_best_is_tested_with_seeds_and_starts_that_no_trial_had(tmp_path):
    asked, folder = plan(), tmp_path / "sweep"
    trials = run(folder, asked, Instant())
    best = trials.best()
    assert best.value == max(one.value for one in trials.outcomes)
    test = compare_best(folder, asked, best, Instant(), lambda done, count: None)
    assert test.better.value == 1.0 and len(test.scores["best"]) == 3
    recipes = [read_recipe(file) for file in (folder / "tests").glob("1-*/*/*.yaml")]
    assert len(recipes) == 6 and {one.selection.seed for one in recipes} == {RECIPE.selection.seed + 1}
    assert not {one.seed for one in recipes} & {TUNING_SEED, TUNING_SEED + 1, RECIPE.seed}
    again = compare_best(folder, asked, best, Instant(dies=1.0), lambda done, count: None)
    assert again == test
    other = next(one for one in trials.outcomes if one is not best)
    second = compare_best(folder, asked, other, Instant(), lambda done, count: None)
    assert second.number == 2
    write_report(folder, asked, trials.outcomes, best, second, trials.study.importances())
    page = (folder / "sweep.html").read_text()
    assert "It is test 2: figures of those before it were known meanwhile." in page
    assert read_recipe(folder / "best.yaml").algorithm_settings.learning_rate == best.values[RATE]
    assert json.loads((folder / "sweep.json").read_text())["importances"][RATE] > 0.5


@pytest.mark.parametrize(("without", "better"), [(1, 2 / 3), (3, 0.0)])
def test_a_training_of_the_test_without_the_figure_counts_as_worse(tmp_path, without, better):
    asked, folder = plan(), tmp_path / "sweep"
    best = run(folder, asked, Instant()).best()
    compare_best(folder, asked, best, Instant(), lambda done, count: None)
    files = sorted((folder / "tests").glob(f"1-*/best/*/{FIGURES}"))
    for file in files[:without]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "evaluation": {"lost": 1.0}}))
    test = compare_best(folder, asked, best, Instant(), lambda done, count: None)
    assert test.scores["best"].count(None) == without and test.better.value == pytest.approx(better)
    told = "1 of 3 have no such figure, and count as worse" if without == 1 else "none (no training has this figure)"
    assert told in verdict(asked, test)
    write_report(folder, asked, [best], best, test, {})
    assert json.loads((folder / "sweep.json").read_text())["test"]["scores"]["best"].count(None) == without


def test_a_plan_is_read_as_it_was_written(tmp_path):
    asked = plan(constraints=(Constraint("lost", True, 0.1),))
    write_plan(tmp_path, asked)
    assert read_plan(tmp_path) == asked
    with pytest.raises(UserError, match="No run is in"):  # a sweep's folder is none itself
        find_runs([tmp_path])
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        read_plan(tmp_path)


def test_how_far_a_training_is_stands_in_what_it_printed(tmp_path: Path) -> None:
    job = Job(tmp_path / "run.yaml", tmp_path / "run", 1)
    assert job.share() == 0.0
    job.log.write_text("100 robots\n  7%  0.0M steps\n 42%  0.1M steps, lost 3%\n")
    assert job.share() == 0.42
