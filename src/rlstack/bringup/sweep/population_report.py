"""What a population found: a table, sweep.json, best.yaml and a page with the lines of descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstack.bringup.sweep.comparison import Comparison
from rlstack.bringup.sweep.exploration import Generation, Member, best_first
from rlstack.bringup.sweep.plan import TUNING_SEED, Plan
from rlstack.bringup.sweep.report import BEST_RECIPE, NOT_TESTED, SUMMARY, shown, verdict, write_page
from rlstack.bringup.sweep.trials import Outcome
from rlstack.files import write_atomically, write_json
from rlstack.text_table import aligned
from rlstack.training.recipe import recipe_to_yaml
from rlstack.verification.drawing import BAD, COLOURS, FAINT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CAPTION = (
    "Who goes on from whom: a lane is a member, an arrow a copy of a checkpoint, a colour what goes back to the same"
    " first member, a cross a failed training. Then the figure at the end of each generation, and each setting: the"
    " thick line is the best member's line of descent, which best.yaml trains anew."
)


def descent(past: Sequence[Generation], number: int) -> list[int]:
    """Return the members from which one of the last generation comes, one for each generation, the first one first."""
    found = [number]
    for members in past[:0:-1]:
        parent = members[found[0]].parent
        found.insert(0, found[0] if parent is None else parent)
    return found


def rows(plan: Plan, past: Sequence[Generation]) -> list[list[str]]:
    """Return a table's rows, its header first: the last generation, best first."""
    header = ["member", *(f"{one.name} now" for one in plan.ranges), plan.figure, "comes from", "CPU-s", "state"]
    found = [header]
    for one in best_first(plan, past[-1]):
        line = descent(past, one.number)
        steps = [f"{a} in generation {k}" for k, (a, b) in enumerate(pairwise(line), 1) if a != b]
        spent = sum(members[who].cpu_seconds for members, who in zip(past, line))
        broken = [str(bound) for bound, beyond in zip(plan.constraints, one.over) if beyond > 0.0]
        state = "failed" if one.value is None else f"not {', '.join(broken)}" if broken else "complete"
        settings = [shown(one.values[r.path]) for r in plan.ranges]
        value = "-" if one.value is None else f"{one.value:.4g}"
        found.append([str(one.number), *settings, value, ", ".join(steps) or "itself", f"{spent:.0f}", state])
    return found


def table(plan: Plan, past: Sequence[Generation], test: Comparison | None) -> str:
    """Return the last generation and the test as text."""
    text = "\n".join(aligned(rows(plan, past)))
    return text if test is None else f"{text}\n\n{_verdict(plan, test)}"


def looked(plan: Plan, past: Sequence[Generation]) -> str:
    """Return how often the tuning figures were looked at."""
    figures = sum(one.value is not None for members in past for one in members)
    copies = sum(one.parent is not None for members in past for one in members)
    spent = sum(one.cpu_seconds for members in past for one in members)
    return (
        f"{plan.population} members, seeds {TUNING_SEED} to {TUNING_SEED + plan.population - 1}, were compared"
        f" {len(past)} times on the same held-out starts: {figures} figures, {copies} copies of checkpoints,"
        f" {spent:.0f} CPU-seconds. The best of so many is too good by luck: quote the test's figures."
    )


def write_population(
    folder: Path, plan: Plan, past: Sequence[Generation], best: Outcome | None, test: Comparison | None
) -> None:
    """Write the sweep's files.

    Args:
        folder: The sweep's folder.
        plan: Its plan.
        past: All generations.
        best: The best member's schedule, if any counts.
        test: Its test, if there was one.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or a file cannot be written.
    """
    data = {
        "figure": plan.figure,
        "generations": [[asdict(one) for one in members] for members in past],
        "best": None if best is None else best.number,
        "descent": None if best is None else descent(past, best.number),
        "schedule": None if best is None else best.values,
        "test": None if test is None else asdict(test),
    }
    write_json(folder / SUMMARY, data)
    if best is not None:
        tuned = plan.tuned(best.values, plan.recipe.seed)
        text = f"# Member {best.number} of a population: its settings over the steps.\n{recipe_to_yaml(tuned)}"
        write_atomically(folder / BEST_RECIPE, text)
    failures = [
        f"Generation {k}, member {one.number}: {one.why}"
        for k, members in enumerate(past)
        for one in members
        if one.why
    ]
    write_page(
        folder,
        [("descent", "Lines of descent", _CAPTION, lambda: _figure(plan, past, best))],
        rows(plan, past),
        title=f"Population of {plan.recipe.name} for {Path(plan.recipe.robot).stem}: {plan.population} members,"
        f" {len(past)} generations ({plan.search.upper()})",
        verdict=_verdict(plan, test) if test else NOT_TESTED,
        looked=looked(plan, past),
        listed="Members after the last generation",
        failures=failures,
    )


