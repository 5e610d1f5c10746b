"""Learning curves of runs: a figure of each evaluation over the steps, over seeds."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.training.run_statistics import Estimate, Scores, interquartile_mean, performance_profile
from rlstack.training.run_summaries import RunSummary
from rlstack.verification.drawing import COLOURS, STYLE, literal, matplotlib_or_refuse, new_figure

_PROFILE_POINTS = 201


def learning_curves(groups: Mapping[str, Sequence[RunSummary]], figure: str, kind: str) -> bytes:
    """Return a picture of the interquartile mean over each group's runs, with its 95% bootstrap interval.

    Args:
        groups: Runs by the group's name; those that have not ended are left out.
        figure: A figure of training.json's evaluations, such as ``success``.
        kind: ``png`` or ``svg``.

    Raises:
        UserError: matplotlib is missing, or no run has evaluations with that figure.
    """
    matplotlib = matplotlib_or_refuse()
    curves = {name: [run.curve(figure) for run in runs] for name, runs in groups.items()}
    curves = {name: [curve for curve in found if curve[0]] for name, found in curves.items()}
    if not any(curves.values()):
        known = sorted({key for runs in groups.values() for run in runs for row in _rows(run) for key in row})
        raise UserError(f"No run has evaluations with the figure {figure}. Figures: {', '.join(known) or 'none yet'}.")
    with matplotlib.rc_context(STYLE):
        picture = new_figure(7.5, 4.5)
        axes = picture.subplots()
        for number, (name, found) in enumerate((name, found) for name, found in curves.items() if found):
            steps, middle = over_runs(found)
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(steps, [one.value for one in middle], color=colour, marker="o", markersize=3.5)
            axes.lines[-1].set_label(literal(f"{name}, {len(found)} run{'s' * (len(found) > 1)}"))
            axes.fill_between(
                steps, [one.low for one in middle], [one.high for one in middle], color=colour, alpha=0.2, linewidth=0.0
            )
        axes.set_xlabel("environment steps")
        axes.set_ylabel(literal(figure.replace("_", " ")))
        axes.set_title("Interquartile mean over runs, 95% bootstrap interval")
        axes.legend()
        out = io.BytesIO()
        picture.savefig(out, format=kind, dpi=150)
    return out.getvalue()


def profiles(scores: Mapping[str, Scores], figure: str, lower: bool, kind: str) -> bytes:
    """Return a picture of each group's performance profile with its 95% bootstrap interval.

    Args:
        scores: Scores by the group's name, one array for each task.
        figure: Their figure's name.
        lower: Whether a lower figure is better.
        kind: ``png`` or ``svg``.

    Raises:
        UserError: matplotlib is missing.
    """
    sign = -1.0 if lower else 1.0
    known = np.concatenate([one for own in scores.values() for one in own])
    margin = 0.05 * (float(known.max() - known.min()) or 1.0)
    values = np.linspace(known.min() - margin, known.max() + margin, _PROFILE_POINTS)
    with matplotlib_or_refuse().rc_context(STYLE):
        picture = new_figure(7.5, 4.5)
        axes = picture.subplots()
        for number, (name, own) in enumerate(scores.items()):
            shares = performance_profile([sign * one for one in own], sign * values)
            colour = COLOURS[number % len(COLOURS)]
            runs = sum(map(len, own))
            label = literal(f"{name}, {runs} run{'s' * (runs > 1)}")
            axes.step(values, [one.value for one in shares], where="post", color=colour, label=label)
            ends = [one.low for one in shares], [one.high for one in shares]
            axes.fill_between(values, *ends, step="post", color=colour, alpha=0.2, linewidth=0.0)
        axes.set_xlabel(literal(figure.replace("_", " ")))
        axes.set_ylabel(f"share of runs {'below' if lower else 'above'} it")
        axes.set_ylim(-0.02, 1.02)
        axes.set_title("Performance profile, 95% bootstrap interval")
        axes.legend()
        out = io.BytesIO()
        picture.savefig(out, format=kind, dpi=150)
    return out.getvalue()


def over_runs(curves: Sequence[tuple[list[float], list[float]]]) -> tuple[Array, list[Estimate]]:
    """Return the steps that all curves cover, and the interquartile mean of the curves there.

    A curve that was evaluated at other steps is interpolated between its own.
    """
    first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
    steps = np.unique([step for one, _ in curves for step in one if first <= step <= last])
    if not len(steps):
        raise UserError("The runs of a group have no steps in common: compare runs of equal length.")
    values = np.array([np.interp(steps, *curve) for curve in curves])
    return steps, [interquartile_mean([values[:, column]]) for column in range(len(steps))]


def _rows(run: RunSummary) -> Sequence[Mapping[str, float]]:
    return tuple(run.figures.get("evaluations", ()))
