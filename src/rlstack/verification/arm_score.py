"""What trials of arms are worth: the figures of one policy in one place, each with its exact definition beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.verification.metrics import Figure, described, figure, percentile, wilson
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.transfer import Estimate, median
from rlstack.verification.trials import TrialCell


@dataclass(frozen=True, kw_only=True)
class ArmScore:
    """The figures of one policy; the text beside each field is its definition."""

    done: str
    """What a trial asks for, in words."""

    episodes: int = figure("Trials", "count", "Number of trials, each from another start to another goal.")
    success: float = figure("Success", "share", "Share of the trials that succeed: {done}.")
    success_low: float = figure("Success, low end", "share", "Lower end of the Wilson 95% interval of that share.")
    success_high: float = figure("Success, high end", "share", "Upper end of the Wilson 95% interval of that share.")
    lost: float = figure("Lost", "share", "Share of the trials whose object left the table, or whose numbers ended.")
    time_s: float | None = figure("Time", "s", "Mean time to success over the trials that succeed.")
    error_m: float | None = figure(
        "Error at the end", "m", "Median over the trials that succeed of the distance to the goal at the end."
    )
    error_p95_m: float | None = figure("Error at the end, 95th percentile", "m", "The same, 95th percentile.")
    interventions: int | None = figure("Guard interventions", "count", "How often the guard took over, in all.")
    intervened: float | None = figure("Trials with an intervention", "share", "Share of the trials with at least one.")
    latency_p99_ms: float | None = figure(
        "Control latency, 99th percentile",
        "ms",
        "99th percentile of the time from sending an observation to the arrival of its command, wall clock.",
    )
    wall_s: float = figure("Time taken", "s", "Wall time that all the trials took.")

    errors_m: tuple[float, ...] = ()
    """Distances to the goal at the end, of the trials that succeed."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""
        told = described(self, done=self.done)
        return [(one, getattr(self, one.key)) for one in told]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers ready for JSON; those that were not measured are None."""
        return {"done": self.done} | {f.key: number for f, number in self.figures()}

    def cell(self) -> TrialCell:
        """Return what the transfer table shows."""
        share = Estimate(100.0 * self.success, 100.0 * self.success_low, 100.0 * self.success_high)
        error = median(1e3 * np.array(self.errors_m)) if self.errors_m else None
        return TrialCell(self.episodes, {"success, %": share, "error at the end, mm": error})


def score_arm(tried: ManipulationRecord, done: str) -> ArmScore:
    """Return the figures of trials; :class:`ArmScore` says what each means.

    Args:
        tried: The trials.
        done: What they ask for, in words.
    """
    count = len(tried)
    low, high = wilson(int(tried.success.sum()), count)
    errors = tried.error_m[tried.success]
    guarded, latency = tried.interventions, tried.latency_s
    return ArmScore(
        done=done,
        episodes=count,
        success=float(tried.success.mean()),
        success_low=low,
        success_high=high,
        lost=float(tried.lost.mean()),
        time_s=float(tried.time_s[tried.success].mean()) if len(errors) else None,
        error_m=float(np.median(errors)) if len(errors) else None,
        error_p95_m=percentile(errors, 95.0) if len(errors) else None,
        interventions=None if guarded is None else int(guarded.sum()),
        intervened=None if guarded is None else float((guarded > 0).mean()),
        latency_p99_ms=None if latency is None or not len(latency) else percentile(latency * 1e3, 99.0),
        wall_s=float(tried.wall_s),
        errors_m=tuple(errors.tolist()),
    )
