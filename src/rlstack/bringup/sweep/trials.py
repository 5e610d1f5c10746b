"""The trials of a sweep: draws settings, has them trained over the tuning seeds, and compares them.

All that is known is in files: a trial whose training was killed goes on with it, and one whose trainings have finished
is only told again. So a sweep may end at any moment, and the same folder goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlstack.bringup.sweep.plan import MEAN, TUNING_SEED, Plan, figure
from rlstack.bringup.sweep.study import STUDY, Study, best_of
from rlstack.bringup.sweep.training_job import TRIES, TRIES_OF_KILLED, USER_ERROR, Job, Workers
from rlstack.errors import UserError
from rlstack.files import write_atomically, write_json
from rlstack.training.recipe import Recipe, recipe_to_yaml

_WAIT_S = 0.1
_LOOK_S = 1.0
"""Between two looks at what running trainings have written."""
_LOCKED = "Another process trains in"
_FULL = "Make room there"
OUTCOME = "outcome.json"
_HOPELESS = 3
"""First trials all of which fail if something else is wrong than their settings."""

OnDone = Callable[[float, int], None]
"""Takes how many are done, those that run in part, of how many; it is called often."""


@dataclass
class Trial:
    """A trial and its trainings.

    Args:
        number: Its number.
        values: Its settings by path.
        jobs: One training for each seed.
    """

    number: int
    values: dict[str, Any]
    jobs: list[Job]
    waiting: list[Job] = field(default_factory=list)
    tries: dict[Path, int] = field(default_factory=dict)
    failed: str = ""
    """Why it failed."""
    behind: bool = False
    """Whether it was ended early."""
    reported: int = 0

    @property
    def over(self) -> bool:
        """Whether nothing of it is left to be done."""
        return bool(self.failed) or self.behind or all(job.figures() is not None for job in self.jobs)


@dataclass(frozen=True)
class Outcome:
    """What became of a trial.

    Args:
        number: The trial.
        values: Its settings by path.
        state: ``complete``, ``ended early`` or ``failed``.
        value: Mean of the figure over its seeds; of one that ended early, so far; None if it failed.
        each: The figure of each seed.
        over: By how much it is beyond each constraint; 0 or less: within.
        cpu_seconds: Of all its trainings; of one that ended early, of learning until its last evaluation.
        why: Why it failed.
    """

    number: int
    values: dict[str, Any]
    state: str
    value: float | None
    each: tuple[float, ...]
    over: tuple[float, ...]
    cpu_seconds: float
    why: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is complete and keeps all constraints."""
        return self.state == "complete" and all(beyond <= 0.0 for beyond in self.over)


def job_of(folder: Path, name: str, recipe: Recipe[Any, Any], until: float = 1.0, begins: float = 0.0) -> Job:
    """Return a training, whose recipe file is written if it is not there.

    Args:
        folder: Where its recipe file and its run's folder are.
        name: Of both.
        recipe: Its recipe, if that is not written yet.
        until: Share of its steps after which it is done.
        begins: Share of its steps that were done before.
    """
    file = folder / f"{name}.yaml"
    if not file.is_file():
        write_atomically(file, recipe_to_yaml(recipe))
    return Job(file, folder / name, recipe.threads, until, begins, recipe.processes)


def run_jobs(jobs: Sequence[Job], workers: Workers, on_done: OnDone, failed: dict[Job, str] | None = None) -> None:
    """Have trainings done that are not yet.

    Args:
        jobs: They.
        workers: Where they run.
        on_done: Takes the progress.
        failed: Takes those that fail, and why; None: none may.

    Raises:
        UserError: One fails.
    """
    waiting, tries = [job for job in jobs if job.figures() is None], dict.fromkeys(jobs, 0)
    done, said_s = len(jobs) - len(waiting), 0.0
    while done < len(jobs):
        while waiting and workers.free():
            workers.start(waiting.pop(0))
        for job, status in workers.ended():
            if job not in tries:  # of a trial that ended early
                continue
            tries[job] += 1
            if job.figures() is not None:
                done += 1
            elif why := _reason(job, status, tries[job]):
                if failed is None:
                    raise UserError(f"{job.folder}: {why}")
                failed[job] = why
                done += 1
            else:
                waiting.append(job)
        if time.monotonic() - said_s >= _LOOK_S or done == len(jobs):
            said_s = time.monotonic()
            running = [job for job in jobs if job.figures() is None and job not in (failed or ())]
            on_done(done + sum(job.share() for job in running), len(jobs))
        time.sleep(_WAIT_S)


