"""Plots of flight paths: around a goal, along reference paths, and the same start in each simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.drawing import BAD, INK, literal, new_figure
from rlstack.verification.flight_outcome import CLOSE_M, FlightOutcome
from rlstack.verification.scores import Score
from rlstack.verification.trial_records import FlightRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = 3
"""Flights: those in which the simulators end up farthest apart, and the first."""

_WIDTHS = (4.5, 2.6, 1.4, 1.0)
"""Line widths in points, one per simulator in drawing order, so that none hides another."""

_PATHS, _FAILED_PATHS = 50, 10  # more lines than this hide one another
_OWN_PATHS, _FAILED_OWN_PATHS = 5, 2  # likewise if each flight has a path of its own
WANTED = "#c3c9d2"
"""Colour of the reference paths."""

_VIEWS = (("from above", 0, 1), ("from the side", 0, 2))


@dataclass(frozen=True)
class FlightColumn:
    """One backend's judged flights, with its colour in every picture."""

    name: str
    episodes: FlightRecord
    criteria: SuccessCriteria
    score: Score
    outcome: FlightOutcome
    colour: str


def title_of(item: FlightColumn) -> str:
    """Return the title of the flights' simulator."""
    return literal(item.episodes.simulator)


def draw_trajectories(columns: Sequence[FlightColumn]) -> Figure:
    """Draw the flights relative to the goal."""
    reach = max(
        float(np.nanpercentile(np.where(np.isfinite(i.outcome.excursion_m), i.outcome.excursion_m, np.nan), 97))
        if np.isfinite(i.outcome.excursion_m).any()
        else i.criteria.lost_m
        for i in columns
    )
    reach = min(max(1.15 * reach, 2.0 * columns[0].criteria.radius_m), columns[0].criteria.lost_m)
    figure = new_figure(10.0, 5.0 * len(columns))
    grid = figure.subplots(len(columns), 2, squeeze=False)
    for item, row in zip(columns, grid):
        path = item.episodes.position - item.episodes.goal_position
        for axes, (view, across, up) in zip(row, _VIEWS):
            _draw_flights(axes, item, path, across, up)
            for radius, style in ((item.criteria.radius_m, "-"), (CLOSE_M, "--")):
                turn = np.linspace(0.0, 2.0 * np.pi, 121)
                axes.plot(radius * np.cos(turn), radius * np.sin(turn), color=INK, linewidth=0.9, linestyle=style)
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=f"{title_of(item)}, {view}")
            axes.set(xlabel="x from goal (m)", ylabel=f"{'xyz'[up]} from goal (m)")
    return figure


def draw_followed(columns: Sequence[FlightColumn]) -> Figure:
    """Draw the flights over their reference paths, relative to each path's start."""
    figure = new_figure(10.0, 4.0 * len(columns))
    grid = figure.subplots(len(columns), 2, squeeze=False)
    for item, row in zip(columns, grid):
        origin = item.episodes.goal_position[0]
        wanted, path = item.episodes.goal_position - origin, item.episodes.position - origin
        chosen = _chosen(item)
        shown = wanted[:, chosen[:1] if _same_path(item) else chosen]
        low, high = shown.min(axis=(0, 1)), shown.max(axis=(0, 1))
        margin = max(0.1 * float((high - low).max()), item.criteria.radius_m)
        for axes, (view, across, up) in zip(row, _VIEWS):
            # below the flights and wider, so that neither hides the other
            axes.plot(shown[..., across], shown[..., up], color=WANTED, linewidth=4.0, solid_capstyle="round")
            _draw_flights(axes, item, path, across, up)
            axes.set(xlim=(low[across] - margin, high[across] + margin), ylim=(low[up] - margin, high[up] + margin))
            axes.set(aspect="equal", title=f"{title_of(item)}, {view}")
            axes.set(xlabel="x from the path's start (m)", ylabel=f"{'xyz'[up]} from the path's start (m)")
    return figure


