"""Figures of manipulation trials in one simulator; see :mod:`rlstack.verification.scores`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.verification.scores import (
    Figure,
    Score,
    group_scores,
    mean,
    median,
    median_interval,
    percentile,
    run_figures,
    share,
)
from rlstack.verification.trial_records import ManipulationRecord


def score_arm(tried: ManipulationRecord, done: str, lost: str = "") -> Score:
    """Return the figures of manipulation trials.

    Args:
        tried: The trials.
        done: The success criterion, in words.
        lost: What else fails a trial for good, in words; empty: nothing.
    """
    errors = np.asarray(tried.error_m[tried.success])
    figures = (
        Figure("episodes", "Trials", "count", "Number of trials, each from another start to another goal.", len(tried)),
        share("success", "Success", f"Share of the trials that succeed: {done}.", tried.success, interval=True),
        share(
            "lost",
            "Lost",
            f"Share of the trials whose object left the table,{f' {lost},' if lost else ''} or whose state became"
            " non-finite.",
            tried.lost,
        ),
        Figure(
            "time_s",
            "Time",
            "s",
            "Mean time to success over the trials that succeed.",
            mean(tried.time_s[tried.success]),
        ),
        Figure(
            "error_m",
            "Error at the end",
            "m",
            "Median over the trials that succeed of the distance to the goal at the end.",
            median(errors),
            median_interval(errors) if errors.size else None,
        ),
        Figure(
            "error_p95_m",
            "Error at the end, 95th percentile",
            "m",
            "95th percentile over the trials that succeed of that distance.",
            percentile(errors, 95.0) if errors.size else None,
        ),
        *run_figures("trials", tried),
    )

    def of_kind(hits: NDArray[np.bool_]) -> tuple[Figure, ...]:
        return (
            Figure("episodes", "Trials", "count", "", int(hits.sum())),
            share("success", "Success", "", tried.success[hits], interval=True),
            share("lost", "Lost", "", tried.lost[hits]),
        )

    groups = {} if tried.labels is None else group_scores(tried.labels, of_kind)
    return Score(figures=figures, groups=groups, settings={"done": done}, compared=("success", "error_m"))
