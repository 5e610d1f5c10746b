"""Plots of manipulation trials: distance to the goal over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rlstack.verification.drawing import (
    BAD,
    COLOURS,
    INK,
    Plot,
    draw_plots,
    literal,
    new_figure,
)
from rlstack.verification.trial_records import ManipulationRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FLOOR_M = 1e-4


def draw_trials(columns: Mapping[str, ManipulationRecord], tolerance_m: float) -> list[Plot]:
    """Return the plots of trials.

    Args:
        columns: Records by column.
        tolerance_m: Goal tolerance.

    Raises:
        UserError: matplotlib is not installed.
    """
    caption = "Line: median of a column's trials; band: the middle 90%; red: failed trials; dashed: the tolerance."
    return draw_plots([("distances", "Distance to the goal", caption, lambda: _distances(columns, tolerance_m))])


def _distances(columns: Mapping[str, ManipulationRecord], tolerance_m: float) -> Figure:
    figure = new_figure(10.0, 4.2)
    axes = figure.subplots()
    for (name, tried), colour in zip(columns.items(), COLOURS * len(columns)):
        distance = np.maximum(tried.distance_m, _FLOOR_M)
        time_s = np.arange(len(distance)) / tried.rate_hz
        low, middle, high = np.nanquantile(distance, (0.05, 0.5, 0.95), axis=1)
        axes.plot(time_s, middle, color=colour, label=literal(name))
        axes.fill_between(time_s, low, high, color=colour, alpha=0.12, linewidth=0.0)
        axes.plot(time_s, distance[:, ~tried.success], color=BAD, linewidth=0.6)
    axes.axhline(tolerance_m, color=INK, linestyle="--", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("time, s")
    axes.set_ylabel("distance to the goal, m")
    axes.legend()
    return figure
