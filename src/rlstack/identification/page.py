"""The report of an identification, or of a check: parameters, the gap before and after, on one self-contained page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.identification.gap import HORIZONS_S, Gap
from rlstack.identification.identify import Identification, described_split
from rlstack.identification.motion_model import Estimate
from rlstack.identification.residual import Residual
from rlstack.identification.shooting import HELD_OUT_S
from rlstack.text_table import aligned
from rlstack.verification.drawing import COLOURS, INK, Sketch, new_figure
from rlstack.verification.plain_page import write_plain_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write_identification(path: Path, name: str, found: Identification, residual: Residual | None = None) -> None:
    """Write the page of an identification, and of the residual model that was fitted to what it leaves.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or it cannot be written.
    """
    scope = (
        f"From {', '.join(str(one.path) for one in found.recordings)}, starting from {found.robot.name}:"
        f" {found.moving_s:g} s of free motion, {int(found.fit.kept.sum())} of {len(found.fit.kept)} segments,"
        f" {found.seconds:.0f} CPU-seconds."
    )
    _write(
        path,
        title=f"{name}: {found.robot.name} as its recording tells it",
        scope=scope,
        notes=found.notes,
        estimates=_rows(found.estimates.values()),
        gaps=found.gaps | (residual.gaps if residual else {}),
        residual=residual,
        sensors=_rows(found.sensors.values()),
        split=f"On {len(found.after.windows)} held-out windows of {HELD_OUT_S:g} s ({described_split()}).",
    )


def write_check(path: Path, name: str, gaps: Mapping[str, Gap], bags: Sequence[str], notes: Sequence[str]) -> None:
    """Write the page of a check: how far a robot file's prediction is from recordings.

    Raises:
        UserError: As for :func:`write_identification`.
    """
    _write(
        path,
        title=f"{name} against {', '.join(bags)}",
        scope="The gap between the robot and its file.",
        notes=notes,
        estimates=[],
        gaps=gaps,
        residual=None,
        sensors=[],
        split=f"On {len(next(iter(gaps.values())).windows)} windows of {HELD_OUT_S:g} s.",
    )


def _rows(estimates: Iterable[Estimate]) -> list[dict[str, str]]:
    return [
        {
            "name": one.parameter.name,
            "was": f"{one.parameter.value:.5g}",
            "now": f"{one.value:.5g}",
            "interval": "" if one.interval is None else f"{one.interval[0]:.5g} to {one.interval[1]:.5g}",
            "unit": one.parameter.unit,
            "verdict": one.verdict,
            "why": one.why,
        }
        for one in estimates
    ]


def gap_table(gaps: Mapping[str, Gap]) -> str:
    """Return the errors of several gaps as text, by term and horizon."""
    rows = [["term", "", *(f"{horizon:g} s" for horizon in HORIZONS_S)]]
    rows += [[f"{row['name']}, {row['unit']}", row["which"], *row["cells"]] for row in _gap_rows(gaps)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows)


def residual_table(residual: Residual) -> str:
    """Return what is left of each term without and with a residual model, as text."""
    rows = [["left over", "without", "with", ""]]
    rows += [[t.name, f"{t.before:.3g}", f"{t.after:.3g}", "used" if t.used else "not used"] for t in residual.terms]
    return "\n".join([*(aligned(rows) if residual.terms else []), residual.why])


def _gap_rows(gaps: Mapping[str, Gap]) -> list[dict[str, Any]]:
    every = dict.fromkeys(channel for gap in gaps.values() for channel in gap.errors)
    units = {channel: unit for gap in gaps.values() for channel, unit in gap.units.items()}
    return [
        {
            "name": channel.replace("_", " "),
            "unit": units[channel],
            "which": which,
            "cells": [f"{error:.3g}" for error in gap.errors[channel]],
        }
        for channel in every
        for which, gap in gaps.items()
        if channel in gap.errors
    ]


def _write(path: Path, *, gaps: Mapping[str, Gap], **values: Any) -> None:
    """Write the page; its plots show the first two gaps."""
    caption = (
        "Length of the prediction's error over the time since the window's begin: median of the windows, and the"
        " middle 80% of them."
    )
    example = (
        "One window, that with the middle error of all: recorded, and predicted from its first measurement; x, y, z"
        " from light to dark."
    )
    drawn = dict(list(gaps.items())[:2])
    sketches: list[Sketch] = [
        ("example", "Predicted and recorded motion", example, lambda: _example(drawn)),
        ("errors", "Errors over the horizon", caption, lambda: _figure(drawn)),
    ]
    horizons = [f"{horizon:g}" for horizon in HORIZONS_S]
    write_plain_page(path, _TEMPLATE, sketches, gaps=_gap_rows(gaps), horizons=horizons, **values)


def _figure(gaps: Mapping[str, Gap]) -> Figure:
    """Return the errors over time, a panel for each term."""
    names = list(next(iter(gaps.values())).errors)
    figure = new_figure(10.0, 2.6 * -(-len(names) // 2))
    grid = figure.subplots(-(-len(names) // 2), 2, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, names):
        for (which, gap), colour in zip(gaps.items(), (COLOURS[1], COLOURS[0])):
            errors = np.linalg.norm(np.nan_to_num(gap.over_time[name], posinf=1e6, neginf=1e6), axis=-1)
            at = np.linspace(0.0, HELD_OUT_S, errors.shape[1])
            low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9), axis=0)
            axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0.0)
            axes.plot(at, middle, color=colour, label=which)
        axes.set(title=name.replace("_", " "), xlabel="s", ylabel=next(iter(gaps.values())).units[name], ylim=(0, None))
    grid.flat[0].legend(loc="upper left")
    return figure


def _example(gaps: Mapping[str, Gap]) -> Figure:
    """Return the recorded and the predicted motion of the window whose error is the median."""
    first, last = next(iter(gaps.values())), list(gaps.values())[-1]
    names = list(first.recorded)
    ends = np.linalg.norm(np.nan_to_num(last.over_time[names[0]][:, -1], posinf=1e6, neginf=1e6), axis=-1)
    chosen = int(np.argsort(ends)[len(ends) // 2])
    figure = new_figure(10.0, 2.6 * -(-len(names) // 2))
    grid = figure.subplots(-(-len(names) // 2), 2, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(grid.flat, names):
        recorded = first.recorded[name][chosen]
        at = np.linspace(0.0, HELD_OUT_S, len(recorded))
        low, high = float(np.nanmin(recorded)), float(np.nanmax(recorded))
        room = 0.3 * (high - low) + 1e-6
        for column in range(recorded.shape[1]):
            shade = 0.45 + 0.55 * (column + 1) / recorded.shape[1]
            only = {"label": "recorded"} if column == recorded.shape[1] - 1 else {}
            axes.plot(at, recorded[:, column], ".", color=INK, markersize=2.5, alpha=shade, **only)
            for (which, gap), colour in zip(gaps.items(), (COLOURS[1], COLOURS[0])):
                only = {"label": which} if column == recorded.shape[1] - 1 else {}
                predicted = recorded[:, column] + gap.over_time[name][chosen, :, column]
                axes.plot(at, predicted, color=colour, alpha=shade, linewidth=1.2, **only)
        axes.set(title=name.replace("_", " "), xlabel="s", ylabel=first.units[name], ylim=(low - room, high + room))
    grid.flat[0].legend(loc="best")
    return figure