def _verdict(plan: Plan, test: Comparison) -> str:
    return verdict(plan, test, f"the settings of member {test.trial}, as they changed over the steps")


def _figure(plan: Plan, past: Sequence[Generation], best: Outcome | None) -> Figure:
    from matplotlib.ticker import MaxNLocator

    line = descent(past, best.number) if best is not None else []
    panels = 2 + len(plan.ranges)
    deep = -(-panels // 2)
    figure = new_figure(10.0, 3.4 * deep)
    axes = [figure.add_subplot(deep, 2, k + 1) for k in range(panels)]
    _lanes(axes[0], past, line)
    _figures(axes[1], plan, past, line)
    for place, one in zip(axes[2:], plan.ranges):
        labels = [shown(value) for value in one.values]
        _setting(place, past, line, one.path, labels)
        place.set(title=one.name, xlabel="generation")
        if one.log:
            place.set_yscale("log")
        if labels:
            place.set_yticks(range(len(labels)), labels)
    for place in axes:
        place.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _colours(past: Sequence[Generation]) -> list[str]:
    """Return the last generation's colours: those that go back to the same first member share one."""
    return [COLOURS[descent(past, k)[0] % len(COLOURS)] for k in range(len(past[-1]))]


def _before(one: Member) -> int:
    """Return the member of the generation before from which one comes."""
    return one.number if one.parent is None else one.parent


def _lanes(axes: Axes, past: Sequence[Generation], line: Sequence[int]) -> None:
    """Draw a lane for each member, and copies as arrows between them."""
    for k, members in enumerate(past):
        colours = _colours(past[: k + 1])
        for one in members:
            thick = 3.2 if line and line[k] == one.number else 1.2
            axes.plot([k, k + 1], [one.number] * 2, color=colours[one.number], linewidth=thick, solid_capstyle="butt")
            if one.value is None:
                axes.plot(k + 1, one.number, "x", color=BAD, markersize=6.0)
            if one.parent is not None:
                arrow = {
                    "arrowstyle": "->",
                    "color": colours[one.number],
                    "linewidth": thick,
                    "shrinkA": 0,
                    "shrinkB": 0,
                }
                axes.annotate("", (k, one.number), (k, one.parent), arrowprops=arrow)
    axes.set(title="who goes on from whom", xlabel="generation", ylabel="member")
    axes.set_yticks(range(len(past[0])))
    axes.invert_yaxis()


def _style(own: bool) -> dict[str, Any]:
    """Return how a line is drawn, the best member's own or another's."""
    return {"color": COLOURS[0] if own else FAINT, "linewidth": 2.6 if own else 1.0, "zorder": 3 if own else 2}


def _figures(axes: Axes, plan: Plan, past: Sequence[Generation], line: Sequence[int]) -> None:
    """Draw the figure at the end of each generation."""
    for k, members in enumerate(past):
        for one in members:
            before = past[k - 1][_before(one)].value if k else None
            if one.value is None:
                continue
            own = bool(line) and line[k] == one.number
            style = _style(own)
            ends = [(k, before), (k + 1, one.value)] if before is not None else [(k + 1, one.value)]
            axes.plot(*zip(*ends), marker="o", markersize=3.5 if own else 2.5, **style)
    axes.set(title="at the end of each generation", xlabel="generation", ylabel=plan.figure)


def _setting(axes: Axes, past: Sequence[Generation], line: Sequence[int], path: str, labels: Sequence[str]) -> None:
    """Draw a setting over the generations; ``labels`` are of its values, if they are listed."""

    def at(one: Member) -> float:
        return labels.index(shown(one.values[path])) if labels else float(one.values[path])

    for k, members in enumerate(past):
        for one in members:
            own = bool(line) and line[k] == one.number
            style = _style(own)
            axes.plot([k, k + 1], [at(one)] * 2, solid_capstyle="butt", **style)
            if one.parent is not None:
                from_ = at(past[k - 1][one.parent])
                axes.plot([k, k], [from_, at(one)], linestyle=":", **{**style, "linewidth": 1.4 if own else 0.8})
