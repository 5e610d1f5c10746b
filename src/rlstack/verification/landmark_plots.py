"""Plots of trials among landmarks, seen from above: paths, and two of them as animations."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.interfaces.instruction import decoded
from rlstack.tasks.landmarks.trials import LandmarkTrials
from rlstack.verification.animation import DPI, FRAME_MS, PANEL_IN, frames_of, gif, pixels
from rlstack.verification.drawing import (
    BAD,
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
from rlstack.verification.landmark_trials import LandmarkRecord
from rlstack.verification.map_drawing import GOAL, corners_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ANIMATIONS = 2
"""Number of animated trials."""
_LINE = 34
"""Letters of a sentence in a line of a title."""


def draw_landmark_trials(
    columns: Mapping[str, tuple[LandmarkRecord, LandmarkTrials]], task: Any, radius_m: float
) -> list[Plot]:
    """Return the plots of trials.

    Args:
        columns: Records and trials by column.
        task: The task.
        radius_m: Radius of the robot.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    matplotlib = matplotlib_or_refuse()
    sketches: list[Sketch] = []
    for name, (record, trials) in columns.items():
        caption = "Failures first. Circle: the named landmark; cross: the robot touches something; square: it fails."
        sketches.append(
            (
                f"paths_{stem(name)}",
                f"Paths ({name})",
                caption,
                lambda record=record, trials=trials: _paths(record, trials, task),  # type: ignore[misc]
            )
        )
    plots = draw_plots(sketches)
    for name, (record, trials) in list(columns.items())[:1]:
        for count, number in enumerate(np.argsort(~record.success, kind="stable")[:ANIMATIONS].tolist()):
            with matplotlib.rc_context({**STYLE, "axes.titlesize": 9.0}):
                shown = _animation(record, trials, number, task, radius_m)
            said = decoded(trials.instruction[number])
            plots.append(Plot(f"animation_{count + 1}", f"A trial ({name})", f'"{said}"', shown, "gif"))
    return plots


def _paths(record: LandmarkRecord, trials: LandmarkTrials, task: Any) -> Figure:
    def draw(axes: Axes, number: int) -> str:
        _room(axes, trials, number, task)
        path = record.position_m[:, number]
        known = path[np.isfinite(path[:, 0])]
        axes.plot(known[:, 0], known[:, 1], color=INK, linewidth=1.2, label="path")
        if not record.success[number]:
            mark = "x" if record.lost[number] else "s"
            axes.plot(*known[-1], mark, color=BAD, markersize=6, markeredgewidth=2.0)
        return _title(trials, number)

    return page_of_maps(np.argsort(record.success, kind="stable")[:SHOWN].tolist(), draw)


def _room(axes: Axes, trials: LandmarkTrials, number: int, task: Any) -> None:
    """Draw a room, its landmarks, and how near is near enough; the robot's start looks up."""
    from matplotlib.patches import Circle, Polygon, Rectangle

    (x0, y0), (x1, y1) = (corner.tolist() for corner in task.room.corners)
    axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor="none", edgecolor=FAINT, linewidth=2.0))
    for k in range(task.landmarks):
        x, y, _ = trials.place[number, k].tolist()
        half, colour = trials.half[number, k], trials.colour[number, k].tolist()
        box = np.array([x, y, half[0], half[1], trials.yaw[number, k]])
        round_ = trials.pillar[number, k]
        axes.add_patch(Circle((x, y), half[0], color=colour) if round_ else Polygon(corners_of(box), color=colour))
        if k == 0:
            near = task.arrival_m + float(half[:2].max())
            axes.add_patch(Circle((x, y), near, facecolor="none", edgecolor=GOAL, linestyle="--", linewidth=1.0))
    axes.plot(*trials.start[number, :2], "o", color=FAINT, markersize=4, markeredgewidth=0)
    axes.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", xticks=[], yticks=[])
    axes.grid(False)


def _title(trials: LandmarkTrials, number: int) -> str:
    said = decoded(trials.instruction[number]) or "no instruction"
    return literal("\n".join(textwrap.wrap(said, _LINE)))


def _animation(record: LandmarkRecord, trials: LandmarkTrials, number: int, task: Any, radius_m: float) -> bytes:
    """Return a trial as an animated GIF."""
    from matplotlib.patches import Circle

    path = record.position_m[:, number]
    (length,), samples = frames_of([path])
    figure = new_figure(PANEL_IN, PANEL_IN + 0.45)
    figure.set_dpi(DPI)
    axes = figure.subplots()
    _room(axes, trials, number, task)
    axes.set_title(_title(trials, number))
    (line,) = axes.plot([], [], color=INK, linewidth=1.4, animated=True)
    body = Circle((0.0, 0.0), radius_m, color=INK, animated=True)
    axes.add_patch(body)
    caption = axes.text(0.5, -0.02, "", transform=axes.transAxes, ha="center", va="top", fontsize=8.5, animated=True)
    canvas: Any = figure.canvas
    canvas.draw()
    empty, speed = canvas.copy_from_bbox(figure.bbox), samples[1] / record.rate_hz * 1e3 / FRAME_MS
    frames: list[Any] = []
    for sample in samples:
        canvas.restore_region(empty)
        line.set_data(path[: sample + 1, 0], path[: sample + 1, 1])
        body.center = path[sample].tolist()
        over = sample >= length - 1
        ending = "there" if record.success[number] else "failed"
        caption.set_text(f"{sample / record.rate_hz:.1f} s, {ending if over else f'{speed:.0f} x'}")
        for artist in (line, body, caption):
            axes.draw_artist(artist)
        frames.append(pixels(figure))
    return gif(frames)
