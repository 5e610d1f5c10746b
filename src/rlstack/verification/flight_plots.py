"""Plots of flights as PNG, with the same colours in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.drawing import (
    COLOURS,
    INK,
    Plot,
    draw_plots,
    literal,
    matplotlib_or_refuse,
    new_figure,
    success_chart,
)
from rlstack.verification.flight_outcome import CLOSE_M, outcome
from rlstack.verification.flight_path_plots import (
    FlightColumn,
    chosen_in_words,
    draw_followed,
    draw_same_starts,
    draw_trajectories,
    title_of,
)
from rlstack.verification.flight_score import score_flights
from rlstack.verification.trial_records import FlightRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FLOOR_M, _CEILING_M = 1e-3, 10.0


def draw_flights(
    episodes: Mapping[str, FlightRecord],
    criteria: SuccessCriteria,
    *,
    commands: Sequence[str] = (),
    unit: str = "rad/s",
    dpi: int = 140,
) -> list[Plot]:
    """Draw all plots of flights.

    Args:
        episodes: The flights, by backend.
        criteria: Criteria that judge the flights; their radius and window are drawn.
        commands: Names of the commands, such as the rotors', in order.
        unit: Their units.
        dpi: Pixels per inch; the plots are 10 inches wide.

    Raises:
        UserError: matplotlib is not installed.
    """
    matplotlib_or_refuse()
    if not episodes:
        return []
    columns = []
    for index, (name, recorded) in enumerate(episodes.items()):
        colour = COLOURS[index % len(COLOURS)]
        columns.append(
            FlightColumn(
                name, recorded, criteria, score_flights(recorded, criteria), outcome(recorded, criteria), colour
            )
        )
    moving = any(item.episodes.moving for item in columns)
    due = "; the goal is the point of the path that is due" if moving else ""
    radius = f"{criteria.radius_m:g} m"
    window = f"second {criteria.from_s:g} to second {criteria.to_s:g}"
    pictures = (
        (
            "error",
            "Distance from the goal over time",
            f"Line: median episode; bands: the middle 50% and 90% of episodes; dotted: 1% are farther; grey: {window},"
            f" which is judged{due}.",
            lambda: _error(columns),
        ),
        (
            "trajectories",
            "Trajectories",
            f"{chosen_in_words(columns)}; dots: starts; pale: before the judged {window}; crimson: was farther than"
            f" {radius} in it{'; grey: the path to follow' if moving else ''}.",
            lambda: draw_followed(columns) if moving else draw_trajectories(columns),
        ),
        *(
            [
                (
                    "same_start",
                    "The same start in each simulator",
                    "Position from the goal: the first flight and those in which the simulators are farthest apart;"
                    " same start and disturbances, in process the same sensor noise as well, so what differs is the"
                    " physics and its rounding.",
                    lambda: draw_same_starts(columns),
                )
            ]
            if len(columns) > 1
            else []
        ),
        (
            "success",
            "Success by disturbance",
            f"Share of episodes within {radius} from {window}, with Wilson 95% intervals and counts.",
            lambda: _success(columns),
        ),
        (
            "recovery",
            "Time to recover",
            f"Share of episodes that have come within {radius} for good by each second; what is missing at the end"
            " never did.",
            lambda: _recovery(columns),
        ),
        (
            "commands",
            "Commands",
            "Commands of the episode with the median position error and of the one with the largest.",
            lambda: _commands(columns, commands, unit),
        ),
    )
    return draw_plots(pictures, dpi)


def _error(columns: Sequence[FlightColumn]) -> Figure:
    from matplotlib.ticker import LogLocator, NullLocator

    figure = new_figure(10.0, 4.6)
    axes = figure.add_subplot()
    lowest, highest = CLOSE_M, 2.0 * columns[0].criteria.radius_m
    for item in columns:
        ordered = np.clip(np.sort(item.episodes.error_m, axis=1), _FLOOR_M, _CEILING_M)
        time = item.episodes.time_s
        for low, high, alpha in ((5, 95, 0.13), (25, 75, 0.25)):
            axes.fill_between(
                time, _row(ordered, low), _row(ordered, high), color=item.colour, alpha=alpha, linewidth=0
            )
        axes.plot(time, _row(ordered, 50), color=item.colour, linewidth=2.0, label=title_of(item))
        axes.plot(time, _row(ordered, 99), color=item.colour, linewidth=1.0, linestyle=":")
        # Starts on the goal itself must not stretch the axis, so its low end is that of the judged window.
        lowest = min(lowest, _row(ordered[time >= item.criteria.from_s], 5).min())
        highest = max(highest, _row(ordered, 99).max())
    criteria = columns[0].criteria
    axes.axvspan(criteria.from_s, criteria.to_s, color="#f2f4f7", zorder=0)
    end = max(item.episodes.time_s[-1] for item in columns)
    for radius, style in ((criteria.radius_m, "-"), (CLOSE_M, "--")):
        axes.axhline(radius, color=INK, linewidth=0.9, linestyle=style)
        axes.text(end, radius * 1.04, f"{radius:g} m", ha="right", va="bottom", fontsize=9)
    due = "the point that is due" if any(item.episodes.moving for item in columns) else "goal"
    axes.set(xlabel="time (s)", ylabel=f"distance from {due} (m)", yscale="log")
    axes.set(xlim=(0.0, end), ylim=(0.8 * lowest, 1.25 * highest))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(columns), borderaxespad=0.2)
    return figure


def _success(columns: Sequence[FlightColumn]) -> Figure:
    labels = dict.fromkeys(label for item in columns for label in item.score.groups)
    rows = {
        label: {title_of(item): item.score.groups[label] for item in columns if label in item.score.groups}
        for label in labels
    }
    rows["all episodes"] = {title_of(item): item.score for item in columns}
    return success_chart(rows, {title_of(item): item.colour for item in columns}, "episodes", divided=1)


def _recovery(columns: Sequence[FlightColumn]) -> Figure:
    figure = new_figure(10.0, 4.2)
    axes = figure.add_subplot()
    for item in columns:
        times = np.sort(item.outcome.recover_s)
        known = times[np.isfinite(times)]
        end = item.episodes.time_s[-1]
        share = np.arange(1, len(known) + 1) / len(times)
        axes.step(
            [0.0, *known, end],
            [0.0, *share, share[-1] if len(known) else 0.0],
            where="post",
            color=item.colour,
            linewidth=2.0,
            label=f"{title_of(item)}: median {_seconds(item.score['recover_s'])},"
            f" {item.score.figure('never_recovered').text} never",
        )
    criteria = columns[0].criteria
    axes.axvline(criteria.from_s, color=INK, linewidth=0.9, linestyle="--")
    axes.annotate(
        f"judged from {criteria.from_s:g} s",
        (criteria.from_s, 0.0),
        xytext=(5, 6),
        textcoords="offset points",
        fontsize=9,
    )
    end = max(item.episodes.time_s[-1] for item in columns)
    axes.set(xlabel="time (s)", ylabel="share recovered for good", xlim=(0.0, end), ylim=(0.0, 1.02))
    axes.yaxis.set_major_formatter(lambda number, _: f"{100 * number:.0f}%")
    axes.legend(loc="lower right")
    return figure


def _commands(columns: Sequence[FlightColumn], commands: Sequence[str], unit: str) -> Figure:
    figure = new_figure(10.0, 3.1 * len(columns) + 0.3)
    grid = figure.subplots(len(columns), 2, squeeze=False, sharex=True, sharey=True)
    for item, row in zip(columns, grid):
        order = np.argsort(item.outcome.error_m, kind="stable")
        for axes, (which, n) in zip(row, (("typical", order[(len(order) - 1) // 2]), ("worst", order[-1]))):
            for rotor in range(item.episodes.command.shape[2]):
                axes.plot(
                    item.episodes.time_s,
                    item.episodes.command[:, n, rotor],
                    color=COLOURS[rotor % len(COLOURS)],
                    linewidth=0.9,
                    label=commands[rotor] if rotor < len(commands) else f"rotor {rotor + 1}",
                )
            error = item.outcome.error_m[n]
            result = "lost" if item.outcome.lost[n] else f"mean error {error:.3f} m"
            axes.set_title(
                f"{title_of(item)}, {which} episode\n{literal(item.episodes.labels[n])}, {result}", fontsize=9.5
            )
            axes.set_xlim(0.0, item.episodes.time_s[-1])
            if np.nanmin(item.episodes.command) >= 0.0:
                axes.set_ylim(bottom=0.0)
        row[0].set_ylabel(f"command ({unit})")
    for axes in grid[-1]:
        axes.set_xlabel("time (s)")
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(names))
    return figure


def _row(ordered: Array, percent: float) -> Array:
    """Return a percentile over episodes of (T, N) values that are sorted along N, without interpolation."""
    return ordered[:, max(int(np.ceil(percent / 100.0 * ordered.shape[1])), 1) - 1]


def _seconds(number: float | None) -> str:
    return f"{number:.2f} s" if number is not None and np.isfinite(number) else "never"
