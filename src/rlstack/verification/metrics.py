"""What flights are worth: one score per backend, every figure with its exact definition beside it, and the verdict."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.criteria import Criteria
from rlstack.verification.outcome import Outcome, judge_window, outcome
from rlstack.verification.records import FlightRecord

_Z95 = 1.959963984540054  # two-sided 95% quantile of the standard normal distribution


@dataclass(frozen=True)
class Figure:
    """What one figure of a score is called, its unit, and exactly what it means.

    ``unit`` is an SI unit, ``1`` for a ratio, ``share`` (0 to 1, shown as a percentage) or ``count``.
    """

    key: str
    title: str
    unit: str
    definition: str

    def text(self, number: float | None) -> str:
        """Return ``number`` as a person reads it, with its unit; infinity and None have words of their own."""
        if number is None:
            return "not measured"
        if not math.isfinite(number):
            return "never" if self.unit == "s" else "unbounded"
        if self.unit == "share":
            return f"{100.0 * number:.1f}%"
        if self.unit == "count":
            return f"{number:,.0f}"
        if self.unit == "1":
            return f"{number:.3f}"
        digits = {"m": 3, "ms": 2, "s": 2, "rad": 3, "m/s": 3, "m/s^3": 2, "rad/s": 0, "rad/s^2": 2}[self.unit]
        return f"{number:.{digits}f} {self.unit}"


def figure(title: str, unit: str, definition: str) -> Any:
    """Return a field of a score that says what it is; see :class:`Figure`."""
    return field(metadata={"title": title, "unit": unit, "definition": definition})


def described(score: Any, **filled: Any) -> list[Figure]:
    """Return the definitions of the figures of a score, a dataclass with fields from :func:`figure`, in their order.

    Args:
        score: The score.
        filled: What definitions name in braces.
    """
    return [
        Figure(f.name, f.metadata["title"], f.metadata["unit"], f.metadata["definition"].format(**filled))
        for f in dataclasses.fields(score)
        if f.metadata
    ]


@dataclass(frozen=True)
class Group:
    """The episodes with one disturbance label.

    Args:
        episodes: How many.
        success: Share that succeeded.
        success_low, success_high: Wilson 95% interval of that share.
        lost: Share that was lost.
        error_m: Median over the episodes of the mean distance from the goal over the window, m.
    """

    episodes: int
    success: float
    success_low: float
    success_high: float
    lost: float
    error_m: float


@dataclass(frozen=True, kw_only=True)
class Score:
    """The figures of one backend's episodes; the text beside each field is its definition.

    The distance is between the robot's centre of mass and the goal's position; where the goal moves along a path, the
    position that is due at that moment. The window is the samples from
    ``from_s`` to ``to_s`` seconds after the start, both included. A position that is not finite is infinitely far.
    Percentiles are of the sorted values without interpolation, so an infinite value stays one; medians of an even
    number average the two in the middle.
    """

    criteria: Criteria
    """What the episodes were judged by."""

    episodes: int = figure("Episodes", "count", "Number of flights.")
    success: float = figure(
        "Success",
        "share",
        "Share of the episodes in which no sample from second {from_s:g} to second {to_s:g} is farther than"
        " {radius_m:g} m from the goal.",
    )
    success_low: float = figure(
        "Success, low end", "share", "Lower end of the Wilson 95% interval of the success share."
    )
    success_high: float = figure(
        "Success, high end", "share", "Upper end of the Wilson 95% interval of the success share."
    )
    within_0_1: float = figure(
        "Within 0.1 m",
        "share",
        "Share of the episodes in which no sample from second {from_s:g} to second {to_s:g} is farther than 0.1 m"
        " from the goal.",
    )
    lost: float = figure(
        "Lost",
        "share",
        "Share of the episodes with any sample, from the start to the end, that is farther than {lost_m:g} m from the"
        " goal or whose position, orientation or velocity is not finite.",
    )
    error_m: float = figure(
        "Position error",
        "m",
        "Median over all episodes of the mean distance from the goal from second {from_s:g} to second {to_s:g}.",
    )
    error_p95_m: float = figure(
        "Position error, 95th percentile", "m", "95th percentile over all episodes of that mean distance."
    )
    error_mean_m: float | None = figure(
        "Position error, mean of those kept",
        "m",
        "Mean of that distance over the episodes that were not lost (one that flew away would be the whole figure).",
    )
    rmse_m: float = figure(
        "RMSE",
        "m",
        "Median over all episodes of the root of the mean squared distance from the goal from second {from_s:g} to"
        " second {to_s:g}.",
    )
    rmse_p95_m: float = figure(
        "RMSE, 95th percentile", "m", "95th percentile over all episodes of that root mean square."
    )
    recover_s: float = figure(
        "Time to recover",
        "s",
        "Median over all episodes of the time of the first sample from which on the distance never exceeds"
        " {radius_m:g} m until the end; an episode that ends outside counts as never.",
    )
    recover_p95_s: float = figure(
        "Time to recover, 95th percentile", "s", "95th percentile over all episodes of that time."
    )
    never_recovered: float = figure(
        "Never recovered", "share", "Share of the episodes whose last sample is farther than {radius_m:g} m."
    )
    excursion_m: float = figure(
        "Largest distance, median", "m", "Median over all episodes of the largest distance from the goal at any time."
    )
    excursion_max_m: float = figure(
        "Largest distance, worst", "m", "Largest distance from the goal at any time in any episode."
    )
    tilt_rad: float | None = figure(
        "Tilt",
        "rad",
        "Mean angle between the body's z axis and up from second {from_s:g} to second {to_s:g}, over the episodes that"
        " were not lost.",
    )
    speed_m_s: float | None = figure(
        "Speed",
        "m/s",
        "Mean speed from second {from_s:g} to second {to_s:g}, over the episodes that were not lost.",
    )
    command_change_rad_s: float | None = figure(
        "Command change",
        "rad/s",
        "Mean absolute change of a rotor's command from one control period to the next from second {from_s:g} to second"
        " {to_s:g}, over the episodes that were not lost; small is easy on motors.",
    )
    interventions: int = figure("Guard interventions", "count", "How often the guard took over, in all episodes.")
    intervened: float = figure(
        "Episodes with an intervention", "share", "Share of the episodes in which the guard took over at least once."
    )
    latency_p50_ms: float | None = figure(
        "Control latency, median",
        "ms",
        "Median time from an observation's arrival to its command on the control path, wall clock.",
    )
    latency_p99_ms: float | None = figure(
        "Control latency, 99th percentile", "ms", "99th percentile of that time over all control periods measured."
    )
    wall_s: float = figure("Time to fly", "s", "Wall time that flying all the episodes took.")

    by_label: dict[str, Group] = field(default_factory=dict)
    """Success and error by what disturbed the episodes, in order of first appearance."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition (this score's radius and seconds filled in) and its value."""
        return [(figure, getattr(self, figure.key)) for figure in figures(self)]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers ready for JSON; infinite and unmeasured ones are None, as JSON has no infinity."""
        data: dict[str, Any] = dataclasses.asdict(self.criteria)
        for figure in figures(self):
            data[figure.key] = _plain(getattr(self, figure.key))
        data["by_label"] = {
            label: {key: _plain(number) for key, number in dataclasses.asdict(group).items()}
            for label, group in self.by_label.items()
        }
        return data


class Judged(Protocol):
    """A score of any kind of robot; bounds have fields of the same names as its figures."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""


