"""`rlstack sweep`: the command's options."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro

from rlstack.errors import UserError
from rlstack.progress import StageLines, say

if TYPE_CHECKING:
    from rlstack.bringup.sweep.plan import Plan
    from rlstack.bringup.sweep.space import Range
    from rlstack.bringup.sweep.training_job import Workers
    from rlstack.bringup.sweep.trials import Trials

_TRIALS = 40
"""By default."""
_SWEEP_LOCK = "sweep.lock"
_EVERY_S = 30.0
"""Between two lines about how far the trials are."""


@dataclass(frozen=True)
class Sweep:
    """Train a recipe with other settings and several seeds, and find the best ones.

    Each trial trains with the same seeds, in processes of this machine or of a Ray cluster. The best trial's settings
    are then tested against the recipe as it is, with seeds and held-out starts that no trial had. Ctrl-C ends it, and
    nothing is lost: `rlstack sweep --resume FOLDER` goes on, with more trials, too.
    """

    recipe: tyro.conf.Positional[str] = ""
    """The recipe: a name or a file."""
    vary: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=RANGE ...")] = ()
    """Settings and their ranges: learning_rate=log:1e-4:1e-2 envs=64:512 algorithm_settings.layer_norm=true,false; with
    :POINTS at the end, that many points."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """Recipe fields that all trainings share, such as steps=500000."""
    trials: int | None = None
    """Number of trials; default: 40, of a grid all its points."""
    seeds: int = 1
    """Trainings of each trial; their mean counts."""
    tests: int = 5
    """Trainings in the test of the best settings, and as many of the recipe as it is; 0: no test."""
    search: Literal["random", "tpe", "grid", "pbt", "pb2"] = "tpe"
    """How settings are chosen: at random, by what did well before (tree-structured Parzen estimator), or all points; or
    by a population, whose members change in mid-run: at random (PBT) or by what improved them before (PB2)."""
    population: int = 8
    """Members of a population, with pbt and pb2."""
    generations: int = 10
    """Parts of a training, after each of which a quarter of the members goes on from a better one's checkpoint, with
    other settings."""
    prune: Literal["none", "asha"] = "none"
    """asha: end trials early whose evaluations fall behind (asynchronous successive halving). Which ones then depends
    on the order in which trials run; all else does not."""
    figure: str = "success"
    """Figure of the best policy's evaluation, as in training.json, or a margin of its reality grid, such as
    margin.mass_scale; mean.success: mean over all evaluations of a training, which is higher if it rises sooner."""
    lower: bool = False
    """Whether a lower figure is better, such as an error."""
    constraint: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIGURE<=NUMBER ...")] = ()
    """Bounds that the best trial must keep, of such figures: cpu_seconds<=60 margin.mass_scale>=1.3"""
    jobs: int = 0
    """Trainings at a time; default: as many as there are processors for."""
    ray: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """Train on a Ray cluster: local starts one of this machine; ray://HOST:10001 or auto. Default: without Ray."""
    seed: int = 0
    """Of the settings that are drawn."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The sweep's folder, which must not exist yet; default: the next free sweeps/RECIPE-NNN."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Go on with the sweep in a folder; only --trials, --jobs and --ray may be given besides."""

    def run(self) -> int:
        """Do the trials and the test, and print what they found."""
        from rlstack.bringup.sweep.plan import read_plan, write_plan
        from rlstack.files import check_folder, lock
        from rlstack.training.command import import_torch
        from rlstack.training.run_folder import new_folder

        self._check()
        import_torch()
        if self.resume is not None:
            folder, plan = self.resume, read_plan(self.resume)
            if self.trials is not None and plan.generations:
                raise UserError("--resume: a population has no --trials.")
            plan = replace(plan, trials=self._count(plan.search, plan.ranges, plan.trials))
        else:
            plan = self._plan()
            folder = self.out or new_folder(Path(self.recipe).stem, Path("sweeps"))
            if folder.exists():
                raise UserError(f"{folder} exists already: choose another --out, or go on with --resume {folder}.")
            check_folder(folder.parent, "--out")
        _check_begin(plan)
        if self.resume is None:
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise UserError(f"--out: {folder} cannot be made: {error.strerror}.") from error
        held = lock(
            folder, _SWEEP_LOCK, f"Another sweep runs in {folder}: wait until it ends, or choose another --out."
        )
        try:
            write_plan(folder, plan)
            return self._run(folder.absolute(), plan)
        except UserError as error:
            raise UserError(f"{error} Then go on with `{self._again(folder)}`.") from error
        finally:
            os.close(held)

    def _run(self, folder: Path, plan: Plan) -> int:
        from rlstack.bringup.sweep.population import POPULATIONS
        from rlstack.bringup.sweep.ray_workers import RayWorkers
        from rlstack.bringup.sweep.report import BEST_RECIPE, PAGE
        from rlstack.bringup.sweep.training_job import LocalWorkers

        jobs = self.jobs or plan.window
        each = f"{plan.seeds} trainings" if plan.seeds > 1 else "a training"
        parts = f"{plan.trials} trials of {each}"
        if plan.search in POPULATIONS:
            parts = f"{plan.population} members, {plan.generations} generations"
        print(f"Sweep of {plan.recipe.name} in {folder}: {parts}, {jobs} at a time", flush=True)
        workers = RayWorkers(self.ray, jobs, folder) if self.ray else LocalWorkers(jobs)
        try:
            found = (_population if plan.search in POPULATIONS else _trials)(folder, plan, workers)
        except KeyboardInterrupt:
            print(f"\nStopped; nothing is lost. Go on: {self._again(folder)}", flush=True)
            return 130
        finally:
            workers.close()
        print(found.table)
        if not found.any:
            print("None is complete and keeps the constraints.")
            return 1
        print(f"Recipe:  {folder / BEST_RECIPE}\nReport:  {folder / PAGE}\nNext:    rlstack fly {folder / BEST_RECIPE}")
        return 0

    def _again(self, folder: Path) -> str:
        """Return the command that goes on with the sweep in a folder as it ran."""
        on_ray = ("--ray", self.ray) if self.ray else ()
        return shlex.join(("rlstack", "sweep", "--resume", str(folder), *on_ray))

    def _check(self) -> None:
        """Refuse numbers that are not allowed, and options that do not go together."""
        if (self.trials is not None and self.trials < 1) or self.seeds < 1 or self.tests < 0 or self.jobs < 0:
            raise UserError("--trials and --seeds must be at least 1, --tests and --jobs at least 0.")
        if self.resume is None and not (self.recipe and self.vary):
            raise UserError(
                "Name a recipe and what to vary: rlstack sweep quadrotor_hover --vary learning_rate=log:1e-4:1e-2"
            )
        if self.resume is not None:
            usual = Sweep()
            others = [name for name in vars(self) if name not in ("resume", "trials", "jobs", "ray")]
            if changed := [name for name in others if getattr(self, name) != getattr(usual, name)]:
                raise UserError(f"--resume: {', '.join(changed)} cannot be changed: begin a new sweep.")

    def _plan(self) -> Plan:
        from rlstack.bringup.sweep.plan import Plan, check_figures, read_constraint, with_margins
        from rlstack.bringup.sweep.population import POPULATIONS
        from rlstack.bringup.sweep.space import read_ranges, with_fields
        from rlstack.training.recipe import load_recipe

        of_population = self.search in POPULATIONS
        if not of_population and (self.population, self.generations) != (Sweep.population, Sweep.generations):
            raise UserError("--population and --generations are of --search pbt and pb2: name one of them.")
        if of_population and self.trials is not None:
            raise UserError(f"--search {self.search} has no --trials: give --population and --generations.")
        constraints = tuple(map(read_constraint, self.constraint))
        recipe = with_fields(load_recipe(self.recipe), self.set)
        named = [self.figure, *(one.figure for one in constraints)]
        check_figures(recipe, named)
        recipe = with_margins(recipe, named)
        ranges = read_ranges(self.vary, recipe)
        usual = max(1, (os.cpu_count() or 1) // (recipe.threads * recipe.processes)) if recipe.device == "cpu" else 1
        return Plan(
            recipe=recipe,
            ranges=ranges,
            search=self.search,
            prune=self.prune,
            trials=self._count(self.search, ranges, _TRIALS),
            seeds=self.seeds,
            tests=self.tests,
            window=self.jobs or usual,
            figure=self.figure,
            lower=self.lower,
            constraints=constraints,
            seed=self.seed,
            population=self.population if of_population else 0,
            generations=self.generations if of_population else 0,
        )

    def _count(self, search: str, ranges: Sequence[Range], usual: int) -> int:
        """Return the number of trials."""
        size = math.prod(max(len(one.values), 1) for one in ranges)
        if search != "grid":
            return self.trials or usual
        if self.trials is not None and self.trials > size:
            raise UserError(f"--trials: {self.trials} is not allowed: the grid has {size} points.")
        return self.trials or size


class _Told:
    """Says how far a sweep's trials are, and what becomes of each."""

    def __init__(self, trials: Trials) -> None:
        self._trials, self._lines = trials, StageLines(every_s=_EVERY_S)
        self._before: int | None = None

    def __call__(self, done: float, count: int) -> None:
        from rlstack.bringup.sweep.report import told

        outcomes = self._trials.outcomes
        if self._before is None:  # those of an earlier run of the command
            self._before = len(outcomes)
        for number in range(self._before, len(outcomes)):
            say(told(self._trials.plan, outcomes[: number + 1]))
        self._before = len(outcomes)
        self._lines("trials", done, count)


class _Found(NamedTuple):
    """What a sweep says at its end, and whether anything in it counts."""

    table: str
    any: bool


def _trials(folder: Path, plan: Plan, workers: Workers) -> _Found:
    """Do the trials of a sweep and the test, and write their report."""
    from rlstack.bringup.sweep.comparison import compare_best
    from rlstack.bringup.sweep.report import table, write_report
    from rlstack.bringup.sweep.trials import Trials

    trials = Trials(folder, plan, workers)
    outcomes = trials.run(plan.trials, _Told(trials))
    best, test = trials.best(), None
    write_report(folder, plan, outcomes, best, None, trials.study.importances())
    if best is not None and plan.tests:
        test = compare_best(folder, plan, best, workers, partial(StageLines(), "test, trainings"))
        write_report(folder, plan, outcomes, best, test, trials.study.importances())
    return _Found(table(plan, outcomes, test), best is not None)


def _population(folder: Path, plan: Plan, workers: Workers) -> _Found:
    """Train a population, do the test of its best schedule, and write their report."""
    from rlstack.bringup.sweep.comparison import compare_best
    from rlstack.bringup.sweep.population import Population
    from rlstack.bringup.sweep.population_report import table, write_population

    population = Population(folder, plan, workers)
    past = population.run(partial(StageLines(), "parts of trainings"))
    first, test = population.best(), None
    best = None if first is None else population.as_outcome(first)
    write_population(folder, plan, past, best, None)
    if best is not None and plan.tests:
        test = compare_best(folder, plan, best, workers, partial(StageLines(), "test, trainings"))
        write_population(folder, plan, past, best, test)
    return _Found(table(plan, past, test), best is not None)


def _check_begin(plan: Plan) -> None:
    """Refuse a sweep that cannot begin, before its folder is made."""
    from rlstack.bringup.sweep.population import POPULATIONS, check_population
    from rlstack.bringup.sweep.study import STUDY, Study

    if plan.search in POPULATIONS:
        check_population(plan)
        return
    with tempfile.TemporaryDirectory() as empty:
        Study(Path(empty) / STUDY, plan.ranges, plan.search, plan.prune, plan.lower, plan.seed)
