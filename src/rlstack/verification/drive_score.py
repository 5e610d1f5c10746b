"""What drives are worth: the figures of one driver in one simulator, each with its exact definition beside it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.metrics import Figure, described, figure, percentile, wilson
from rlstack.verification.records import NavigationRecord

PEOPLE_M = 0.2
"""Nearer than this to a person's edge, a robot's edge disturbs them (CrowdNav, Chen et al., arXiv 1809.08835)."""

_Z95 = 1.959963984540054  # two-sided 95% quantile of the standard normal distribution


@dataclass(frozen=True)
class DriveGroup:
    """The ways over one class of maps.

    Args:
        episodes: How many.
        success: Share that arrived without contact.
        success_low, success_high: Wilson 95% interval of that share.
        collided: Share that touched something.
        time_s: Mean time to the goal of those that arrived, s; None: none did.
    """

    episodes: int
    success: float
    success_low: float
    success_high: float
    collided: float
    time_s: float | None


@dataclass(frozen=True, kw_only=True)
class DriveScore:
    """The figures of one driver's ways; the text beside each field is its definition.

    The reference is the classical planner that the task names, on the very same ways in the same simulator, or as many
    of them as it drove. Where no
    drive arrived, or there is no reference, figures of such drives were not measured: None.
    """

    reference: str
    """The planner that is compared with; empty: none."""

    episodes: int = figure("Ways", "count", "Number of ways, each from a start to a goal in a map of its own.")
    success: float = figure(
        "Success",
        "share",
        "Share of the ways on which the robot comes to within {arrival_m:g} m of the goal in the time allowed, before"
        " its footprint touches anything.",
    )
    success_low: float = figure(
        "Success, low end", "share", "Lower end of the Wilson 95% interval of the success share."
    )
    success_high: float = figure(
        "Success, high end", "share", "Upper end of the Wilson 95% interval of the success share."
    )
    collided: float = figure(
        "Collisions", "share", "Share of the ways that end because the footprint overlaps something."
    )
    hit_people: float | None = figure(
        "Collisions with people", "share", "Share of the ways that end because the footprint overlaps a person."
    )
    timed_out: float = figure("Out of time", "share", "Share of the ways that end because the time allowed is over.")
    gave_up: float = figure(
        "Gave up",
        "share",
        "Share of the ways whose time is over while the driver says that the goal cannot be reached.",
    )
    lead: float | None = figure("Lead over the planner", "share", "Success less that of {reference} on the same ways.")
    lead_high: float | None = figure(
        "Lead over the planner, high end",
        "share",
        "Upper end of the 95% interval of that lead: the paired difference after Agresti and Min (Statistics in"
        " Medicine 24, 2005), who add half a way to each of the four outcomes of two drivers.",
    )
    time_s: float | None = figure("Time to the goal", "s", "Mean time to the goal over the ways that succeed.")
    time_ratio: float | None = figure(
        "Time over the planner's",
        "1",
        "Mean time to the goal over that of {reference}, on the ways on which both succeed.",
    )
    paired: int | None = figure("Ways compared", "count", "On how many ways both succeed.")
    path_ratio: float | None = figure(
        "Path over shortest",
        "1",
        "Mean over the ways that succeed of the length driven and the {arrival_m:g} m that are left, over the length of"
        " the shortest way for a disc of the footprint's radius.",
    )
    spl: float = figure(
        "SPL",
        "share",
        "Success weighted by path length (Anderson et al., arXiv 1807.06757): mean over all ways of one over"
        " the path over shortest, or over 1 if that is less; 0 for a way that fails.",
    )
    clearance_m: float | None = figure(
        "Clearance",
        "m",
        "Median over the ways that succeed of the least distance on the way between footprint and obstacles.",
    )
    clearance_least_m: float | None = figure(
        "Clearance, least", "m", "The least such distance of all the ways that succeed."
    )
    speed_m_s: float = figure("Speed", "m/s", "Length driven over time taken, of all ways together.")
    jerk_m_s3: float = figure(
        "Jerk",
        "m/s^3",
        "Median over all ways of the root mean square of the second difference of the measured speed over the squared"
        " control period.",
    )
    turning_rad_s2: float = figure(
        "Change of turning",
        "rad/s^2",
        "Mean magnitude of the change of the commanded turning rate from one period to the next, over the period.",
    )
    disturbed: float | None = figure(
        "People disturbed",
        "share",
        "Share of the time in which the footprint is nearer than {people_m:g} m to a person.",
    )
    interventions: int | None = figure("Guard interventions", "count", "How often the guard took over, in all.")
    intervened: float | None = figure("Ways with an intervention", "share", "Share of the ways with at least one.")
    latency_p50_ms: float | None = figure(
        "Control latency, median",
        "ms",
        "Median time from sending an observation to the arrival of its command on the control path, wall clock.",
    )
    latency_p99_ms: float | None = figure(
        "Control latency, 99th percentile", "ms", "99th percentile of that time over all control periods measured."
    )
    wall_s: float = figure("Time to drive", "s", "Wall time that driving all the ways took.")

    arrival_m: float
    """How near the goal is there, m."""
    by_label: dict[str, DriveGroup] = field(default_factory=dict)
    """The same by class of map, in order of first appearance."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""
        return [(figure, getattr(self, figure.key)) for figure in figures(self)]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers ready for JSON; those that were not measured are None."""
        data: dict[str, Any] = {"reference": self.reference, "arrival_m": self.arrival_m}
        data |= {figure.key: number for figure, number in self.figures()}
        data["by_label"] = {label: dataclasses.asdict(group) for label, group in self.by_label.items()}
        return data


def figures(score: DriveScore) -> list[Figure]:
    """Return the definitions of a score's figures, in report order."""
    reference = score.reference or "the planner"
    return described(score, arrival_m=score.arrival_m, people_m=PEOPLE_M, reference=reference)


