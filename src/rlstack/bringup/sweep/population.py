"""A population of trainings: after each part of their steps, bad ones go on from good ones' checkpoints.

A member's run is an ordinary one, which stops at each generation's end. One that goes on from another's checkpoint is
a copy of that run, whose recipe has further ``changes``; so each run's recipe holds all its settings from the first
step on, and training it anew with another seed repeats the schedule.

Generations are compared when all their trainings are over, and what comes next follows from their figures alone: so
neither order nor kills matter. A generation's file is written before any copy is made, and all copies before any of
the next generation's trainings begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.bringup.sweep.exploration import Member, best_first, first_settings, next_settings
from rlstack.bringup.sweep.plan import TUNING_SEED, Plan, figure
from rlstack.bringup.sweep.training_job import Job, Workers
from rlstack.bringup.sweep.trials import OnDone, Outcome, job_of, run_jobs
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.training.recipe import Recipe
from rlstack.training.recipe_changes import Change, changeable_in_run
from rlstack.training.run_folder import copy_run, drop_state, recipe_of

POPULATIONS = ("pbt", "pb2")
"""Searches by a population."""
_MEMBERS, _GENERATIONS = "members", "generations"
_SETTINGS = "algorithm_settings."
CHANGES = "changes"
"""The recipe's field for them."""


def check_population(plan: Plan) -> None:
    """Refuse what a population cannot do, before its folder is made.

    Raises:
        UserError: A setting cannot change in mid-run, or a number is not allowed.
    """
    recipe, option = plan.recipe, f"--search {plan.search}"
    able = changeable_in_run(recipe.algorithm, recipe.algorithm_settings)
    fixed = [one.path for one in plan.ranges if one.path.removeprefix(_SETTINGS) not in able]
    if fixed:
        raise UserError(
            f"{option}: {', '.join(fixed)} cannot change in mid-run. The algorithm {recipe.algorithm} can change:"
            f" {', '.join(able) or 'nothing'}. Other settings are found by --search tpe."
        )
    if plan.search == "pb2" and (listed := [one.name for one in plan.ranges if one.values]):
        raise UserError(
            f"{option}: {', '.join(listed)} has listed values, and PB2 searches ranges: give low:high, or --search pbt."
        )
    if plan.population < 2 or plan.generations < 2:
        raise UserError(f"{option}: --population and --generations must be at least 2.")
    if plan.seeds > 1 or plan.prune != "none":
        raise UserError(
            f"{option}: --seeds and --prune are not allowed: each member has a seed of its own, and bad ones are"
            " replaced. Give --population and --generations."
        )
    if recipe.changes:
        raise UserError(f"{option}: the recipe has changes of its own, which are the population's to make.")


