"""Plots of exploration trials: coverage over time, paths, and an animated drive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.verification.animation import Take, animate
from rlstack.verification.drawing import (
    COLOURS,
    Plot,
    Sketch,
    draw_plots,
    literal,
    new_figure,
    stem,
)
from rlstack.verification.exploration_floors import SHARE
from rlstack.verification.map_drawing import draw_map, draw_path
from rlstack.verification.records import ExplorationRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN, ACROSS, ABREAST = 8, 4, 2
"""Floors on a page of paths, floors in a row, and explorers side by side in an animation."""

_GOAL_M = 0.01
"""Explorers have no goal: a marker of this size replaces it on maps."""

Columns = Mapping[str, tuple[ExplorationRecord, Mapping[str, ExplorationRecord]]]


def draw_exploration(robot: WheeledBase, columns: Columns, maps: Sequence[FloorMap], dpi: int = 140) -> list[Plot]:
    """Return all plots of exploration trials.

    Args:
        robot: The robot.
        columns: By column: the judged explorer's record, and by name those of others on the first of the same grounds.
        maps: The floors, in the order of every column with driving robots.
        dpi: Pixels per inch.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    made: list[Sketch] = []
    for name, (seen, beside) in columns.items():
        made.append(
            (
                f"coverage_{stem(name)}",
                f"Coverage ({name})",
                "Mean known share of what is to be seen, by time.",
                lambda seen=seen, beside=beside: _coverage(seen, beside),  # type: ignore[misc]
            )
        )
        if seen.pose is not None:
            made.append(
                (
                    f"paths_{stem(name)}",
                    f"Where it went ({name})",
                    "Those first of which least was seen. Cross: contact.",
                    lambda seen=seen, beside=beside: _paths(seen, beside, maps),  # type: ignore[misc]
                )
            )
    plots = draw_plots(made, dpi)
    driven = [(name, column) for name, column in columns.items() if column[0].pose is not None]
    for name, (seen, beside) in driven[:2]:
        number = int(worth_seeing(seen, 1)[0])
        takes = [
            Take(who, one.pose[:, number], _ending(one, number))
            for who, one in [(seen.driver, seen), *beside.items()][:ABREAST]
            if one.pose is not None and number < len(one)
        ]
        moving = animate(robot, maps[number], takes, rate_hz=robot.control_rate_hz, arrival_m=_GOAL_M)
        told = "Red points: what the lidar sees."
        plots.append(Plot(f"film_{stem(name)}", f"{maps[number].title} ({name})", told, moving, "gif"))
    return plots


def worth_seeing(seen: ExplorationRecord, count: int) -> list[int]:
    """Return the indices of notable grounds: contacts, then those with the slowest coverage."""
    order: list[int] = np.lexsort((seen.coverage.mean(axis=1), ~seen.crashed)).tolist()
    return order[:count]


def _ending(seen: ExplorationRecord, number: int) -> str:
    if seen.crashed[number]:
        return "collided"
    return "arrived" if seen.done[number] else "timed out"


def _coverage(seen: ExplorationRecord, beside: Mapping[str, ExplorationRecord]) -> Figure:
    figure = new_figure(10.0, 4.2)
    axes = figure.add_subplot()
    for colour, (who, one) in zip(COLOURS, [(seen.driver, seen), *beside.items()]):
        label = f"{literal(who)}: {one.time_to(SHARE).mean():.1f} to 90%"
        axes.plot(one.coverage.mean(axis=0), color=colour, linewidth=2.0, label=label)
    axes.set(xlabel="moves" if seen.moves else "time (s)", ylabel="known", ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    axes.legend(loc="lower right")
    return figure


def _paths(seen: ExplorationRecord, beside: Mapping[str, ExplorationRecord], maps: Sequence[FloorMap]) -> Figure:
    chosen = worth_seeing(seen, SHOWN)
    rows = -(-len(chosen) // ACROSS)
    figure = new_figure(10.0, 2.95 * rows + 0.35)
    grid = figure.subplots(rows, ACROSS, squeeze=False)
    for axes in grid.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, number in zip(grid.flat, chosen):
        draw_map(axes, maps[number], _GOAL_M)
        everybody = [(seen.driver, seen), *list(beside.items())[:1]]
        for colour, (who, one) in zip(COLOURS, everybody):
            if one.pose is not None and number < len(one):
                draw_path(axes, one.pose[:, number], colour, "collided" if one.crashed[number] else "arrived", who)
        told = f"{100 * seen.coverage[number, -1]:.0f}% known"
        axes.set_title(f"{literal(maps[number].title)}\n{told}", fontsize=8.0, fontweight="normal")
    handles, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=max(len(names), 1))
    return figure