class Trials:
    """Runs a sweep's trials.

    Args:
        folder: The sweep's folder.
        plan: Its plan.
        workers: Where trainings run.
    """

    def __init__(self, folder: Path, plan: Plan, workers: Workers) -> None:
        self.folder, self.plan, self.workers = folder, plan, workers
        self.study = Study(folder / STUDY, plan.ranges, plan.search, plan.prune, plan.lower, plan.seed)
        self.outcomes: list[Outcome] = []
        self._open: dict[int, Trial] = {}
        self._looked_s = self._said_s = 0.0

    def run(self, count: int, on_done: OnDone) -> list[Outcome]:
        """Do trials until ``count`` are over, those from before included, and return their outcomes in order.

        Raises:
            UserError: The disk is full, or all of the first trials fail; what is there is kept.
        """
        for number in range(min(count, self.study.drawn)):
            if self._known(number) is None:
                self._begin(number)
        self._draw(count)
        self._tell(count)
        while True:
            over = len(self.outcomes) >= count
            if over or time.monotonic() - self._said_s >= _LOOK_S:
                self._said_s = time.monotonic()
                on_done(self._done(), count)
            if over:
                return self.outcomes
            self._fill()
            ended = self.workers.ended()
            for job, status in ended:
                self._ended(job, status)
            if self._look() or ended:
                self._tell(count)
            time.sleep(_WAIT_S)

    def _done(self) -> float:
        """Return how many trials are over, those that run in part."""
        shares = [sum(job.share() for job in one.jobs) / len(one.jobs) for one in self._open.values() if not one.over]
        return len(self.outcomes) + sum(shares)

    def best(self) -> Outcome | None:
        """Return the best complete trial that keeps the constraints."""
        kept = {one.number: one.value for one in self.outcomes if one.counts and one.value is not None}
        number = best_of(kept, self.plan.lower)
        return None if number is None else self.outcomes[number]

    def _folder(self, number: int) -> Path:
        return self.folder / "trials" / f"{number:04d}"

    def _known(self, number: int) -> Outcome | None:
        """Return a trial's outcome, if it is over."""
        file = self._folder(number) / OUTCOME
        if not file.is_file():
            return None
        data = json.loads(file.read_text(encoding="utf-8"))
        return Outcome(**{**data, "each": tuple(data["each"]), "over": tuple(data["over"])})

    def _begin(self, number: int) -> None:
        values, folder = self.study.values(number), self._folder(number)
        seeds = range(TUNING_SEED, TUNING_SEED + self.plan.seeds)
        jobs = [job_of(folder, f"seed-{seed}", self.plan.tuned(values, seed)) for seed in seeds]
        trial = Trial(number, values, jobs)
        trial.waiting = [job for job in jobs if job.figures() is None]
        self._open[number] = trial

    def _draw(self, count: int) -> None:
        """Draw the trials that are next; each knows the outcomes of all but ``window`` before it, and of no others."""
        while self.study.drawn < min(count, self.study.told + self.plan.window):
            self._begin(self.study.drawn)

    def _fill(self) -> None:
        """Start trainings while there is room; those of the first trials first."""
        in_turn = self.plan.prune != "none"  # seeds of a trial one after another: one may be enough to see
        while self.workers.free():
            ready = [
                trial for trial in self._open.values() if trial.waiting and not (in_turn and self._is_running(trial))
            ]
            if not ready:
                return
            self.workers.start(ready[0].waiting.pop(0))

    def _is_running(self, trial: Trial) -> bool:
        done = sum(job.figures() is not None for job in trial.jobs)
        return len(trial.jobs) - done > len(trial.waiting)

    def _ended(self, job: Job, status: int) -> None:
        trial = next((one for one in self._open.values() if job in one.jobs), None)
        if trial is None or job.figures() is not None:
            return
        trial.tries[job.folder] = trial.tries.get(job.folder, 0) + 1
        if why := _reason(job, status, trial.tries[job.folder]):
            self._give_up(trial)
            trial.failed = why
        else:
            trial.waiting.insert(0, job)

    def _look(self) -> bool:
        """End the trials that fall behind the others, at times; return whether one did."""
        if self.plan.prune == "none" or time.monotonic() - self._looked_s < _LOOK_S:
            return False
        self._looked_s, found = time.monotonic(), False
        for trial in self._open.values():
            if trial.over:
                continue
            seen = [self._shown(job) for job in trial.jobs]
            at = sum(map(len, seen))
            if at > trial.reported:
                trial.reported = at
                each = self._each(seen)
                if self.study.falls_behind(trial.number, at, sum(each) / len(each)):
                    self._give_up(trial)
                    trial.behind = found = True
        return found

    def _shown(self, job: Job) -> list[float]:
        name = self.plan.figure.removeprefix(MEAN)
        return [float(one[name]) for one in job.evaluations() if name in one]

    def _each(self, seen: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """Return the figure by the evaluations so far of each training that has any."""
        if self.plan.figure.startswith(MEAN):
            return tuple(sum(one) / len(one) for one in seen if one)
        return tuple((min if self.plan.lower else max)(one) for one in seen if one)

    def _give_up(self, trial: Trial) -> None:
        for job in trial.jobs:
            if job not in trial.waiting and job.figures() is None:
                self.workers.stop(job)
        trial.waiting.clear()

    def _tell(self, count: int) -> None:
        """Tell what is over, in order, and draw what then is next; see :class:`.Study`."""
        while True:
            number = len(self.outcomes)
            outcome = self._known(number)
            if outcome is None:
                trial = self._open.get(number)
                if trial is None or not trial.over:
                    return
                outcome = self._outcome(trial)
                write_json(self._folder(number) / OUTCOME, vars(outcome))
            if self.study.told == number:  # else before an interruption
                self.study.tell(number, outcome.value, outcome.state == "ended early", outcome.over)
                self._draw(count)
            self.outcomes.append(outcome)
            self._open.pop(number, None)
            if number == _HOPELESS - 1 and all(one.state == "failed" for one in self.outcomes):
                raise UserError(f"All of the first {_HOPELESS} trials failed, the last one so: {outcome.why}")

    def _outcome(self, trial: Trial) -> Outcome:
        told = [job.figures() for job in trial.jobs]
        figures = [found for found in told if found is not None]
        spent = sum(map(_spent_s, trial.jobs, told))
        if trial.failed:
            return Outcome(trial.number, trial.values, "failed", None, (), (), spent, trial.failed)
        if trial.behind:
            each = self._each([self._shown(job) for job in trial.jobs])
            return Outcome(trial.number, trial.values, "ended early", sum(each) / len(each), each, (), spent)
        try:
            each = tuple(figure(one, self.plan.figure) for one in figures)
            over = tuple(self.plan.over(figures))
        except UserError as error:  # such as the error of a policy that never stayed close, which is not finite
            return Outcome(trial.number, trial.values, "failed", None, (), (), spent, str(error))
        return Outcome(trial.number, trial.values, "complete", self.plan.value(figures), each, over, spent)


def _spent_s(job: Job, figures: dict[str, Any] | None) -> float:
    """Return the CPU-seconds that a training took: by its figures, or without them by its last evaluation."""
    told = job.evaluations()[-1:] if figures is None else [figures]
    return float(told[0].get("cpu_seconds", 0.0)) if told else 0.0


def _reason(job: Job, status: int, tries: int) -> str:
    """Return why a training that ended is not tried again; empty: it is.

    Raises:
        UserError: The disk is full: no training can go on.
    """
    said = job.why()
    if _FULL in said:
        raise UserError(said)
    if status == USER_ERROR and _LOCKED not in said:
        return said
    most = TRIES_OF_KILLED if status < 0 else TRIES
    return "" if tries < most else f"it ended {tries} times with status {status}: {said}"
