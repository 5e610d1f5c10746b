"""The transfer table: what flies, row by row, in which simulator, column by column, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.tasks.criteria import Criteria
from rlstack.verification.metrics import wilson
from rlstack.verification.outcome import judge_window, outcome
from rlstack.verification.records import FlightRecord

_Z95 = 1.959964
"""Of the 95% interval of a normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """One policy in one simulator.

    Args:
        episodes: How many flights.
        success: Share of the flights that stay near the goal; interval after Wilson.
        error_m: Median over the flights of the mean distance from the goal; interval from order statistics.
        effort_rad_s: Mean change of a rotor's command from one control period to the next, over the flights that were
            not lost; None where all were.
    """

    episodes: int
    success: Estimate
    error_m: Estimate
    effort_rad_s: Estimate | None

    def texts(self) -> dict[str, str]:
        """Return each figure with its interval, by what it is."""
        s, e, f = self.success, self.error_m, self.effort_rad_s
        return {
            "success, %": f"{100 * s.value:.1f} [{100 * s.low:.1f}, {100 * s.high:.1f}]",
            "error, mm": f"{1e3 * e.value:.1f} [{1e3 * e.low:.1f}, {1e3 * e.high:.1f}]",
            "effort, rad/s": "-" if f is None else f"{f.value:.0f} [{f.low:.0f}, {f.high:.0f}]",
        }


@dataclass(frozen=True)
class TransferTable:
    """Cells by policy and simulator; a policy need not have been flown in all of them."""

    cells: Mapping[str, Mapping[str, Any]]
    """Each a :class:`Cell`, or another dataclass with ``texts``."""

    @property
    def simulators(self) -> list[str]:
        """The columns, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.cells.values() for name in row))

    def text(self) -> str:
        """Return the table for a terminal."""
        columns = self.simulators
        texts = {who: {name: c.texts() for name, c in row.items()} for who, row in self.cells.items()}
        rows = []
        for figure in dict.fromkeys(f for row in texts.values() for cell in row.values() for f in cell):
            rows.append([f"{figure} [95%]", *columns])
            rows += [[f"  {who}", *(row.get(n, {}).get(figure, "-") for n in columns)] for who, row in texts.items()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)] if rows else []
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what is infinite or was not measured is None."""
        return {p: {s: _plain(asdict(cell)) for s, cell in row.items()} for p, row in self.cells.items()}


def cell(episodes: FlightRecord, criteria: Criteria) -> Cell:
    """Return the figures of flights.

    Raises:
        UserError: There are none, or they are too short for the criteria.
    """
    result = outcome(episodes, criteria)
    count, kept = len(episodes), ~result.lost
    successes = int(result.success.sum())
    window = judge_window(episodes, criteria)
    change = _mean_change(episodes.command[window][:, kept])
    return Cell(
        episodes=count,
        success=Estimate(successes / count, *wilson(successes, count)),
        error_m=median(result.error_m),
        effort_rad_s=mean(change) if len(change) else None,
    )


def _mean_change(command: Array) -> Array:
    """Return each flight's mean change of commands (T, N, rotors); a record over topics may lack some of them."""
    change = np.abs(np.diff(command, axis=0))
    known = np.isfinite(change)
    counts = known.sum(axis=(0, 2))
    sums = np.where(known, change, 0.0).sum(axis=(0, 2))
    return np.asarray(sums[counts > 0] / counts[counts > 0])


def median(values: Array) -> Estimate:
    """Return the median with its distribution-free 95% interval (order statistics, normal approximation of ranks)."""
    ordered, count = np.sort(values), len(values)
    reach = 0.5 * _Z95 * math.sqrt(count)
    low, high = max(math.floor(0.5 * count - reach), 0), min(math.ceil(0.5 * count + reach), count - 1)
    return Estimate(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))


def mean(values: Array) -> Estimate:
    """Return the mean with its 95% interval by the central limit theorem; no width for one value."""
    middle = float(values.mean())
    half = _Z95 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Estimate(middle, middle - half, middle + half)


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    return None if isinstance(data, float) and not math.isfinite(data) else data
