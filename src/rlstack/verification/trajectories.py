"""Plots of flown trajectories: around a goal, or along reference paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.verification.drawing import BAD, INK, Flown, new_figure, title_of
from rlstack.verification.outcome import CLOSE_M

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PATHS, _FAILED_PATHS = 50, 10  # more lines than this hide one another
_OWN_PATHS, _FAILED_OWN_PATHS = 5, 2  # likewise if each flight has a path of its own
WANTED = "#c3c9d2"
"""Colour of the reference paths."""

_VIEWS = (("from above", 0, 1), ("from the side", 0, 2))


def draw_trajectories(flown: Sequence[Flown]) -> Figure:
    """Draw the flights relative to the goal."""
    reach = max(
        float(np.nanpercentile(np.where(np.isfinite(i.outcome.excursion_m), i.outcome.excursion_m, np.nan), 97))
        if np.isfinite(i.outcome.excursion_m).any()
        else i.criteria.lost_m
        for i in flown
    )
    reach = min(max(1.15 * reach, 2.0 * flown[0].criteria.radius_m), flown[0].criteria.lost_m)
    figure = new_figure(10.0, 5.0 * len(flown))
    grid = figure.subplots(len(flown), 2, squeeze=False)
    for item, row in zip(flown, grid):
        path = item.episodes.position - item.episodes.goal_position
        for axes, (view, across, up) in zip(row, _VIEWS):
            _draw_flights(axes, item, path, across, up)
            for radius, style in ((item.criteria.radius_m, "-"), (CLOSE_M, "--")):
                turn = np.linspace(0.0, 2.0 * np.pi, 121)
                axes.plot(radius * np.cos(turn), radius * np.sin(turn), color=INK, linewidth=0.9, linestyle=style)
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=f"{title_of(item)}, {view}")
            axes.set(xlabel="x from goal (m)", ylabel=f"{'xyz'[up]} from goal (m)")
    return figure


def draw_followed(flown: Sequence[Flown]) -> Figure:
    """Draw the flights over their reference paths, relative to each path's start."""
    figure = new_figure(10.0, 4.0 * len(flown))
    grid = figure.subplots(len(flown), 2, squeeze=False)
    for item, row in zip(flown, grid):
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


def _draw_flights(axes: Any, item: Flown, path: Array, across: int, up: int) -> None:
    """Draw the chosen flights of ``path`` (T, N, 3) along two axes, failures on top."""
    judged = item.episodes.time_s >= item.criteria.from_s
    width = 0.8 if _same_path(item) else 1.6
    for n in sorted(_chosen(item), key=lambda n: bool(~item.outcome.success[n])):
        colour = item.colour if item.outcome.success[n] else BAD
        x, y = path[:, n, across], path[:, n, up]
        axes.plot(x[~judged], y[~judged], color=colour, linewidth=0.9 * width, alpha=0.4)
        axes.plot(x[judged], y[judged], color=colour, linewidth=width, alpha=0.9)
        axes.plot(x[:1], y[:1], "o", color=colour, markersize=2.5, alpha=0.6)


def _chosen(item: Flown) -> NDArray[np.intp]:
    """Return the flights to draw: an even selection, and some failures; fewer if each has a path of its own."""
    most, failed = (_PATHS, _FAILED_PATHS) if _same_path(item) else (_OWN_PATHS, _FAILED_OWN_PATHS)
    evenly = np.linspace(0, len(item.episodes) - 1, min(most, len(item.episodes))).astype(int)
    return np.union1d(evenly, np.flatnonzero(~item.outcome.success)[:failed])


def _same_path(item: Flown) -> bool:
    """Whether all goals move alike, or none moves at all."""
    moved = item.episodes.goal_position - item.episodes.goal_position[0]
    return bool(np.allclose(moved, moved[:, :1]))


def chosen_in_words(flown: Sequence[Flown]) -> str:
    """Describe the selection of flights."""
    most, failed = (_PATHS, _FAILED_PATHS) if all(map(_same_path, flown)) else (_OWN_PATHS, _FAILED_OWN_PATHS)
    return f"Up to {most} flights per backend, evenly drawn, and up to {failed} that failed"
