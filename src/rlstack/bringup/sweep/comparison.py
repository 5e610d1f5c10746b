"""The test after a sweep: its best settings and the recipe as it is, trained with seeds that no trial had.

The held-out starts are others, too. Each look at the test's figures before more trials makes them tuning figures, so
each test has new seeds, and the report says how many there were.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.sweep.plan import TEST_SEED, Plan, figure_if_any
from rlstack.bringup.sweep.training_job import Workers
from rlstack.bringup.sweep.trials import OnDone, Outcome, job_of, run_jobs
from rlstack.training.run_statistics import Estimate, interquartile_mean, probability_of_improvement

BEST, AS_IS = "best", "recipe"


@dataclass(frozen=True)
class Comparison:
    """A test's figures.

    Args:
        number: Its number from 1; those before it were looked at before more trials.
        trial: Number of the trial whose settings are tested.
        scores: Figures of ``best`` and ``recipe``, one for each seed; None where a training has no such figure, as of
            the error of a policy that never came close: it counts as worse than any that has one.
        middle: Interquartile means of those that have one; None if none has.
        better: How probable it is that a training with the best settings is better than one of the recipe.
        cpu_seconds: Mean of a training of each.
    """

    number: int
    trial: int
    scores: dict[str, tuple[float | None, ...]]
    middle: dict[str, Estimate | None]
    better: Estimate
    cpu_seconds: dict[str, float]


def compare_best(folder: Path, plan: Plan, best: Outcome, workers: Workers, on_done: OnDone) -> Comparison:
    """Do the test of a sweep's best trial, or go on with it.

    Args:
        folder: The sweep's folder.
        plan: Its plan.
        best: The best trial.
        workers: Where trainings run.
        on_done: Takes the progress.

    Raises:
        UserError: A training fails.
    """
    number = _number(folder, best.number)
    first = TEST_SEED + (number - 1) * plan.tests
    place = folder / "tests" / f"{number}-trial-{best.number:04d}"
    tried: dict[str, dict[str, Any]] = {BEST: best.values, AS_IS: {}}
    jobs = {
        name: [
            job_of(place / name, f"seed-{seed}", plan.tuned(values, seed, selection=number))
            for seed in range(first, first + plan.tests)
        ]
        for name, values in tried.items()
    }
    run_jobs([job for pair in zip(*jobs.values()) for job in pair], workers, on_done)
    found = {name: [one for job in own if (one := job.figures()) is not None] for name, own in jobs.items()}
    scores = {name: tuple(figure_if_any(one, plan.figure) for one in own) for name, own in found.items()}
    sign = -1.0 if plan.lower else 1.0
    ranked = {name: np.array([-np.inf if one is None else sign * one for one in own]) for name, own in scores.items()}
    known = {name: np.array([one for one in own if one is not None]) for name, own in scores.items()}
    return Comparison(
        number=number,
        trial=best.number,
        scores=scores,
        middle={name: interquartile_mean([own]) if len(own) else None for name, own in known.items()},
        better=probability_of_improvement([ranked[BEST]], [ranked[AS_IS]]),
        cpu_seconds={name: float(np.mean([one["cpu_seconds"] for one in own])) for name, own in found.items()},
    )


def _number(folder: Path, trial: int) -> int:
    """Return the number of the test of a trial: the one that it has, or the next one."""
    known = {int(k): int(of) for k, _, of in (one.name.split("-") for one in (folder / "tests").glob("*-trial-*"))}
    return next((k for k, of in known.items() if of == trial), max(known, default=0) + 1)
