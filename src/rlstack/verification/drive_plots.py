"""Pictures of drives, drawn without a display; a driver has the same colour in all of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.verification.drawing import COLOURS, INK, STYLE, literal, matplotlib_or_refuse, new_figure
from rlstack.verification.film import Take, film
from rlstack.verification.map_drawing import draw_map, draw_path
from rlstack.verification.metrics import wilson
from rlstack.verification.plots import Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rlstack.verification.drive_report import Column, DriveVerification

SHOWN, ACROSS = 8, 4
"""Ways on a page of paths, and how many of them in a row."""

FILMS, ABREAST = 3, 3
"""How many drives are animated, and of how many drivers beside each other."""


def draw(verification: DriveVerification, *, dpi: int = 140) -> list[Plot]:
    """Return all pictures of a verification.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    matplotlib = matplotlib_or_refuse()
    if not verification.columns:
        return []
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(verification.drivers)}
    columns = verification.columns
    (first, column), *_ = columns.items()
    pictures: list[tuple[str, str, str, Callable[[], Figure]]] = [
        (
            "success",
            "Success by class of map",
            "Share of the ways on which a driver arrives in time and without contact, with Wilson 95% intervals.",
            lambda: _success(verification, colours),
        ),
        (
            "arrival",
            f"Who has arrived, and when ({first})",
            "Share of all ways on which a driver has arrived, by time over what the shortest way takes at the robot's"
            " full speed; what is missing at the end never did.",
            lambda: _arrival(verification, column, colours),
        ),
        (
            "clearance",
            f"Distance kept ({first})",
            "Share of the ways that succeed on which a driver's least distance to obstacles is below that.",
            lambda: _clearance(column, colours),
        ),
    ]
    for name, title, chosen in _chosen(columns):
        of = columns[name]
        pictures.append(
            (
                f"paths_{_stem(name)}",
                title,
                "Failures first, then ways that are hard for the planners. Grey dot: start; green: goal; cross:"
                " contact; square: out of time. The second line is the judged driver's.",
                lambda of=of, chosen=chosen: _paths(of, chosen, colours),  # type: ignore[misc]
            )
        )
    if len(columns) > 1:
        pictures.append(
            (
                "same_way",
                "The same way in each simulator",
                "Paths of the judged driver over ways that were driven in several simulators: those on which it ends"
                " differently, then those on which the paths are farthest apart.",
                lambda: _same_way(verification),
            )
        )
    plots = []
    with matplotlib.rc_context(STYLE):
        for name, title, caption, picture in pictures:
            png = io.BytesIO()
            picture().savefig(png, format="png", dpi=dpi, metadata={"Software": None})
            plots.append(Plot(name, title, caption, png.getvalue()))
    return [*plots, *_films(verification)]


