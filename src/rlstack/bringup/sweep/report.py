"""What a sweep found: a table, sweep.json, best.yaml and a page with figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.bringup.sweep.comparison import AS_IS, BEST, Comparison
from rlstack.bringup.sweep.plan import TUNING_SEED, Plan
from rlstack.bringup.sweep.space import share_of
from rlstack.bringup.sweep.trials import Outcome
from rlstack.files import write_atomically, write_json
from rlstack.text_table import aligned
from rlstack.training.recipe import recipe_to_yaml
from rlstack.verification.drawing import BAD, COLOURS, FAINT, Sketch, new_figure
from rlstack.verification.plain_page import write_plain_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUMMARY, BEST_RECIPE, PAGE = "sweep.json", "best.yaml", "sweep.html"
SHOWN = 10
"""Trials of the printed table."""
NOT_TESTED = "Not tested: train best.yaml with several seeds of your own."
_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def ranked(plan: Plan, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the trials, best first; those that do not count are last."""
    sign = 1.0 if plan.lower else -1.0

    def order(one: Outcome) -> tuple[bool, bool, float, int]:
        return not one.counts, one.state != "complete", sign * (one.value or 0.0), one.number

    return sorted(outcomes, key=order)


def rows(plan: Plan, outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a table's rows, its header first."""
    header = ["trial", *(one.name for one in plan.ranges), plan.figure, "seeds from", "to", "CPU-s", "state"]
    found = [header]
    for one in ranked(plan, outcomes):
        ends = [f"{end:.4g}" for end in (min(one.each), max(one.each))] if one.each else ["-", "-"]
        state = one.state
        if one.state == "complete" and not one.counts:
            broken = [str(bound) for bound, beyond in zip(plan.constraints, one.over) if beyond > 0.0]
            state = f"not {', '.join(broken)}"
        value = "-" if one.value is None else f"{one.value:.4g}"
        settings = [shown(one.values[r.path]) for r in plan.ranges]
        found.append([str(one.number), *settings, value, *ends, f"{one.cpu_seconds:.0f}", state])
    return found


def table(plan: Plan, outcomes: Sequence[Outcome], test: Comparison | None) -> str:
    """Return the best trials and the test as text."""
    lines = rows(plan, outcomes)
    left = len(lines) - 1 - SHOWN
    text = "\n".join(aligned(lines[: SHOWN + 1]))
    if left > 0:
        text += f"\n... and {left} more"
    return text if test is None else f"{text}\n\n{verdict(plan, test)}"


def verdict(plan: Plan, test: Comparison, tested: str = "") -> str:
    """Return what the test says, in sentences; ``tested`` names what was tested, if not a trial's settings."""
    best, as_is = (_told(test, name) for name in (BEST, AS_IS))
    looks = "" if test.number == 1 else f" It is test {test.number}: figures of those before it were known meanwhile."
    few = "" if plan.tests > 2 else " Intervals of one or two trainings say nothing."
    tested = tested or f"the settings of trial {test.trial}"
    return (
        f"Test with {plan.tests} new seeds and other held-out starts: {plan.figure} {best} with {tested},"
        f" {as_is} with the recipe as it is (interquartile means, 95%). A training with these settings is better"
        f" with a probability of {test.better:.0%}; {test.cpu_seconds[BEST]:.0f} and {test.cpu_seconds[AS_IS]:.0f}"
        f" CPU-seconds a training.{looks}{few}"
    )


def _told(test: Comparison, name: str) -> str:
    """Return the mean figure of one side of the test, and how many trainings have none."""
    middle, count = test.middle[name], len(test.scores[name])
    if middle is None:
        return "none (no training has this figure)"
    without = sum(one is None for one in test.scores[name])
    return f"{middle:.4g}" + (f" ({without} of {count} have no such figure, and count as worse)" if without else "")


def told(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """Return a line about the last of some trials, and whether it is the best so far."""
    last = outcomes[-1]
    settings = ", ".join(f"{one.name} {shown(last.values[one.path])}" for one in plan.ranges)
    if last.value is None:
        return f"trial {last.number} failed: {last.why} ({settings})"
    best = ", the best so far" if last.counts and ranked(plan, outcomes)[0] is last else ""
    state = "" if last.state == "complete" else f", {last.state}"
    return f"trial {last.number}: {plan.figure} {shown(last.value)}{state}{best} ({settings})"


def looked(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """Return how often the tuning figures were looked at."""
    trainings = sum(len(one.each) for one in outcomes)
    return (
        f"{len(outcomes)} trials of up to {plan.seeds} trainings chose the best one: {trainings} figures of seeds"
        f" {TUNING_SEED} to {TUNING_SEED + plan.seeds - 1}, all on the same held-out starts. The best of so many is"
        " too good by luck: quote the test's figures, not the trial's."
    )


def write_report(
    folder: Path,
    plan: Plan,
    outcomes: Sequence[Outcome],
    best: Outcome | None,
    test: Comparison | None,
    shares: Mapping[str, float],
) -> None:
    """Write the sweep's files.

    Args:
        folder: The sweep's folder.
        plan: Its plan.
        outcomes: Of its trials.
        best: The best one, if any counts.
        test: Its test, if there was one.
        shares: What share of the differences each setting explains.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or a file cannot be written.
    """
    data = {
        "figure": plan.figure,
        "trials": [asdict(one) for one in outcomes],
        "best": None if best is None else best.number,
        "importances": dict(shares),
        "test": None if test is None else asdict(test),
    }
    write_json(folder / SUMMARY, data)
    if best is not None:
        tuned = plan.tuned(best.values, plan.recipe.seed)
        write_atomically(folder / BEST_RECIPE, f"# Trial {best.number} of a sweep.\n{recipe_to_yaml(tuned)}")
    caption = (
        "Above: each line is a trial, through its settings to its figure; dark ones are better, grey ones ended early."
        " Below: figures in the order of the trials with the best so far, and what share of the differences each"
        " setting explains (PED-ANOVA, of those in the better tenth; few trials say little)."
    )
    sketches = [("trials", "Settings and figures", caption, lambda: _figure(plan, outcomes, shares))]
    write_page(
        folder,
        sketches,
        rows(plan, outcomes),
        title=f"Sweep of {plan.recipe.name} for {Path(plan.recipe.robot).stem}: {len(outcomes)} trials",
        verdict=verdict(plan, test) if test else NOT_TESTED,
        looked=looked(plan, outcomes),
        listed="Trials",
        failures=[f"Trial {one.number}: {one.why}" for one in outcomes if one.why],
    )


def write_page(folder: Path, sketches: Sequence[Sketch], table: Sequence[Sequence[str]], **texts: Any) -> None:
    """Write a sweep's page.

    Args:
        folder: The sweep's folder.
        sketches: Its plots.
        table: Rows, the header first.
        texts: ``title``, ``verdict``, ``looked``, ``listed``, what the table lists, and ``failures``, sentences.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or the page cannot be written.
    """
    header, *lines = table
    write_plain_page(folder / PAGE, _TEMPLATE, sketches, header=header, rows=lines, **texts)


def shown(value: Any) -> str:
    """Return a setting's value for a table."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figure(plan: Plan, outcomes: Sequence[Outcome], shares: Mapping[str, float]) -> Figure:
    figure = new_figure(10.0, 6.4)
    grid = figure.add_gridspec(2, 2)
    _parallel(figure.add_subplot(grid[0, :]), plan, outcomes)
    _history(figure.add_subplot(grid[1, 0]), plan, outcomes)
    bars = figure.add_subplot(grid[1, 1])
    names = sorted(shares, key=lambda path: shares[path])
    bars.barh([path.rpartition(".")[2] for path in names], [shares[path] for path in names], color=COLOURS[0])
    bars.set(title="importance", xlabel="share of the differences", xlim=(0.0, 1.0))
    return figure


def _parallel(axes: Axes, plan: Plan, outcomes: Sequence[Outcome]) -> None:
    """Draw parallel coordinates."""
    complete = [one for one in outcomes if one.state == "complete" and one.value is not None]
    values = [one.value for one in complete if one.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    span = high - low or 1.0
    ends = [[shown(value) for value in one.values] for one in plan.ranges]
    for one in outcomes:
        places = [share_of(r, one.values[r.path]) for r in plan.ranges]
        if one.value is None or one.state != "complete":
            axes.plot(range(len(places)), places, color=FAINT, linewidth=0.8)
            continue
        good = (one.value - low) / span
        good = 1.0 - good if plan.lower else good
        axes.plot(
            range(len(places) + 1), [*places, (one.value - low) / span], color=COLOURS[0], alpha=0.15 + 0.85 * good**2
        )
    axes.set_xticks(range(len(plan.ranges) + 1), [*(one.name for one in plan.ranges), plan.figure])
    axes.set_yticks([])
    axes.set(ylim=(-0.08, 1.08), title="settings and figure of each trial")
    for k, (varied, axis) in enumerate(zip(plan.ranges, ends)):
        axes.axvline(k, color=FAINT, linewidth=0.8)
        bottom, top = (axis[0], axis[-1]) if axis else (f"{varied.low:.4g}", f"{varied.high:.4g}")
        axes.text(k, -0.07, f" {bottom}", fontsize=8.0, va="bottom")
        axes.text(k, 1.07, f" {top}", fontsize=8.0, va="top")
    axes.axvline(len(plan.ranges), color=FAINT, linewidth=0.8)
    axes.text(len(plan.ranges), -0.07, f" {low:.4g}", fontsize=8.0, va="bottom")
    axes.text(len(plan.ranges), 1.07, f" {high:.4g}", fontsize=8.0, va="top")


def _history(axes: Axes, plan: Plan, outcomes: Sequence[Outcome]) -> None:
    """Draw the figures in the order of the trials."""
    counted = [(one.number, one.value) for one in outcomes if one.counts and one.value is not None]
    others = [(one.number, one.value) for one in outcomes if not one.counts and one.value is not None]
    if counted:
        best = (np.minimum if plan.lower else np.maximum).accumulate([value for _, value in counted])
        axes.step([k for k, _ in counted], best, where="post", color=COLOURS[0], label="best so far")
        axes.plot(*zip(*counted), "o", color=COLOURS[0], markersize=3.5, label="complete")
    if others:
        axes.plot(*zip(*others), "x", color=BAD, markersize=4.0, label="ended early, or beyond a bound")
    axes.set(title="in order", xlabel="trial", ylabel=plan.figure)
    if counted or others:
        axes.legend(loc="best")
