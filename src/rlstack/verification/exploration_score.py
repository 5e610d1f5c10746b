"""Exploration metrics, beside frontier baselines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.exploration_trials import SHARE
from rlstack.verification.scores import Figure, Score, mean_figure, run_figures, share
from rlstack.verification.trial_records import ExplorationRecord


def score_exploration(seen: ExplorationRecord, beside: Mapping[str, ExplorationRecord] | None = None) -> Score:
    """Return the figures of one explorer.

    Args:
        seen: The explorer's record.
        beside: Planners' records at the first of the same sites, by name; None or empty: none.
    """
    times, unit = seen.time_to(SHARE), "1" if seen.moves else "s"
    time, plural = ("Moves", "moves") if seen.moves else ("Time", "seconds")
    reference, ratio, lead = _compared(seen, times, beside) if beside else ("", None, None)
    figures = (
        Figure("episodes", "Sites", "count", "Number of unknown sites, each explored by one robot.", len(seen)),
        share(
            "success",
            "Success",
            "Share of the sites with enough coverage in time and without a contact.",
            seen.success,
            interval=True,
        ),
        share(
            "crashed",
            "Contact",
            "Share of the sites with a contact; on grids, with a move into an obstacle or over the edge.",
            seen.crashed,
        ),
        mean_figure(
            "to_90",
            f"{time} to 90%",
            unit,
            f"Mean number of {plural} to 90% coverage; the whole duration if it is never reached.",
            times,
        ),
        Figure(
            "steps_ratio",
            f"{time} to 90% over the planner's",
            "1",
            f"That mean over the mean of {reference or 'the fastest planner'} on the same sites.",
            ratio,
        ),
        Figure(
            "least_lead",
            "Least lead in coverage",
            "share",
            "Least difference, over time, between the mean coverage and that of the best planner at that time.",
            lead,
        ),
        Figure(
            "half",
            "Coverage in the first half",
            "share",
            "Mean coverage over the first half of the time.",
            float(seen.coverage[:, : max(seen.coverage.shape[1] // 2, 1)].mean()),
        ),
        Figure("to_95", f"{time} to 95%", unit, "As to 90%.", float(seen.time_to(0.95).mean())),
        *run_figures("sites", seen),
    )
    settings = {"reference": reference, "unit": "moves" if seen.moves else "s"}
    return Score(figures=figures, settings=settings, compared=("success", "to_90"))


def _compared(
    seen: ExplorationRecord, times: Array, beside: Mapping[str, ExplorationRecord]
) -> tuple[str, float, float]:
    """Return the fastest planner, the time relative to its, and the least lead over the best planner at each time."""
    many = min(len(seen), *(len(one) for one in beside.values()))
    steps = min(seen.coverage.shape[1], *(one.coverage.shape[1] for one in beside.values()))
    soonest = min(beside, key=lambda name: float(beside[name].time_to(SHARE)[:many].mean()))
    best = np.max([one.coverage[:many, :steps].mean(axis=0) for one in beside.values()], axis=0)
    ratio = float(times[:many].mean() / max(float(beside[soonest].time_to(SHARE)[:many].mean()), 1e-9))
    return soonest, ratio, float((seen.coverage[:many, :steps].mean(axis=0) - best).min())