def interesting(column: Column, count: int) -> NDArray[np.intp]:
    """Return the numbers of ways worth seeing: where the judged driver fails, then where the others do, then long ones.

    Args:
        column: Whose ways.
        count: How many.
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
    return [(name, f"Paths ({name})", interesting(column, SHOWN)) for name, column in columns.items()]


def _success(v: DriveVerification, colours: dict[str, str]) -> Figure:
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for name, column in v.columns.items():
        for who, drives in column.here.items():
            for kind in dict.fromkeys(drives.labels.tolist()):
                some = drives.success[drives.labels == kind]
                found.setdefault(f"{kind} ({name})", {})[who] = int(some.sum()), len(some)
    figure = new_figure(10.0, 1.2 + 0.24 * len(found) * (len(colours) + 0.5))
    axes = figure.add_subplot()
    lowest = 1.0
    for row, drivers in enumerate(found.values()):
        for index, (who, colour) in enumerate(colours.items()):
            if who not in drivers:
                continue
            at = row + (index - (len(colours) - 1) / 2) * 0.7 / max(len(colours), 1)
            arrived, count = drivers[who]
            low, high = wilson(arrived, count)
            lowest = min(lowest, low)
            axes.plot([low, high], [at, at], color=colour, linewidth=2.2, alpha=0.5)
            axes.plot(arrived / count, at, "o", color=colour, markersize=5.5)
            axes.annotate(
                f"{100 * arrived / count:.1f}% of {count:,}",
                (1.0, at),
                xycoords=("axes fraction", "data"),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=colour,
                annotation_clip=False,
            )
    for who, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=literal(who))
    left = max(0.0, np.floor(10 * lowest) / 10)
    axes.set(xlim=(left, 1.0 + 0.01 * (1.0 - left)), ylim=(len(found) - 0.5, -0.5), xlabel="share of ways")
    axes.set_yticks(range(len(found)), [literal(row) for row in found])
    axes.xaxis.set_major_formatter(lambda number, _: f"{100 * number:g}%")
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(colours), borderaxespad=0.2)
    return figure


def _arrival(v: DriveVerification, column: Column, colours: dict[str, str]) -> Figure:
    figure = new_figure(10.0, 4.0)
    axes = figure.add_subplot()
    most = 1.0
    for who, drives in column.all.items():
        over = np.sort((drives.time_s * v.robot.limits.linear_velocity_m_s / drives.shortest_m)[drives.success])
        share = np.arange(1, len(over) + 1) / len(drives)
        score = column.score if drives is column.drives else column.theirs[who]
        mean = "never" if score.time_s is None else f"mean {score.time_s:.1f} s"
        ends = [0.0, *over, 10.0], [0.0, *share, share[-1] if len(share) else 0.0]
        axes.step(*ends, where="post", color=colours[who], linewidth=2.0, label=f"{literal(who)}: {mean}")
        most = max(most, over[int(0.99 * (len(over) - 1))] if len(over) else 1.0)
    axes.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    axes.set(xlabel="time over the shortest way's at full speed", ylabel="share arrived")
    axes.set(xlim=(0.5, 1.1 * most), ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    axes.legend(loc="lower right")
    return figure


def _clearance(column: Column, colours: dict[str, str]) -> Figure:
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
        xlabel="least distance to obstacles (m)", ylabel="share of ways", xlim=(0.0, 1.05 * most), ylim=(0.0, 1.02)
    )
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    if axes.lines:
        axes.legend(loc="lower right")
    return figure


def _paths(column: Column, chosen: NDArray[np.intp], colours: dict[str, str]) -> Figure:
    rows = -(-len(chosen) // ACROSS)
    figure = new_figure(10.0, 2.95 * rows + 0.35)
    grid = figure.subplots(rows, ACROSS, squeeze=False)
    for axes in grid.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, number in zip(grid.flat, chosen.tolist()):
        drawn = column.course.pool.maps[number]
        draw_map(axes, drawn, column.arrival_m)
        for who, drives in reversed(column.all.items()):
            if number < len(drives):
                draw_path(axes, drives.pose[:, number], colours[who], str(drives.ending[number]), literal(who))
        told = f"{column.drives.ending[number]} after {column.drives.time_s[number]:.1f} s"
        axes.set_title(f"{literal(drawn.title)}\n{told}", fontsize=8.0, fontweight="normal")
    handles, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper left", ncols=len(names))
    return figure


def _same_way(v: DriveVerification) -> Figure:
    # columns over the same course share their first ways
    first = next(iter(v.columns.values()))
    same = {
        n: c for n, c in v.columns.items() if c.course.pool.maps[0] is first.course.pool.maps[0] or _alike(c, first)
    }
    count = min(len(column.drives) for column in same.values())
    differs = np.zeros(count)
    reference = first.drives
    for column in same.values():
        steps = min(len(reference.pose), len(column.drives.pose))
        apart = np.linalg.norm((column.drives.pose[:steps] - reference.pose[:steps])[:, :count, :2], axis=-1)
        differs = np.maximum(differs, np.nan_to_num(apart).max(axis=0))
        differs += 1e3 * (column.drives.ending[:count] != reference.ending[:count])
    chosen = np.argsort(-differs, kind="stable")[:ACROSS]
    figure = new_figure(10.0, 3.3)
    grid = figure.subplots(1, ACROSS, squeeze=False)[0]
    for axes in grid[len(chosen) :]:
        axes.set_visible(False)
    for axes, number in zip(grid, chosen.tolist()):
        drawn = first.course.pool.maps[number]
        draw_map(axes, drawn, first.arrival_m)
        for k, (name, column) in enumerate(same.items()):
            drives = column.drives
            draw_path(
                axes, drives.pose[:, number], COLOURS[k % len(COLOURS)], str(drives.ending[number]), literal(name)
            )
        axes.set_title(literal(drawn.title), fontsize=8.0, fontweight="normal")
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=len(names))
    return figure


def _alike(one: Column, other: Column) -> bool:
    return one.course.pool.maps[0].title == other.course.pool.maps[0].title


def _films(v: DriveVerification) -> list[Plot]:
    """Animate a way of each column in process, what is worth seeing first."""
    films = []
    for name, column in list(v.columns.items())[:FILMS]:
        (number,) = interesting(column, 1).tolist()
        drawn = column.course.pool.maps[number]
        shown = {who: drives for who, drives in column.all.items() if number < len(drives)}
        takes = [
            Take(who, d.pose[:, number], str(d.ending[number]), None if d.people is None else d.people[:, number])
            for who, d in list(shown.items())[:ABREAST]
        ]
        picture = film(v.robot, drawn, takes, rate_hz=column.drives.rate_hz, arrival_m=column.arrival_m)
        films.append(
            Plot(
                f"film_{_stem(name)}",
                f"{drawn.title} ({name})",
                "Red points: what the lidar sees." + ("" if column.drives.people is None else " Discs: who moves."),
                picture,
                "gif",
            )
        )
    return films


def _stem(name: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in name).split())
