"""Exploration metrics, beside frontier baselines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.exploration_floors import SHARE
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.scores import Figure, Score, guard_figures, mean_interval, share, time_figures


def score_exploration(seen: ExplorationRecord, beside: Mapping[str, ExplorationRecord] | None = None) -> Score:
    """Return the figures of one explorer.

    Args:
        seen: The explorer's record.
        beside: Planners' records on the first of the same grounds, by name; None or empty: none.
    """
    times, unit = seen.time_to(SHARE), "1" if seen.moves else "s"
    time, plural = ("Moves", "moves") if seen.moves else ("Time", "seconds")
    reference, ratio, lead = _compared(seen, times, beside) if beside else ("", None, None)
    figures = (
        Figure("episodes", "Grounds", "count", "Number of unknown grounds, each explored alone.", len(seen)),
        share(
            "success",
            "Success",
            "Share of the grounds of which enough is seen in time without touching anything.",
            seen.success,
            interval=True,
        ),
        share(
            "crashed",
            "Contact",
            "Share of the grounds on which the robot touches something; on grids, on which a move would lead into an"
            " obstacle or over the edge.",
            seen.crashed,
        ),
        Figure(
            "to_90",
            f"{time} to 90%",
            unit,
            f"Mean number of {plural} until 90% of what is to be seen is known; all of the time where it never is.",
            float(times.mean()),
            mean_interval(times),
        ),
        Figure(
            "steps_ratio",
            f"{time} to 90% over the planner's",
            "1",
            f"That mean over the same of {reference or 'the soonest planner'}, on the same grounds.",
            ratio,
        ),
        Figure(
            "least_lead",
            "Least lead in coverage",
            "share",
            "Least difference, over all times, of the mean known share from that of the planner that is best then.",
            lead,
        ),
        Figure(
            "half",
            "Known over half of the time",
            "share",
            "Mean known share over the first half of the time.",
            float(seen.coverage[:, : max(seen.coverage.shape[1] // 2, 1)].mean()),
        ),
        Figure("to_95", f"{time} to 95%", unit, "As to 90%.", float(seen.time_to(0.95).mean())),
        *guard_figures("grounds", seen.interventions),
        *time_figures("grounds", seen.latency_s, seen.wall_s),
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