def score_drives(drives: NavigationRecord, *, arrival_m: float, beside: NavigationRecord | None = None) -> DriveScore:
    """Return the figures of ``drives``; :class:`DriveScore` says what each means.

    Args:
        drives: Of one driver, N of them.
        arrival_m: How near the goal was there.
        beside: The reference's drives over the first of the same ways; None: there is none, or these are its own.
    """
    there, count = drives.success, len(drives)
    low, high = wilson(int(there.sum()), count)
    over = (drives.length_m + arrival_m) / drives.shortest_m
    latency = None if drives.latency_s is None or not len(drives.latency_s) else drives.latency_s * 1e3
    guarded = drives.interventions
    compared = _compared(drives, beside)
    return DriveScore(
        reference="" if beside is None else beside.driver,
        arrival_m=arrival_m,
        episodes=count,
        success=float(there.mean()),
        success_low=low,
        success_high=high,
        collided=float((drives.ending == "collided").mean()),
        hit_people=None if drives.hit_people is None else float(drives.hit_people.mean()),
        timed_out=float((drives.ending == "timed out").mean()),
        gave_up=float((drives.ending == "gave up").mean()),
        time_s=_mean(drives.time_s[there]),
        path_ratio=_mean(over[there]),
        spl=float(np.where(there, 1.0 / np.maximum(over, 1.0), 0.0).mean()),
        clearance_m=_median(drives.nearest_m[there]),
        clearance_least_m=float(drives.nearest_m[there].min()) if there.any() else None,
        speed_m_s=float(drives.length_m.sum() / max(drives.time_s.sum(), 1e-9)),
        jerk_m_s3=float(np.median(drives.jerk)),
        turning_rad_s2=drives.rate_hz * (_mean(np.abs(np.diff(drives.command[..., -1], axis=0))) or 0.0),
        disturbed=_share_near(drives.people_m),
        interventions=None if guarded is None else int(guarded.sum()),
        intervened=None if guarded is None else float((guarded > 0).mean()),
        latency_p50_ms=None if latency is None else percentile(latency, 50.0),
        latency_p99_ms=None if latency is None else percentile(latency, 99.0),
        wall_s=float(drives.wall_s),
        by_label=_by_kind(drives),
        **compared,
    )


def _compared(drives: NavigationRecord, beside: NavigationRecord | None) -> dict[str, Any]:
    if beside is None:
        return {"lead": None, "lead_high": None, "time_ratio": None, "paired": None}
    drives = drives.take(slice(0, len(beside)))
    if not np.array_equal(beside.shortest_m, drives.shortest_m):
        raise ValueError("the reference's drives are not over the same ways")
    ours, theirs = drives.success, beside.success
    both, count = ours & theirs, len(drives)
    more, less = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    # half a pair to each of the four outcomes keeps an interval where all agree
    difference = (more - less) / (count + 2.0)
    variance = (more + less + 1.0) / (count + 2.0) - difference**2
    ratio = float(drives.time_s[both].mean() / beside.time_s[both].mean()) if both.any() else None
    return {
        "lead": (more - less) / count,
        "lead_high": min(difference + _Z95 * math.sqrt(variance / (count + 2.0)), 1.0),
        "time_ratio": ratio,
        "paired": int(both.sum()),
    }


def _by_kind(drives: NavigationRecord) -> dict[str, DriveGroup]:
    groups = {}
    for kind in dict.fromkeys(drives.labels.tolist()):
        some = drives.take(drives.labels == kind)
        there = some.success
        low, high = wilson(int(there.sum()), len(some))
        groups[str(kind)] = DriveGroup(
            episodes=len(some),
            success=float(there.mean()),
            success_low=low,
            success_high=high,
            collided=float((some.ending == "collided").mean()),
            time_s=_mean(some.time_s[there]),
        )
    return groups


def _share_near(people_m: Array | None) -> float | None:
    return None if people_m is None else _mean((people_m[np.isfinite(people_m)] < PEOPLE_M).astype(float))


def _mean(values: Array) -> float | None:
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size else None


def _median(values: Array) -> float | None:
    return float(np.median(values)) if values.size else None
