"""Plots of navigation trials; a driver has the same colour in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.verification.animation import AnimatedDrive, animate
from rlstack.verification.drawing import (
    ACROSS,
    COLOURS,
    INK,
    SHOWN,
    Plot,
    Sketch,
    draw_plots,
    literal,
    matplotlib_or_refuse,
    new_figure,
    page_of_maps,
    stem,
    success_chart,
)
from rlstack.verification.map_drawing import draw_map, draw_path
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.navigation_score import score_drives
from rlstack.verification.scores import Score
from rlstack.verification.trial_records import NavigationRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


ANIMATIONS, ABREAST = 3, 3
"""Number of animated drives, and of drivers side by side."""


@dataclass(frozen=True)
class NavigationColumn:
    """The drives of one column.

    Args:
        course: The starts and goals.
        drives: Drives of the judged driver.
        baselines: Drives of classical planners by name, over the first of the same starts and goals.
        arrival_m: Goal tolerance.
    """

    course: NavigationEpisodes
    drives: NavigationRecord
    baselines: Mapping[str, NavigationRecord]
    arrival_m: float

    @property
    def all(self) -> dict[str, NavigationRecord]:
        """All drives by name, the judged driver's first."""
        return {self.drives.driver: self.drives, **self.baselines}

    @property
    def scores(self) -> dict[str, Score]:
        """Scores of the drivers in this simulator; planners are not driven over topics."""
        here = {name: drives for name, drives in self.all.items() if drives.simulator == self.drives.simulator}
        return {name: score_drives(drives, arrival_m=self.arrival_m) for name, drives in here.items()}


