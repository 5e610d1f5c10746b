"""Figures of one driver's navigation trials in one simulator; see :mod:`rlstack.verification.scores`.

The reference is the task's classical planner, on the same starts and goals in the same simulator, or the first of them.
Without successful drives, or without a reference, the respective figures are None.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlstack.verification.scores import (
    Figure,
    Score,
    group_scores,
    mean,
    mean_figure,
    median,
    normal_quantile,
    run_figures,
    share,
)
from rlstack.verification.trial_records import NavigationRecord

PEOPLE_M = 0.2
"""Gap below which a robot disturbs a person (CrowdNav, Chen et al., arXiv 1809.08835)."""


def score_drives(drives: NavigationRecord, *, arrival_m: float, beside: NavigationRecord | None = None) -> Score:
    """Return the figures of drives.

    Args:
        drives: N drives of one driver.
        arrival_m: Goal tolerance.
        beside: The reference's drives over the first of the same starts and goals; None: no reference.
    """
    there, reference = drives.success, "the planner" if beside is None else beside.driver
    over = (drives.length_m + arrival_m) / drives.shortest_m
    arrived, kept = drives.time_s[there], drives.nearest_m[there]
    turning = drives.rate_hz * (mean(np.abs(np.diff(drives.command[..., -1], axis=0))) or 0.0)
    people = None if drives.people_m is None else drives.people_m[np.isfinite(drives.people_m)] < PEOPLE_M
    hit_people = None if drives.hit_people is None else float(drives.hit_people.mean())
    figures = (
        Figure(
            "episodes", "Episodes", "count", "Number of episodes, each with its own map, start and goal.", len(drives)
        ),
        share(
            "success",
            "Success",
            f"Share of the episodes in which the robot comes within {arrival_m:g} m of the goal in time and"
            " without a contact.",
            there,
            interval=True,
        ),
        share(
            "collided",
            "Collisions",
            "Share of the episodes that end in a contact of the footprint.",
            drives.ending == "collided",
            interval=True,
        ),
        Figure(
            "hit_people",
            "Collisions with people",
            "share",
            "Share of the episodes that end in a contact with a person.",
            hit_people,
            detail=True,
        ),
        share(
            "timed_out",
            "Timed out",
            "Share of the episodes that end at their time limit.",
            drives.ending == "timed out",
        ),
        share(
            "gave_up",
            "Gave up",
            "Share of the episodes that time out while the driver reports that the goal is unreachable.",
            drives.ending == "gave up",
        ),
        *_compared(drives, beside, reference),
        mean_figure("time_s", "Time to the goal", "s", "Mean time to the goal over successful episodes.", arrived),
        Figure(
            "path_ratio",
            "Path over shortest",
            "1",
            f"Path length plus the remaining {arrival_m:g} m, over the length of the shortest path for a disc of the"
            " footprint's radius; mean over successful episodes.",
            mean(over[there]),
        ),
        Figure(
            "spl",
            "SPL",
            "share",
            "Success weighted by path length (Anderson et al., arXiv 1807.06757): mean over all episodes of"
            " shortest over path length, at most 1; 0 for a failed episode.",
            float(np.where(there, 1.0 / np.maximum(over, 1.0), 0.0).mean()),
        ),
        Figure(
            "clearance_m",
            "Clearance",
            "m",
            "Least distance between footprint and obstacles; median over successful episodes.",
            median(kept),
        ),
        Figure(
            "clearance_least_m",
            "Clearance, least",
            "m",
            "Least such distance in any successful episode.",
            float(kept.min()) if kept.size else None,
            detail=True,
        ),
        Figure(
            "speed_m_s",
            "Speed",
            "m/s",
            "Total path length over total time of all episodes.",
            float(drives.length_m.sum() / max(drives.time_s.sum(), 1e-9)),
            detail=True,
        ),
        Figure(
            "jerk_m_s3",
            "Jerk",
            "m/s^3",
            "Root mean square of the second difference of the measured speed over the squared control period;"
            " median over all episodes.",
            median(drives.jerk),
        ),
        Figure(
            "turning_rad_s2",
            "Turning rate change",
            "rad/s^2",
            "Mean absolute change of the commanded turning rate between periods, over the period.",
            turning,
            detail=True,
        ),
        Figure(
            "disturbed",
            "People disturbed",
            "share",
            f"Share of the time with the footprint within {PEOPLE_M:g} m of a person.",
            None if people is None else mean(people.astype(float)),
            detail=True,
        ),
        *run_figures("episodes", drives),
    )

    def group(which: NDArray[np.bool_]) -> tuple[Figure, ...]:
        some = drives.take(which)
        return (
            Figure("episodes", "Episodes", "count", "", len(some)),
            share("success", "Success", "", some.success, interval=True),
            share("collided", "Collisions", "", some.ending == "collided"),
            Figure("time_s", "Time to the goal", "s", "", mean(some.time_s[some.success])),
        )

    return Score(
        figures=figures,
        settings={"reference": "" if beside is None else beside.driver, "arrival_m": arrival_m},
        compared=("success", "collided", "time_s"),
        groups=group_scores(drives.labels, group),
    )


def score_baseline(planner: NavigationRecord, policy: NavigationRecord, *, arrival_m: float) -> Score:
    """Return the figures of a planner's drives, and the policy's relative to them.

    Args:
        planner: The planner's drives, over the first of the policy's starts and goals.
        policy: The policy's drives.
        arrival_m: Goal tolerance.
    """
    score = score_drives(planner, arrival_m=arrival_m)
    lead, _, ratio, paired = _compared(policy, planner, planner.driver)
    figures = [paired if figure.key == "paired" else figure for figure in score.figures]
    figures += [
        replace(lead, key="policy_lead", title="Policy's lead over this planner"),
        replace(ratio, key="policy_time_ratio", title="Policy's time over this planner's"),
    ]
    return replace(score, figures=tuple(figures))


def _compared(
    drives: NavigationRecord, beside: NavigationRecord | None, reference: str
) -> tuple[Figure, Figure, Figure, Figure]:
    lead = lead_high = ratio = paired = None
    if beside is not None:
        drives = drives.take(slice(0, len(beside)))
        if not np.array_equal(beside.shortest_m, drives.shortest_m):
            raise ValueError("the reference's drives are not over the same episodes")
        ours, theirs = drives.success, beside.success
        both, count = ours & theirs, len(drives)
        more, less = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        # adding half a pair to each of the four outcomes gives an interval even if all agree
        difference = (more - less) / (count + 2.0)
        variance = (more + less + 1.0) / (count + 2.0) - difference**2
        lead = (more - less) / count
        lead_high = min(difference + normal_quantile() * math.sqrt(variance / (count + 2.0)), 1.0)
        ratio = float(drives.time_s[both].mean() / beside.time_s[both].mean()) if both.any() else None
        paired = int(both.sum())
    return (
        Figure(
            "lead",
            "Lead over the planner",
            "share",
            f"Success rate minus that of {reference}, same episodes.",
            lead,
        ),
        Figure(
            "lead_high",
            "Lead over the planner, upper end",
            "share",
            "Upper end of the 95% interval of that lead: the paired difference after Agresti and Min (Statistics in"
            " Medicine 24, 2005), which adds half a pair to each of the four outcomes of two drivers.",
            lead_high,
            detail=True,
        ),
        Figure(
            "time_ratio",
            "Time over the planner's",
            "1",
            f"Mean time to the goal over that of {reference}, in episodes where both succeed.",
            ratio,
        ),
        Figure("paired", "Episodes compared", "count", "Number of episodes where both succeed.", paired, detail=True),
    )
