"""Figures of one driver's races in one simulator; see :mod:`rlstack.verification.scores`."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.scores import (
    Figure,
    Score,
    mean,
    mean_interval,
    median,
    run_figures,
    share,
)
from rlstack.verification.trial_records import RaceRecord


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
            f"Share of the races with all {laps} laps finished in time and without a contact.",
            there,
            interval=True,
        ),
        share(
            "contact",
            "Contact",
            "Share of the races that end in a contact with a wall.",
            race.contact,
        ),
        share(
            "slow",
            "Timed out",
            "Share of the races slower than 1.5 m/s on average.",
            np.asarray(~there & ~race.contact),
        ),
        Figure(
            "clean_laps",
            "Laps without contact",
            "count",
            "Total number of finished laps.",
            race.clean_laps,
        ),
        Figure(
            "lap_s",
            "Flying lap",
            "s",
            "Time of the laps after the first, which starts from rest; mean over successful races.",
            mean(flying[there]),
        ),
        Figure(
            "lap_ratio",
            "Flying lap over the baseline's",
            "1",
            f"Flying lap time over that of {reference}, which knows the fastest line and its own pose, in the same"
            " simulator; mean over the tracks that both finish.",
            None if ratios is None else mean(ratios),
            None if ratios is None or not ratios.size else mean_interval(ratios),
        ),
        Figure(
            "paired",
            "Tracks compared",
            "count",
            "Number of tracks that both finish.",
            None if ratios is None else len(ratios),
        ),
        Figure(
            "first_lap_s",
            "First lap",
            "s",
            "Time of the first lap, from rest; mean over successful races.",
            mean(race.lap_s[there, 0]),
        ),
        Figure(
            "speed_m_s",
            "Speed",
            "m/s",
            "Length of the centre line over the flying lap time; mean over successful races.",
            mean((race.length_m / flying)[there]),
        ),
        Figure(
            "clearance_m",
            "Clearance, median",
            "m",
            "Least distance between the car's outline and a wall; median over successful races.",
            median(clearance),
        ),
        Figure(
            "clearance_least_m",
            "Clearance, least",
            "m",
            "Least such distance in any successful race.",
            float(clearance.min()) if clearance.size else None,
        ),
        *run_figures("races", race),
    )
    return Score(
        figures=figures,
        settings={"reference": "" if beside is None else beside.driver, "laps": laps},
        compared=("success", "lap_ratio"),
    )
