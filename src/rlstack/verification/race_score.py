"""Figures of one driver's races in one simulator; see :mod:`rlstack.verification.scores`."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.records import RaceRecord
from rlstack.verification.scores import (
    Figure,
    Score,
    guard_figures,
    mean,
    mean_interval,
    median,
    share,
    time_figures,
)


def score_races(race: RaceRecord, beside: RaceRecord | None = None) -> Score:
    """Return the figures of races.

    Args:
        race: Races of one driver.
        beside: The baseline's races on the first of the same tracks; None: no baseline.
    """
    laps, reference = race.lap_s.shape[1], "the baseline" if beside is None else beside.driver
    there, flying = race.success, race.flying_s
    clearance = race.clearance_m[there]
    ratios: Array | None = None
    if beside is not None:
        many = len(beside)
        if not np.array_equal(beside.seeds, race.seeds[:many]):
            raise ValueError("the baseline's races are not on the same tracks")
        over = flying[:many] / beside.flying_s
        ratios = over[np.isfinite(over)]
    figures = (
        Figure(
            "episodes",
            "Races",
            "count",
            f"Number of races of {laps} laps from rest, each alone on its track.",
            len(race),
        ),
        share(
            "success",
            "Success",
            f"Share of the races whose {laps} laps are driven without touching a wall and in time.",
            there,
            interval=True,
        ),
        share(
            "contact",
            "Contact",
            "Share of the races that end because the car's outline is across a wall.",
            race.contact,
        ),
        share(
            "slow",
            "Out of time",
            "Share of the races given up: slower than 1.5 m/s on average.",
            np.asarray(~there & ~race.contact),
        ),
        Figure(
            "clean_laps",
            "Laps without contact",
            "count",
            "How many laps were driven to their end, in all.",
            race.clean_laps,
        ),
        Figure(
            "lap_s",
            "Flying lap",
            "s",
            "Mean over the races that succeed of the time of the laps after the first, from rest.",
            mean(flying[there]),
        ),
        Figure(
            "lap_ratio",
            "Flying lap over the baseline's",
            "1",
            f"Mean over the tracks that both finish of the flying lap over that of {reference}, which knows the fastest"
            " line around the track and its own pose, in the same simulator.",
            None if ratios is None else mean(ratios),
            None if ratios is None or not ratios.size else mean_interval(ratios),
        ),
        Figure(
            "paired",
            "Tracks compared",
            "count",
            "On how many tracks both finish.",
            None if ratios is None else len(ratios),
        ),
        Figure(
            "first_lap_s",
            "First lap",
            "s",
            "Mean time of the first lap, from rest, of those that succeed.",
            mean(race.lap_s[there, 0]),
        ),
        Figure(
            "speed_m_s",
            "Speed",
            "m/s",
            "Mean over the races that succeed of the length of the middle over the flying lap.",
            mean((race.length_m / flying)[there]),
        ),
        Figure(
            "clearance_m",
            "Clearance, median",
            "m",
            "Median over the races that succeed of the outline's least distance to a wall.",
            median(clearance),
        ),
        Figure(
            "clearance_least_m",
            "Clearance, least",
            "m",
            "The least such distance of all of them.",
            float(clearance.min()) if clearance.size else None,
        ),
        *guard_figures("races", race.interventions),
        *time_figures("races", race.latency_s, race.wall_s),
    )
    return Score(
        figures=figures,
        settings={"reference": "" if beside is None else beside.driver, "laps": laps},
        compared=("success", "lap_ratio"),
    )
