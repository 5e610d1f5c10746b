"""Figures of flights in one simulator; see :mod:`rlstack.verification.scores`.

The distance is between the robot's centre of mass and the goal's position; for a goal that moves along a path, its
position at that moment. The window is the samples from ``from_s`` to ``to_s`` seconds after the start, inclusive. A
position that is not finite is infinitely far. Percentiles are of the sorted values without interpolation, so infinite
values stay infinite; medians of an even number average the two in the middle.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_outcome import judge_window, outcome
from rlstack.verification.scores import (
    Figure,
    Score,
    group_scores,
    mean,
    mean_figure,
    median_interval,
    percentile,
    run_figures,
    share,
)
from rlstack.verification.trial_records import FlightRecord


def score_flights(episodes: FlightRecord, criteria: SuccessCriteria) -> Score:
    """Return the figures of flights.

    Args:
        episodes: The flights, with arrays of shape (T, N, ...).
        criteria: The task's criteria.

    Raises:
        UserError: There are no episodes, or they are too short for the window.
    """
    result, window = outcome(episodes, criteria), judge_window(episodes, criteria)
    kept = ~result.lost
    radius = f"{criteria.radius_m:g} m"
    while_judged = f"from second {criteria.from_s:g} to second {criteria.to_s:g}"
    of_kept = "over the episodes that were not lost"
    command = episodes.command[window][:, kept]
    effort = _mean_change(command)
    guarded = np.zeros(len(episodes), int) if episodes.interventions is None else episodes.interventions
    figures = [
        Figure("episodes", "Episodes", "count", "Number of flights.", len(episodes)),
        share(
            "success",
            "Success",
            f"Share of the episodes in which no sample {while_judged} is farther than {radius} from the goal.",
            result.success,
            interval=True,
        ),
        share(
            "within_0_1",
            "Within 0.1 m",
            f"Share of the episodes in which no sample {while_judged} is farther than 0.1 m from the goal.",
            result.close,
        ),
        share(
            "lost",
            "Lost",
            "Share of the episodes with any sample, from the start to the end, that is farther than"
            f" {criteria.lost_m:g} m from the goal or whose position, orientation or velocity is not finite.",
            result.lost,
        ),
        Figure(
            "error_m",
            "Position error",
            "m",
            f"Median over all episodes of the mean distance from the goal {while_judged}.",
            float(np.median(result.error_m)),
            median_interval(result.error_m),
        ),
        _detail(
            "error_p95_m",
            "Position error, 95th percentile",
            "m",
            "95th percentile over all episodes of that mean distance.",
            percentile(result.error_m, 95),
        ),
        _detail(
            "error_mean_m",
            "Position error, mean without losses",
            "m",
            f"Mean of that distance {of_kept}.",
            mean(result.error_m[kept]),
        ),
        Figure(
            "rmse_m",
            "RMSE",
            "m",
            f"Median over all episodes of the root of the mean squared distance from the goal {while_judged}.",
            float(np.median(result.rmse_m)),
        ),
        _detail(
            "rmse_p95_m",
            "RMSE, 95th percentile",
            "m",
            "95th percentile over all episodes of that root mean square.",
            percentile(result.rmse_m, 95),
        ),
        Figure(
            "recover_s",
            "Time to recover",
            "s",
            "Median over all episodes of the time of the first sample from which on the distance never exceeds"
            f" {radius} until the end; an episode that ends outside counts as never.",
            float(np.median(result.recover_s)),
        ),
        _detail(
            "recover_p95_s",
            "Time to recover, 95th percentile",
            "s",
            "95th percentile over all episodes of that time.",
            percentile(result.recover_s, 95),
        ),
        _detail(
            "never_recovered",
            "Never recovered",
            "share",
            f"Share of the episodes whose last sample is farther than {radius}.",
            float(np.isinf(result.recover_s).mean()),
        ),
        _detail(
            "excursion_m",
            "Largest distance, median",
            "m",
            "Median over all episodes of the largest distance from the goal at any time.",
            float(np.median(result.excursion_m)),
        ),
        _detail(
            "excursion_max_m",
            "Largest distance, worst",
            "m",
            "Largest distance from the goal at any time in any episode.",
            float(result.excursion_m.max()),
        ),
        _detail(
            "tilt_rad",
            "Tilt",
            "rad",
            f"Mean angle between the body's z axis and up {while_judged}, {of_kept}.",
            mean(frames.tilt(episodes.orientation[window][:, kept])),
        ),
        _detail(
            "speed_m_s",
            "Speed",
            "m/s",
            f"Mean speed {while_judged}, {of_kept}.",
            mean(np.linalg.norm(episodes.linear_velocity[window][:, kept], axis=-1)),
        ),
        _detail(
            "command_change_rad_s",
            "Command change",
            "rad/s",
            f"Mean absolute change of a rotor's command from one control period to the next {while_judged}, {of_kept}.",
            mean(np.abs(np.diff(command, axis=0))),
        ),
        replace(
            mean_figure("effort_rad_s", "Effort", "rad/s", f"Mean {of_kept} of each one's command change.", effort),
            detail=True,
        ),
        *run_figures("episodes", replace(episodes, interventions=guarded)),
    ]

    def group(some: NDArray[np.bool_]) -> tuple[Figure, ...]:
        return (
            Figure("episodes", "Episodes", "count", "", int(some.sum())),
            share("success", "Success", "", result.success[some], interval=True),
            share("lost", "Lost", "", result.lost[some]),
            Figure("error_m", "Position error", "m", "", float(np.median(result.error_m[some]))),
        )

    return Score(
        figures=tuple(figures),
        settings=asdict(criteria),
        compared=("success", "error_m", "effort_rad_s"),
        groups=group_scores(episodes.labels, group),
    )


def _detail(key: str, title: str, unit: str, definition: str, value: float | None) -> Figure:
    return Figure(key, title, unit, definition, value, detail=True)


def _mean_change(command: Array) -> Array:
    """Return each flight's mean change of commands (T, N, rotors); records over topics may lack some commands."""
    change = np.abs(np.diff(command, axis=0))
    known = np.isfinite(change)
    counts = known.sum(axis=(0, 2))
    sums = np.where(known, change, 0.0).sum(axis=(0, 2))
    return np.asarray(sums[counts > 0] / counts[counts > 0])
