"""What races are worth: the figures of one driver in one simulator, each with its exact definition beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.metrics import Figure, described, figure, percentile, wilson
from rlstack.verification.records import RaceRecord
from rlstack.verification.transfer import Estimate, mean
from rlstack.verification.trials import TrialCell


@dataclass(frozen=True, kw_only=True)
class RaceScore:
    """The figures of one driver's races; the text beside each field is its definition."""

    reference: str
    """What laps are compared with; empty: nothing."""
    laps: int
    """Of each race."""

    episodes: int = figure("Races", "count", "Number of races of {laps} laps from rest, each alone on its track.")
    success: float = figure(
        "Success", "share", "Share of the races whose {laps} laps are driven without touching a wall and in time."
    )
    success_low: float = figure("Success, low end", "share", "Lower end of the Wilson 95% interval of that share.")
    success_high: float = figure("Success, high end", "share", "Upper end of the Wilson 95% interval of that share.")
    contact: float = figure(
        "Contact", "share", "Share of the races that end because the car's outline is across a wall."
    )
    slow: float = figure("Out of time", "share", "Share of the races given up: slower than 1.5 m/s on average.")
    clean_laps: int = figure("Laps without contact", "count", "How many laps were driven to their end, in all.")
    lap_s: float | None = figure(
        "Flying lap", "s", "Mean over the races that succeed of the time of the laps after the first, from rest."
    )
    lap_ratio: float | None = figure(
        "Flying lap over the yardstick's",
        "1",
        "Mean over the tracks that both finish of the flying lap over that of {reference}, which knows the fastest line"
        " around the track and its own pose, in the same simulator.",
    )
    paired: int | None = figure("Tracks compared", "count", "On how many tracks both finish.")
    first_lap_s: float | None = figure(
        "First lap", "s", "Mean time of the first lap, from rest, of those that succeed."
    )
    speed_m_s: float | None = figure(
        "Speed", "m/s", "Mean over the races that succeed of the length of the middle over the flying lap."
    )
    clearance_m: float | None = figure(
        "Clearance, median", "m", "Median over the races that succeed of the outline's least distance to a wall."
    )
    clearance_least_m: float | None = figure("Clearance, least", "m", "The least such distance of all of them.")
    interventions: int | None = figure("Guard interventions", "count", "How often the guard took over, in all.")
    intervened: float | None = figure("Races with an intervention", "share", "Share of the races with at least one.")
    latency_p99_ms: float | None = figure(
        "Control latency, 99th percentile",
        "ms",
        "99th percentile of the time from sending an observation to the arrival of its command, wall clock.",
    )
    wall_s: float = figure("Time to drive", "s", "Wall time that driving all the races took.")

    ratios: tuple[float, ...] = ()
    """Flying lap over the yardstick's, of each track that both finish."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""
        told = described(self, laps=self.laps, reference=self.reference or "the yardstick")
        return [(one, getattr(self, one.key)) for one in told]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers ready for JSON; those that were not measured are None."""
        return {"reference": self.reference, "laps": self.laps} | {f.key: number for f, number in self.figures()}

    def cell(self) -> TrialCell:
        """Return what the transfer table shows."""
        share = Estimate(100.0 * self.success, 100.0 * self.success_low, 100.0 * self.success_high)
        ratio = mean(100.0 * np.array(self.ratios)) if self.ratios else None
        return TrialCell(self.episodes, {"success, %": share, "lap over the yardstick's, %": ratio})


def score_races(race: RaceRecord, beside: RaceRecord | None = None) -> RaceScore:
    """Return the figures of ``race``; :class:`RaceScore` says what each means.

    Args:
        race: Of one driver.
        beside: The yardstick's races on the first of the same tracks; None: there is none, or these are its own.
    """
    count, there = len(race), race.success
    low, high = wilson(int(there.sum()), count)
    flying = race.flying_s
    ratios: Array | None = None
    if beside is not None:
        many = len(beside)
        if not np.array_equal(beside.seeds, race.seeds[:many]):
            raise ValueError("the yardstick's races are not on the same tracks")
        over = flying[:many] / beside.flying_s
        ratios = over[np.isfinite(over)]
    guarded, latency = race.interventions, race.latency_s
    return RaceScore(
        reference="" if beside is None else beside.driver,
        laps=race.lap_s.shape[1],
        episodes=count,
        success=float(there.mean()),
        success_low=low,
        success_high=high,
        contact=float(race.contact.mean()),
        slow=float((~there & ~race.contact).mean()),
        clean_laps=race.clean_laps,
        lap_s=_mean(flying[there]),
        lap_ratio=None if ratios is None else _mean(ratios),
        paired=None if ratios is None else len(ratios),
        first_lap_s=_mean(race.lap_s[there, 0]),
        speed_m_s=_mean((race.length_m / flying)[there]),
        clearance_m=float(np.median(race.clearance_m[there])) if there.any() else None,
        clearance_least_m=float(race.clearance_m[there].min()) if there.any() else None,
        interventions=None if guarded is None else int(guarded.sum()),
        intervened=None if guarded is None else float((guarded > 0).mean()),
        latency_p99_ms=None if latency is None or not len(latency) else percentile(latency * 1e3, 99.0),
        wall_s=float(race.wall_s),
        ratios=() if ratios is None else tuple(ratios.tolist()),
    )


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