def figures(score: Score) -> list[Figure]:
    """Return the definitions of a score's figures, in report order."""
    return described(score, **dataclasses.asdict(score.criteria))


def score(episodes: FlightRecord, criteria: Criteria) -> Score:
    """Return the figures of ``episodes``; :class:`Score` says what each means.

    Args:
        episodes: What was flown, with arrays of shape (T, N, ...).
        criteria: The task's.

    Raises:
        UserError: There are no episodes, or they are too short for the window.
    """
    result = outcome(episodes, criteria)
    window = judge_window(episodes, criteria)
    count = len(episodes)
    kept = ~result.lost
    told = np.empty(0) if episodes.latency_s is None else episodes.latency_s
    guarded = np.zeros(len(episodes)) if episodes.interventions is None else episodes.interventions
    latency = told[np.isfinite(told)] * 1e3
    low, high = wilson(int(result.success.sum()), count)
    return Score(
        criteria=criteria,
        episodes=count,
        success=float(result.success.mean()),
        success_low=low,
        success_high=high,
        within_0_1=float(result.close.mean()),
        lost=float(result.lost.mean()),
        error_m=float(np.median(result.error_m)),
        error_p95_m=percentile(result.error_m, 95),
        error_mean_m=_mean(result.error_m[kept]),
        rmse_m=float(np.median(result.rmse_m)),
        rmse_p95_m=percentile(result.rmse_m, 95),
        recover_s=float(np.median(result.recover_s)),
        recover_p95_s=percentile(result.recover_s, 95),
        never_recovered=float(np.isinf(result.recover_s).mean()),
        excursion_m=float(np.median(result.excursion_m)),
        excursion_max_m=float(result.excursion_m.max()),
        tilt_rad=_mean(frames.tilt(episodes.orientation[window][:, kept])),
        speed_m_s=_mean(np.linalg.norm(episodes.linear_velocity[window][:, kept], axis=-1)),
        command_change_rad_s=_mean(np.abs(np.diff(episodes.command[window][:, kept], axis=0))),
        interventions=int(guarded.sum()),
        intervened=float((guarded > 0).mean()),
        latency_p50_ms=percentile(latency, 50) if latency.size else None,
        latency_p99_ms=percentile(latency, 99) if latency.size else None,
        wall_s=float(episodes.wall_s),
        by_label=_by_label(episodes, result),
    )


