"""Plots of exploration trials: coverage over time, paths, and an animated drive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.verification.animation import AnimatedDrive, animate
from rlstack.verification.drawing import (
    COLOURS,
    SHOWN,
    Plot,
    Sketch,
    draw_plots,
    literal,
    new_figure,
    page_of_maps,
    stem,
)
from rlstack.verification.exploration_trials import SHARE
from rlstack.verification.map_drawing import draw_map, draw_path
from rlstack.verification.trial_records import ExplorationRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABREAST = 2
"""Explorers side by side in an animation."""

_GOAL_M = 0.01
"""Explorers have no goal: a marker of this size replaces it on maps."""

Columns = Mapping[str, tuple[ExplorationRecord, Mapping[str, ExplorationRecord]]]


def draw_exploration(robot: WheeledBase, columns: Columns, maps: Sequence[FloorMap]) -> list[Plot]:
    """Return all plots of exploration trials.

    Args:
        robot: The robot.
        columns: By column: the judged explorer's record, and by name those of others at the first of the same sites.
        maps: The floors, in the order of every column with driving robots.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    made: list[Sketch] = []
    for name, (seen, beside) in columns.items():
        made.append(
            (
                f"coverage_{stem(name)}",
                f"Coverage ({name})",
                "Mean coverage over time.",
                lambda seen=seen, beside=beside: _coverage(seen, beside),  # type: ignore[misc]
            )
        )
        if seen.pose is not None:
            made.append(
                (
                    f"paths_{stem(name)}",
                    f"Paths ({name})",
                    "Those with the least coverage first. Cross: contact.",
                    lambda seen=seen, beside=beside: _paths(seen, beside, maps),  # type: ignore[misc]
                )
            )
    plots = draw_plots(made)
    driven = [(name, column) for name, column in columns.items() if column[0].pose is not None]
    for name, (seen, beside) in driven[:2]:
        number = int(notable(seen, 1)[0])
        takes = [
            AnimatedDrive(who, one.pose[:, number], _ending(one, number))
            for who, one in [(seen.driver, seen), *beside.items()][:ABREAST]
            if one.pose is not None and number < len(one)
        ]
        moving = animate(robot, maps[number], takes, rate_hz=robot.control_rate_hz, arrival_m=_GOAL_M)
        plots.append(
            Plot(
                f"animation_{stem(name)}",
                f"{maps[number].title} ({name})",
                "Red points: what the lidar sees.",
                moving,
                "gif",
            )
        )
    return plots


def notable(seen: ExplorationRecord, count: int) -> list[int]:
    """Return the indices of notable sites: contacts, then those with the slowest coverage."""
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
    def draw(axes: Axes, number: int) -> str:
        draw_map(axes, maps[number], _GOAL_M)
        for colour, (who, one) in zip(COLOURS[1::-1], [*list(beside.items())[:1], (seen.driver, seen)]):
            if one.pose is not None and number < len(one):
                draw_path(axes, one.pose[:, number], colour, "collided" if one.crashed[number] else "arrived", who)
        return f"{literal(maps[number].title)}\n{100 * seen.coverage[number, -1]:.0f}% known"

    return page_of_maps(notable(seen, SHOWN), draw)
