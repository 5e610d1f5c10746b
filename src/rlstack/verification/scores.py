"""Figures of one driver's trials in one simulator, each with its exact definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.verification.trial_records import TrialRecord

Interval = tuple[float, float]

_DIGITS = {"m": 3, "ms": 2, "s": 2, "rad": 3, "m/s": 3, "m/s^3": 2, "rad/s": 0, "rad/s^2": 2, "Hz": 1}
_FINE = {"share": (100.0, "%", 1), "m": (1e3, "mm", 1), "s": (1.0, "s", 1), "rad/s": (1.0, "rad/s", 0)}
"""Scale, unit and digits of the transfer table, by unit; for other units 1, none and 3."""


@dataclass(frozen=True)
class Figure:
    """One figure of a score.

    Args:
        key: Its name in verify.json, bounds and tables.
        title: Its name for readers.
        unit: An SI unit, ``1`` for a ratio, ``share`` (0 to 1, displayed as a percentage) or ``count``.
        definition: Its exact definition.
        value: Its value; None: not measured.
        interval: Ends of its 95% interval; None: it has none.
        detail: Whether it appears only on the page, among the further figures.
    """

    key: str
    title: str
    unit: str
    definition: str
    value: float | None
    interval: Interval | None = None
    detail: bool = False

    @property
    def text(self) -> str:
        """The value formatted for readers."""
        return self.text_of(self.value)

    def text_of(self, number: float | None) -> str:
        """Return ``number`` with the figure's unit; words for infinity and None."""
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
        return f"{number:.{_DIGITS[self.unit]}f} {self.unit}"

    @property
    def fine_title(self) -> str:
        """The title and the unit of :attr:`fine_text`."""
        _, unit, _ = _FINE.get(self.unit, (1.0, "", 3))
        return f"{self.title}, {unit}" if unit else self.title

    @property
    def fine_text(self) -> str:
        """The value with its interval, in smaller units."""
        if self.value is None or self.interval is None:
            return "-"
        scale, _, digits = _FINE.get(self.unit, (1.0, "", 3))
        value, low, high = (f"{scale * number:.{digits}f}" for number in (self.value, *self.interval))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True, kw_only=True)
