"""Plot flights with the same starts and disturbances in each simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.verification.drawing import INK, Flown, new_figure, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 3
"""Flights: those in which the simulators end up farthest apart, and the first."""

_WIDTHS = (4.5, 2.6, 1.4, 1.0)
"""Line widths in points, one per simulator in drawing order, so that none hides another."""


def chosen(flown: Sequence[Flown]) -> list[int]:
    """Return the flights to plot: the first, then those with the largest distance between simulators."""
    common = min(len(item.episodes) for item in flown)
    apart = _apart(flown, common)
    order = [0, *(int(n) for n in np.argsort(-apart) if n != 0)]
    return order[: min(SHOWN, common)]


def draw_same_starts(flown: Sequence[Flown]) -> Figure:
    """Draw distances from the goal along x, y and z over time, a row for each flight, a colour for each simulator."""
    flights = chosen(flown)
    figure = new_figure(10.0, 0.8 + 2.1 * len(flights))
    grid = figure.subplots(len(flights), 3, sharex=True, squeeze=False)
    for line, (row, n) in enumerate(zip(grid, flights)):
        for axis, axes in enumerate(row):
            axes.axhline(0.0, color=INK, linewidth=0.6)
            for k, item in enumerate(flown):
                error = item.episodes.position[:, n, axis] - item.episodes.goal_position[:, n, axis]
                width = _WIDTHS[min(k, len(_WIDTHS) - 1)]
                axes.plot(item.episodes.time_s, error, color=item.colour, linewidth=width, label=title_of(item))
            axes.set(title="xyz"[axis] if line == 0 else "")
        row[0].set(ylabel=f"flight {n}, from the goal (m)")
        row[0].text(0.98, 0.96, flown[0].episodes.labels[n], ha="right", va="top", transform=row[0].transAxes)
    for axes in grid[-1]:
        axes.set(xlabel="time (s)")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(flown))
    return figure


def _apart(flown: Sequence[Flown], common: int) -> Array:
    """Return (N,) the largest distance between any two simulators at the same time of each flight, m."""
    steps = min(len(item.episodes.time_s) for item in flown)
    offset = [item.episodes.position[:steps, :common] - item.episodes.goal_position[:steps, :common] for item in flown]
    spread = np.ptp(np.stack(offset), axis=0)  # NaN for lost flights, which come first
    return np.asarray(np.nan_to_num(np.linalg.norm(spread, axis=-1), nan=np.inf).max(axis=0))