def _draw_flights(axes: Any, item: FlightColumn, path: Array, across: int, up: int) -> None:
    """Draw the chosen flights of ``path`` (T, N, 3) along two axes, failures on top."""
    judged = item.episodes.time_s >= item.criteria.from_s
    width = 0.8 if _same_path(item) else 1.6
    for n in sorted(_chosen(item), key=lambda n: bool(~item.outcome.success[n])):
        colour = item.colour if item.outcome.success[n] else BAD
        x, y = path[:, n, across], path[:, n, up]
        axes.plot(x[~judged], y[~judged], color=colour, linewidth=0.9 * width, alpha=0.4)
        axes.plot(x[judged], y[judged], color=colour, linewidth=width, alpha=0.9)
        axes.plot(x[:1], y[:1], "o", color=colour, markersize=2.5, alpha=0.6)


def _chosen(item: FlightColumn) -> NDArray[np.intp]:
    """Return the flights to draw: an even selection, and some failures; fewer if each has a path of its own."""
    most, failed = (_PATHS, _FAILED_PATHS) if _same_path(item) else (_OWN_PATHS, _FAILED_OWN_PATHS)
    evenly = np.linspace(0, len(item.episodes) - 1, min(most, len(item.episodes))).astype(int)
    return np.union1d(evenly, np.flatnonzero(~item.outcome.success)[:failed])


def _same_path(item: FlightColumn) -> bool:
    """Whether all goals move alike, or none moves at all."""
    moved = item.episodes.goal_position - item.episodes.goal_position[0]
    return bool(np.allclose(moved, moved[:, :1]))


def chosen_in_words(columns: Sequence[FlightColumn]) -> str:
    """Describe the selection of flights."""
    most, failed = (_PATHS, _FAILED_PATHS) if all(map(_same_path, columns)) else (_OWN_PATHS, _FAILED_OWN_PATHS)
    return f"Up to {most} flights per backend, evenly drawn, and up to {failed} that failed"


def _most_different(columns: Sequence[FlightColumn]) -> list[int]:
    """Return the flights to plot: the first, then those with the largest distance between simulators."""
    common = min(len(item.episodes) for item in columns)
    apart = _apart(columns, common)
    order = [0, *(int(n) for n in np.argsort(-apart) if n != 0)]
    return order[: min(COMPARED, common)]


def draw_same_starts(columns: Sequence[FlightColumn]) -> Figure:
    """Draw distances from the goal along x, y and z over time, a row for each flight, a colour for each simulator."""
    flights = _most_different(columns)
    figure = new_figure(10.0, 0.8 + 2.1 * len(flights))
    grid = figure.subplots(len(flights), 3, sharex=True, squeeze=False)
    for line, (row, n) in enumerate(zip(grid, flights)):
        for axis, axes in enumerate(row):
            axes.axhline(0.0, color=INK, linewidth=0.6)
            for k, item in enumerate(columns):
                error = item.episodes.position[:, n, axis] - item.episodes.goal_position[:, n, axis]
                width = _WIDTHS[min(k, len(_WIDTHS) - 1)]
                axes.plot(item.episodes.time_s, error, color=item.colour, linewidth=width, label=title_of(item))
            axes.set(title="xyz"[axis] if line == 0 else "")
        row[0].set(ylabel=f"flight {n}, from the goal (m)")
        row[0].text(0.98, 0.96, columns[0].episodes.labels[n], ha="right", va="top", transform=row[0].transAxes)
    for axes in grid[-1]:
        axes.set(xlabel="time (s)")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(columns))
    return figure


def _apart(columns: Sequence[FlightColumn], common: int) -> Array:
    """Return (N,) the largest distance between any two simulators at the same time of each flight, m."""
    steps = min(len(item.episodes.time_s) for item in columns)
    offset = [
        item.episodes.position[:steps, :common] - item.episodes.goal_position[:steps, :common] for item in columns
    ]
    spread = np.ptp(np.stack(offset), axis=0)  # NaN for lost flights, which come first
    return np.asarray(np.nan_to_num(np.linalg.norm(spread, axis=-1), nan=np.inf).max(axis=0))