class Score:
    """The figures of one driver's trials in one simulator.

    Args:
        figures: In report order; the first is the number of ``episodes``.
        settings: Parameters of the figures, such as a radius or the name of the reference; plain data.
        compared: Keys of the figures in the transfer table.
        groups: Selected figures for each group of trials, by name.
    """

    figures: tuple[Figure, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    groups: Mapping[str, Score] = field(default_factory=dict)

    def __getitem__(self, key: str) -> float | None:
        return self.figure(key).value

    def figure(self, key: str) -> Figure:
        """Return the figure with a key; raise ``KeyError`` if there is none."""
        return self.by_key[key]

    @property
    def by_key(self) -> dict[str, Figure]:
        """The figures by their keys."""
        return {figure.key: figure for figure in self.figures}

    def to_json(self) -> dict[str, Any]:
        """Return plain data; infinite or missing values are None, as JSON has no infinity."""
        data = dict(self.settings)
        for figure in self.figures:
            data[figure.key] = plain(figure.value)
            if figure.key == "success" and figure.interval is not None:
                data["success_low"], data["success_high"] = figure.interval
        if self.groups:
            data["by_label"] = {label: group.to_json() for label, group in self.groups.items()}
        return data


def share(key: str, title: str, definition: str, hits: NDArray[np.bool_], *, interval: bool = False) -> Figure:
    """Return the share of trials ``hits`` (N,), with its Wilson interval if ``interval``."""
    found = wilson(int(hits.sum()), len(hits)) if interval else None
    return Figure(key, title, "share", definition, float(hits.mean()), found)


def mean_figure(key: str, title: str, unit: str, definition: str, values: Array) -> Figure:
    """Return the mean of the finite ``values`` (N,), with its interval if there are any values."""
    interval = mean_interval(values) if len(values) else None
    return Figure(key, title, unit, definition, mean(values), interval)


def run_figures(trials: str, record: TrialRecord) -> tuple[Figure, ...]:
    """Return the figures of guard interventions, control latency and wall time.

    Args:
        trials: The word for trials.
        record: The trials; without a guard or topics the respective figures are None.
    """
    guarded, latency_s = record.interventions, record.latency_s
    known = np.zeros(0) if latency_s is None else 1e3 * latency_s[np.isfinite(latency_s)]
    half, most = (percentile(known, percent) if known.size else None for percent in (50.0, 99.0))
    latency = "time from sending an observation to the arrival of its command, wall clock."
    return (
        Figure(
            "interventions",
            "Guard interventions",
            "count",
            "Total number of guard interventions.",
            None if guarded is None else int(guarded.sum()),
        ),
        Figure(
            "intervened",
            f"{trials.capitalize()} with an intervention",
            "share",
            f"Share of the {trials} in which the guard intervened at least once.",
            None if guarded is None else float((guarded > 0).mean()),
        ),
        Figure("latency_p50_ms", "Control latency, median", "ms", f"Median {latency}", half),
        Figure("latency_p99_ms", "Control latency, 99th percentile", "ms", f"99th percentile of the {latency}", most),
        Figure("wall_s", "Wall time", "s", f"Wall time of all {trials}.", record.wall_s),
    )


def group_scores(
    labels: NDArray[np.str_], figures_of: Callable[[NDArray[np.bool_]], tuple[Figure, ...]]
) -> dict[str, Score]:
    """Return scores by label, in order of first appearance; ``figures_of`` is called with the trials (N,) of each."""
    return {str(label): Score(figures=figures_of(labels == label)) for label in dict.fromkeys(labels.tolist())}


def wilson(successes: int, count: int) -> Interval:
    """Return the Wilson 95% interval of a share, (0, 1) for no trials (Wilson, JASA 22, 1927)."""
    from scipy.stats import binomtest  # takes a second to import, and training does not need it

    if count == 0:
        return 0.0, 1.0
    found = binomtest(successes, count).proportion_ci(confidence_level=0.95, method="wilson")
    return float(found.low), float(found.high)


def median_interval(values: ArrayLike) -> Interval:
    """Return the distribution-free 95% interval of a median (order statistics, normal approximation of ranks)."""
    ordered = np.sort(np.asarray(values, dtype=float))
    count = len(ordered)
    reach = 0.5 * normal_quantile() * math.sqrt(count)
    low, high = max(math.floor(0.5 * count - reach), 0), min(math.ceil(0.5 * count + reach), count - 1)
    return float(ordered[low]), float(ordered[high])


def mean_interval(values: ArrayLike) -> Interval:
    """Return the 95% interval of a mean by the central limit theorem; of zero width for one value."""
    array = np.asarray(values, dtype=float)
    middle, count = float(array.mean()), len(array)
    half = normal_quantile() * float(array.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return middle - half, middle + half


def normal_quantile() -> float:
    """Return the quantile of the standard normal distribution that leaves 2.5% above it."""
    from scipy.special import ndtri

    return float(ndtri(0.975))


def percentile(values: Array, percent: float) -> float:
    """Return the least of ``values`` (N,) that ``percent`` of them do not exceed."""
    # numpy's percentile subtracts neighbours, which gives NaN for two infinities.
    return float(np.sort(values)[max(math.ceil(percent / 100.0 * len(values)), 1) - 1])


def mean(values: Array) -> float | None:
    """Return the mean of the finite values; None if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def median(values: Array) -> float | None:
    """Return the median of values; None if there are none."""
    return float(np.median(values)) if values.size else None


def plain(number: float | None) -> float | None:
    """Return a number for JSON: None if it is not finite."""
    return None if number is None or not math.isfinite(number) else number
