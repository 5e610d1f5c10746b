"""Learning curves of runs: a figure of each evaluation over the steps, over seeds."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.training.run_statistics import Estimate, interquartile_mean
from rlstack.training.run_summaries import RunSummary
from rlstack.verification.drawing import COLOURS, STYLE, literal, matplotlib_or_refuse, new_figure


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
