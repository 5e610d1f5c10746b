"""What expeditions are worth: how soon unknown ground is seen, beside who explores by frontiers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.verification.exploration_drives import SHARE
from rlstack.verification.metrics import Figure, figure, percentile, wilson
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.transfer import Estimate, mean
from rlstack.verification.trials import TrialCell


@dataclass(frozen=True, kw_only=True)
class ExplorationScore:
    """The figures of one explorer; the text beside each field is its definition."""

    reference: str
    """The planner that is soonest at 90%; empty: none is compared with."""
    moves: bool
    """Whether time is counted in moves."""

    episodes: int = figure("Grounds", "count", "Number of unknown grounds, each explored alone.")
    success: float = figure(
        "Success", "share", "Share of the grounds of which enough is seen in time without touching anything."
    )
    success_low: float = figure("Success, low end", "share", "Lower end of the Wilson 95% interval of that share.")
    success_high: float = figure("Success, high end", "share", "Upper end of the Wilson 95% interval of that share.")
    crashed: float = figure(
        "Contact",
        "share",
        "Share of the grounds on which the robot touches something; on grids, on which a move would lead into an"
        " obstacle or over the edge.",
    )
    to_90: float = figure(
        "{Time} to 90%",
        "time",
        "Mean number of {times} until 90% of what is to be seen is known; all of the time where it never is.",
    )
    steps_ratio: float | None = figure(
        "{Time} to 90% over the planner's", "1", "That mean over the same of {reference}, on the same grounds."
    )
    least_lead: float | None = figure(
        "Least lead in coverage",
        "share",
        "Least difference, over all times, of the mean known share from that of the planner that is best then.",
    )
    half: float = figure("Known over half of the time", "share", "Mean known share over the first half of the time.")
    to_95: float = figure("{Time} to 95%", "time", "As to 90%.")
    interventions: int | None = figure("Guard interventions", "count", "How often the guard took over, in all.")
    intervened: float | None = figure(
        "Grounds with an intervention", "share", "Share of the grounds with at least one."
    )
    latency_p99_ms: float | None = figure(
        "Control latency, 99th percentile",
        "ms",
        "99th percentile of the time from sending an observation to the arrival of its command, wall clock.",
    )
    wall_s: float = figure("Time to explore", "s", "Wall time that exploring all the grounds took.")

    times: tuple[float, ...] = ()
    """(N,) until 90%."""

    def figures(self) -> list[tuple[Figure, float | None]]:
        """Return each figure with its definition and its value."""
        filled = {
            "Time": "Moves" if self.moves else "Time",
            "times": "moves" if self.moves else "seconds",
            "reference": self.reference or "the soonest planner",
        }
        unit = {"time": "1" if self.moves else "s"}
        found = []
        for f in dataclasses.fields(self):
            if f.metadata:
                title, definition = (f.metadata[name].format(**filled) for name in ("title", "definition"))
                told = Figure(f.name, title, unit.get(f.metadata["unit"], f.metadata["unit"]), definition)
                found.append((told, getattr(self, f.name)))
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers ready for JSON; those that were not measured are None."""
        told = {"reference": self.reference, "unit": "moves" if self.moves else "s"}
        return told | {f.key: number for f, number in self.figures()}

    def cell(self) -> TrialCell:
        """Return what the transfer table shows."""
        share = Estimate(100.0 * self.success, 100.0 * self.success_low, 100.0 * self.success_high)
        return TrialCell(
            self.episodes,
            {"success, %": share, f"{'moves' if self.moves else 's'} to 90%": mean(np.array(self.times))},
        )


def score_exploration(
    seen: ExplorationRecord, beside: Mapping[str, ExplorationRecord] | None = None
) -> ExplorationScore:
    """Return the figures of ``seen``; :class:`ExplorationScore` says what each means.

    Args:
        seen: By one explorer.
        beside: By planners, on the first of the same grounds, by name; None or empty: there are none.
    """
    count, times = len(seen), seen.time_to(SHARE)
    low, high = wilson(int(seen.success.sum()), count)
    compared: dict[str, Any] = {"reference": "", "steps_ratio": None, "least_lead": None}
    if beside:
        many = min(count, *(len(one) for one in beside.values()))
        steps = min(seen.coverage.shape[1], *(one.coverage.shape[1] for one in beside.values()))
        soonest = min(beside, key=lambda name: float(beside[name].time_to(SHARE)[:many].mean()))
        best = np.max([one.coverage[:many, :steps].mean(axis=0) for one in beside.values()], axis=0)
        compared = {
            "reference": soonest,
            "steps_ratio": float(times[:many].mean() / max(float(beside[soonest].time_to(SHARE)[:many].mean()), 1e-9)),
            "least_lead": float((seen.coverage[:many, :steps].mean(axis=0) - best).min()),
        }
    guarded, latency = seen.interventions, seen.latency_s
    return ExplorationScore(
        moves=seen.moves,
        episodes=count,
        success=float(seen.success.mean()),
        success_low=low,
        success_high=high,
        crashed=float(seen.crashed.mean()),
        to_90=float(times.mean()),
        half=float(seen.coverage[:, : max(seen.coverage.shape[1] // 2, 1)].mean()),
        to_95=float(seen.time_to(0.95).mean()),
        interventions=None if guarded is None else int(guarded.sum()),
        intervened=None if guarded is None else float((guarded > 0).mean()),
        latency_p99_ms=None if latency is None or not len(latency) else percentile(latency * 1e3, 99.0),
        wall_s=float(seen.wall_s),
        times=tuple(times.tolist()),
        **compared,
    )