def wilson(successes: int, count: int) -> tuple[float, float]:
    """Return the Wilson 95% interval of a share, (0, 1) for no trials (Wilson, JASA 22, 1927)."""
    if count == 0:
        return 0.0, 1.0
    share = successes / count
    scale = 1.0 + _Z95**2 / count
    centre = (share + _Z95**2 / (2 * count)) / scale
    half = _Z95 / scale * math.sqrt(share * (1.0 - share) / count + _Z95**2 / (4 * count**2))
    # Rounding must not push an end past the share itself at 0 or 1.
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)


def judge(score: Judged, bounds: Bounds) -> tuple[bool, list[str]]:
    """Return whether ``score`` passes, and for each figure that does not, a sentence that says why."""
    reasons = []
    for figure, reached in score.figures():
        if (limit := bounds.limits.get(figure.key)) is None or judged(figure, reached, bounds):
            continue
        asked = requirement(figure, bounds)
        if reached is None:
            reasons.append(f"{figure.title} was not measured, but {asked} is asked.")
        elif figure.key == "episodes":
            reasons.append(f"{figure.text(reached)} episodes prove too little: at least {limit:,.0f} are asked.")
        else:
            shown = figure.text(reached)
            if shown == figure.text(limit):  # a near miss must not read as if it had been reached
                shown = repr(reached)
            reasons.append(f"{figure.title} is {shown}, but {asked} is asked.")
    return not reasons, reasons


def judged(figure: Figure, reached: float | None, bounds: Bounds) -> bool:
    """Return whether a figure reaches its bound; one that was not measured does not."""
    limit = bounds.limits[figure.key]
    return reached is not None and (reached >= limit if bounds.is_least(figure.key) else reached <= limit)


def requirement(figure: Figure, bounds: Bounds) -> str:
    """Return what a bound asks of a figure in words, such as ``at least 95.0%``."""
    return f"{'at least' if bounds.is_least(figure.key) else 'at most'} {figure.text(bounds.limits[figure.key])}"


def _by_label(episodes: FlightRecord, result: Outcome) -> dict[str, Group]:
    groups = {}
    for label in dict.fromkeys(episodes.labels.tolist()):
        chosen = episodes.labels == label
        count, successes = int(chosen.sum()), int(result.success[chosen].sum())
        low, high = wilson(successes, count)
        groups[str(label)] = Group(
            episodes=count,
            success=successes / count,
            success_low=low,
            success_high=high,
            lost=float(result.lost[chosen].mean()),
            error_m=float(np.median(result.error_m[chosen])),
        )
    return groups


def percentile(values: Array, percent: float) -> float:
    """Return the least of ``values`` (N,) that so many percent of them do not exceed."""
    # numpy's percentile subtracts neighbours, which makes NaN of two infinities.
    return float(np.sort(values)[max(math.ceil(percent / 100.0 * len(values)), 1) - 1])


def _mean(values: Array) -> float | None:
    values = values[np.isfinite(values)]  # a recording over topics may lack a command
    return float(values.mean()) if values.size else None


def _plain(number: float | None) -> float | int | None:
    return None if number is None or not math.isfinite(number) else number