def draw_drives(columns: Mapping[str, NavigationColumn], robot: WheeledBase) -> list[Plot]:
    """Return all plots of drives.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    matplotlib_or_refuse()
    if not columns:
        return []
    drivers = dict.fromkeys(name for column in columns.values() for name in column.all)
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(drivers)}
    (first, column), *_ = columns.items()
    pictures: list[Sketch] = [
        (
            "success",
            "Success by kind of map",
            "Share of the episodes in which a driver arrives in time and without a contact, with Wilson 95% intervals.",
            lambda: _success(columns, colours),
        ),
        (
            "arrival",
            f"Time of arrival ({first})",
            "Share of all episodes in which a driver has arrived, by time over that of the shortest path at full"
            " speed; the rest never arrive.",
            lambda: _arrival(robot, column, colours),
        ),
        (
            "clearance",
            f"Clearance ({first})",
            "Cumulative share of successful episodes by a driver's least distance to obstacles.",
            lambda: _clearance(column, colours),
        ),
    ]
    for name, title, chosen in _chosen(columns):
        of = columns[name]
        pictures.append(
            (
                f"paths_{stem(name)}",
                title,
                "Failures first, then episodes that are hard for the planners. Grey dot: start; green: goal; cross:"
                " contact; square: timed out. The title tells how the judged driver's episode ended.",
                lambda of=of, chosen=chosen: _paths(of, chosen, colours),  # type: ignore[misc]
            )
        )
    if len(columns) > 1:
        pictures.append(
            (
                "same_way",
                "The same episode in each simulator",
                "Paths of the judged driver in episodes that ran in several simulators: those that end differently,"
                " then those with the paths farthest apart.",
                lambda: _same_way(columns),
            )
        )
    plots = draw_plots(pictures)
    return [*plots, *_animations(columns, robot)]


def notable(column: NavigationColumn, count: int) -> NDArray[np.intp]:
    """Return the indices of notable drives: failures of the judged driver, then of the others, then long ones.

    Args:
        column: The drives.
        count: How many to return.
    """
    drives = column.drives
    failed = drives.ending != "arrived"
    theirs = np.zeros(len(drives), dtype=int)
    for other in column.baselines.values():
        theirs[: len(other)] += other.ending[: len(drives)] != "arrived"
    rank = np.lexsort((-drives.time_s / drives.shortest_m, -theirs, drives.ending == "arrived"))
    failures, rest = rank[: int(failed.sum())], rank[int(failed.sum()) :]
    half = count - min(len(rest), count // 2)
    return np.concatenate([failures[:half], rest])[:count]


def _chosen(columns: Any) -> list[tuple[str, str, NDArray[np.intp]]]:
    return [(name, f"Paths ({name})", notable(column, SHOWN)) for name, column in columns.items()]


def _success(columns: Mapping[str, NavigationColumn], colours: dict[str, str]) -> Figure:
    rows = {
        f"{kind} ({name})": {who: score.groups[kind] for who, score in column.scores.items() if kind in score.groups}
        for name, column in columns.items()
        for kind in dict.fromkeys(column.drives.labels.tolist())
    }
    return success_chart(rows, colours, "episodes")


def _arrival(robot: WheeledBase, column: NavigationColumn, colours: dict[str, str]) -> Figure:
    figure = new_figure(10.0, 4.0)
    axes = figure.add_subplot()
    most = 1.0
    for who, drives in column.all.items():
        over = np.sort((drives.time_s * robot.limits.linear_velocity_m_s / drives.shortest_m)[drives.success])
        share = np.arange(1, len(over) + 1) / len(drives)
        arrived = drives.time_s[drives.success]
        mean = f"mean {arrived.mean():.1f} s" if len(arrived) else "never"
        ends = [0.0, *over, 10.0], [0.0, *share, share[-1] if len(share) else 0.0]
        axes.step(*ends, where="post", color=colours[who], linewidth=2.0, label=f"{literal(who)}: {mean}")
        most = max(most, over[int(0.99 * (len(over) - 1))] if len(over) else 1.0)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    axes.set(xlabel="time over the shortest path's at full speed", ylabel="share arrived")
    axes.set(xlim=(0.5, 1.1 * most), ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    axes.legend(loc="lower right")
    return figure


def _clearance(column: NavigationColumn, colours: dict[str, str]) -> Figure:
    figure = new_figure(10.0, 3.6)
    axes = figure.add_subplot()
    most = 0.1
    for who, drives in column.all.items():
        least = np.sort(drives.nearest_m[drives.success])
        if not len(least):
            continue
        share = np.arange(1, len(least) + 1) / len(least)
        median = f"{literal(who)}: median {100 * np.median(least):.0f} cm"
        axes.step([0.0, *least], [0.0, *share], where="post", color=colours[who], linewidth=2.0, label=median)
        most = max(most, float(least[int(0.98 * (len(least) - 1))]))
    axes.set(
        xlabel="least distance to obstacles (m)", ylabel="share of episodes", xlim=(0.0, 1.05 * most), ylim=(0.0, 1.02)
    )
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    if axes.lines:
        axes.legend(loc="lower right")
    return figure


def _paths(column: NavigationColumn, chosen: NDArray[np.intp], colours: dict[str, str]) -> Figure:
    def draw(axes: Axes, number: int) -> str:
        drawn = column.course.pool.maps[number]
        draw_map(axes, drawn, column.arrival_m)
        for who, drives in reversed(column.all.items()):
            if number < len(drives):
                draw_path(axes, drives.pose[:, number], colours[who], str(drives.ending[number]), literal(who))
        return f"{literal(drawn.title)}\n{column.drives.ending[number]} after {column.drives.time_s[number]:.1f} s"

    return page_of_maps(chosen.tolist(), draw)


def _same_way(columns: Mapping[str, NavigationColumn]) -> Figure:
    # columns over the same course share their first drives
    first = next(iter(columns.values()))
    same = {n: c for n, c in columns.items() if c.course.pool.maps[0] is first.course.pool.maps[0] or _alike(c, first)}
    count = min(len(column.drives) for column in same.values())
    differs = np.zeros(count)
    reference = first.drives
    for column in same.values():
        steps = min(len(reference.pose), len(column.drives.pose))
        poses = (drives.pose[:steps, :count, :2] for drives in (column.drives, reference))
        apart = np.linalg.norm(np.subtract(*poses), axis=-1)
        differs = np.maximum(differs, np.nan_to_num(apart).max(axis=0))
        differs += 1e3 * (column.drives.ending[:count] != reference.ending[:count])
    chosen = np.argsort(-differs, kind="stable")[:ACROSS]

    def draw(axes: Axes, number: int) -> str:
        drawn = first.course.pool.maps[number]
        draw_map(axes, drawn, first.arrival_m)
        for colour, (name, column) in reversed([*zip(COLOURS * len(same), same.items())]):
            drives = column.drives
            draw_path(axes, drives.pose[:, number], colour, str(drives.ending[number]), literal(name))
        return literal(drawn.title)

    return page_of_maps(chosen.tolist(), draw)


def _alike(one: NavigationColumn, other: NavigationColumn) -> bool:
    return one.course.pool.maps[0].title == other.course.pool.maps[0].title


def _animations(columns: Mapping[str, NavigationColumn], robot: WheeledBase) -> list[Plot]:
    """Animate a notable drive of each in-process column."""
    films = []
    for name, column in list(columns.items())[:ANIMATIONS]:
        (number,) = notable(column, 1).tolist()
        drawn = column.course.pool.maps[number]
        shown = {who: drives for who, drives in column.all.items() if number < len(drives)}
        takes = [
            AnimatedDrive(
                who, d.pose[:, number], str(d.ending[number]), None if d.people is None else d.people[:, number]
            )
            for who, d in list(shown.items())[:ABREAST]
        ]
        picture = animate(robot, drawn, takes, rate_hz=column.drives.rate_hz, arrival_m=column.arrival_m)
        films.append(
            Plot(
                f"animation_{stem(name)}",
                f"{drawn.title} ({name})",
                "Red points: what the lidar sees." + ("" if column.drives.people is None else " Discs: people."),
                picture,
                "gif",
            )
        )
    return films