class Population:
    """Trains the members of a population, generation by generation.

    Args:
        folder: The sweep's folder.
        plan: Its plan.
        workers: Where trainings run.
    """

    def __init__(self, folder: Path, plan: Plan, workers: Workers) -> None:
        self.folder, self.plan, self.workers = folder, plan, workers
        self.past: list[list[Member]] = []
        """Each generation's members, in the order of their numbers."""

    def run(self, on_done: OnDone) -> list[list[Member]]:
        """Train all generations, those from before included, and return :attr:`past`.

        Raises:
            UserError: The disk is full, a figure is unknown, or all members fail; what is there is kept.
        """
        plan = self.plan
        while len(self.past) < plan.generations:
            number = len(self.past)
            known = _read(self._file(number))
            if known is None:
                known = self._generation(number, on_done)
                write_json(self._file(number), [asdict(one) for one in known])
            if all(one.value is None for one in known):
                raise UserError(f"All members of generation {number} failed, the last one so: {known[-1].why}")
            self.past.append(known)
        return self.past

    def best(self) -> Member | None:
        """Return the best member of the last generation, if one keeps the constraints."""
        first = best_first(self.plan, self.past[-1])[0]
        return first if first.counts else None

    def schedule(self, member: Member) -> dict[str, Any]:
        """Return what a member was trained with since the first step, as values of a recipe by path."""
        data = schema.to_data(recipe_of(self._run(member.run)))
        settings = {one.path: data["algorithm_settings"][one.name] for one in self.plan.ranges}
        return {**settings, CHANGES: list(data[CHANGES])}

    def as_outcome(self, member: Member) -> Outcome:
        """Return a member as the trial whose settings are tested."""
        assert member.value is not None
        spent = sum(one.cpu_seconds for members in self.past for one in members)
        return Outcome(
            member.number, self.schedule(member), "complete", member.value, (member.value,), member.over, spent
        )

    def _file(self, number: int) -> Path:
        return self.folder / _GENERATIONS / f"{number:03d}.json"

    def _run(self, name: str) -> Path:
        return self.folder / _MEMBERS / name

    def _share(self, number: int) -> float:
        """Return the share of the steps that is done before a generation."""
        return round(number / self.plan.generations, 6)

    def _generation(self, number: int, on_done: OnDone) -> list[Member]:
        """Train a generation."""
        plan, before = self.plan, self.past[-1] if self.past else []
        if before:
            born = self._prepared(before, next_settings(plan, self.past))
        else:
            born = [
                Member(k, f"{k:02d}-000", None, values, None, (), 0.0) for k, values in enumerate(first_settings(plan))
            ]
        jobs = [self._job(one, number) for one in born]
        failed: dict[Job, str] = {}

        def progress(done: float, count: int) -> None:
            on_done(number * count + done, plan.generations * count)

        run_jobs(jobs, self.workers, progress, failed)
        spent = {one.number: self._spent(number - 1, one) for one in born}
        return [self._judged(one, job, failed.get(job, ""), spent[one.number]) for one, job in zip(born, jobs)]

    def _prepared(self, before: Sequence[Member], chosen: Sequence[tuple[int, dict[str, Any]]]) -> list[Member]:
        """Return the next generation's members, whose runs are there."""
        number, born = len(self.past), []
        runs = {one.number: one.run for one in before}
        for one, (parent, values) in zip(before, chosen):
            if parent == one.number:
                born.append(Member(one.number, one.run, None, values, None, (), 0.0))
                continue
            name = f"{one.number:02d}-{number:03d}"
            if not self._run(name).is_dir():
                copy_run(self._run(runs[parent]), self._run(name), self._changed(runs[parent], values, number))
            born.append(Member(one.number, name, parent, values, None, (), 0.0))
        for one, now in zip(before, born):
            if now.run != one.run and self._run(one.run).is_dir():
                drop_state(self._run(one.run))
        return born

    def _changed(self, run: str, values: dict[str, Any], number: int) -> Recipe[Any, Any]:
        """Return the recipe of a run with the settings of another from a generation on."""
        recipe, after = recipe_of(self._run(run)), self._share(number)
        changes = [Change(after, path.removeprefix(_SETTINGS), value) for path, value in values.items()]
        return replace(recipe, changes=(*recipe.changes, *map(str, changes)))

    def _job(self, one: Member, number: int) -> Job:
        until = 1.0 if number + 1 == self.plan.generations else self._share(number + 1)
        place, begins = self.folder / _MEMBERS, self._share(number)
        if (place / f"{one.run}.yaml").is_file():
            recipe = self.plan.recipe  # it is written already, and threads are the same
        elif self._run(one.run).is_dir():
            recipe = recipe_of(self._run(one.run))
        else:
            recipe = self.plan.tuned(one.values, TUNING_SEED + one.number)
        return job_of(place, one.run, recipe, until, begins)

    def _judged(self, one: Member, job: Job, why: str, before: float) -> Member:
        found = job.figures()
        if found is None:
            return replace(one, why=why)
        latest = {name: x for name, x in found["evaluations"][-1].items() if name not in ("step", "cpu_seconds")}
        figures = {**found, "evaluation": latest}  # of the policy as it is now, not of the best one so far
        one = replace(one, cpu_seconds=round(float(found["cpu_seconds"]) - before, 2))
        try:
            return replace(one, value=figure(figures, self.plan.figure), over=tuple(self.plan.over([figures])))
        except UserError as error:  # such as the error of a policy that never stayed close, which is not finite
            return replace(one, why=str(error))

    def _spent(self, number: int, one: Member) -> float:
        """Return the CPU-seconds of a member's run, and of those that it was copied from, up to a generation."""
        spent, who = 0.0, one.number if one.parent is None else one.parent
        for k in range(number, -1, -1):
            then = self.past[k][who]
            spent += then.cpu_seconds
            who = who if then.parent is None else then.parent
        return spent


def _read(file: Path) -> list[Member] | None:
    if not file.is_file():
        return None
    data = json.loads(file.read_text(encoding="utf-8"))
    return [Member(**{**one, "over": tuple(one["over"])}) for one in data]
