"""Plots of races: laps beside the baseline's, paths on tracks, and an animated race."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.verification.animation import DPI, frames_of, gif, pixels
from rlstack.verification.drawing import (
    BAD,
    COLOURS,
    FAINT,
    INK,
    SHOWN,
    STYLE,
    Plot,
    Sketch,
    draw_plots,
    literal,
    matplotlib_or_refuse,
    new_figure,
    page_of_maps,
    stem,
)
from rlstack.verification.map_drawing import outline_at
from rlstack.verification.trial_records import RaceRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_IN = 4.2
"""Side of the animation."""


def draw_races(
    robot: WheeledBase, columns: Mapping[str, tuple[RaceRecord, Mapping[str, RaceRecord]]], dpi: int = 140
) -> list[Plot]:
    """Return all plots of races.

    Args:
        robot: The robot.
        columns: By column: the judged driver's races, and by name those of the baselines.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    made: list[Sketch] = [
        (
            "laps",
            "Flying laps beside the baseline's",
            "Each point is a track that both finish; below the line the judged driver is faster.",
            lambda: _laps(columns),
        )
    ]
    for name, (raced, beside) in columns.items():
        made.append(
            (
                f"paths_{stem(name)}",
                f"Paths ({name})",
                "Failures first, then the least distance to a wall. Cross: contact; square: timed out.",
                lambda raced=raced, beside=beside: _paths(raced, beside),  # type: ignore[misc]
            )
        )
    plots = draw_plots(made)
    with matplotlib_or_refuse().rc_context(STYLE):
        for name, (raced, beside) in list(columns.items())[:2]:
            (number,) = notable(raced, 1).tolist()
            title = f"track:{raced.seeds[number]} ({name})"
            moving = _animation(robot, raced, beside, number)
            plots.append(Plot(f"animation_{stem(name)}", title, "Both start at once.", moving, "gif"))
    return plots


def notable(raced: RaceRecord, count: int) -> NDArray[np.intp]:
    """Return the indices of notable races: failures, then those with the least distance to a wall."""
    finished = raced.success
    return np.lexsort((raced.clearance_m, finished))[:count]


def ending(raced: RaceRecord, number: int) -> str:
    """Return how a race ended."""
    if raced.contact[number]:
        return "contact"
    return "finished" if np.isfinite(raced.lap_s[number]).all() else "out of time"


def _laps(columns: Mapping[str, tuple[RaceRecord, Mapping[str, RaceRecord]]]) -> Figure:
    figure = new_figure(10.0, 4.6)
    axes = figure.add_subplot()
    most = 1.0
    for colour, (name, (raced, beside)) in zip(COLOURS, columns.items()):
        for theirs in list(beside.values())[:1]:
            mine, other = raced.flying_s[: len(theirs)], theirs.flying_s
            both = np.isfinite(mine) & np.isfinite(other)
            axes.plot(other[both], mine[both], "o", color=colour, markersize=4.5, label=literal(name))
            most = max(most, *mine[both].tolist(), *other[both].tolist(), 1.0)
    axes.plot([0.0, 2.0 * most], [0.0, 2.0 * most], color=INK, linewidth=0.9, linestyle="--")
    axes.set(xlabel="the baseline's flying lap (s)", ylabel="flying lap (s)")
    axes.set(xlim=(0.5 * most, 1.05 * most), ylim=(0.5 * most, 1.05 * most))
    if len(axes.lines) > 1:
        axes.legend(loc="upper left")
    return figure


def _paths(raced: RaceRecord, beside: Mapping[str, RaceRecord]) -> Figure:
    def draw(axes: Axes, number: int) -> str:
        draw_track_on(axes, draw_track(int(raced.seeds[number])))
        for colour, (who, one) in zip(COLOURS[1::-1], [*list(beside.items())[:1], (raced.driver, raced)]):
            if number < len(one):
                _path(axes, one, number, colour, who)
        return f"track:{raced.seeds[number]}\n{ending(raced, number)}"

    return page_of_maps(notable(raced, SHOWN).tolist(), draw)


def draw_track_on(axes: Axes, track: Track) -> None:
    """Draw the walls of a track, and its start."""
    for wall in (track.left, track.right):
        closed = np.concatenate([wall, wall[:1]])
        axes.plot(closed[:, 0], closed[:, 1], color=INK, linewidth=1.0)
    axes.plot(0.0, 0.0, "o", color=FAINT, markersize=4, markeredgewidth=0)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _path(axes: Axes, raced: RaceRecord, number: int, colour: str, who: str) -> None:
    pose = raced.pose[:, number]
    known = pose[np.isfinite(pose[:, 0])]
    axes.plot(known[:, 0], known[:, 1], color=colour, linewidth=1.0, label=literal(who))
    end = ending(raced, number)
    if end != "finished":
        mark = "x" if end == "contact" else "s"
        axes.plot(*known[-1, :2], mark, color=BAD, markersize=7, markeredgewidth=2.0, zorder=6)


def _animation(robot: WheeledBase, raced: RaceRecord, beside: Mapping[str, RaceRecord], number: int) -> bytes:
    """Return one race as an animated GIF, the judged driver's car over the baseline's."""
    from matplotlib.patches import Polygon

    drivers = [(who, one) for who, one in list(beside.items())[:1] if number < len(one)] + [(raced.driver, raced)]
    poses = [one.pose[:, number] for _, one in drivers]
    lengths, samples = frames_of(poses)
    figure = new_figure(PANEL_IN, PANEL_IN)
    figure.set_dpi(DPI)
    axes = figure.add_subplot()
    draw_track_on(axes, draw_track(int(raced.seeds[number])))
    cars: list[Polygon] = []
    paths = []
    for colour, (who, _), pose in zip(COLOURS[1::-1][-len(drivers) :], drivers, poses):
        cars.append(Polygon(outline_at(robot, pose[0]), facecolor=colour, zorder=5))
        axes.add_patch(cars[-1])
        paths.append(axes.plot([], [], color=colour, linewidth=1.0, label=literal(who))[0])
    axes.legend(loc="upper right", fontsize=7.0)
    clock = axes.set_title("", fontsize=9.0)
    frames = []
    for sample in samples:
        for car, path, pose, length in zip(cars, paths, poses, lengths):
            now = min(sample, length - 1)
            car.set_xy(outline_at(robot, pose[now]))
            path.set_data(pose[: now + 1, 0], pose[: now + 1, 1])
        clock.set_text(f"{sample / raced.rate_hz:.1f} s")
        figure.canvas.draw()
        frames.append(pixels(figure))
    return gif(frames)
