"""The chart of the reality grid: margins of the policy and of baselines against the required ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstack.verification.drawing import BAD, COLOURS, FAINT, INK, Plot, draw_plots, literal, new_figure
from rlstack.verification.reality import AxisResult, Reality

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REALITY = "reality"
"""Name of the chart."""

_GOOD, _INFORMATIONAL = "#116a3c", "#8a8a8a"


def draw_reality(reality: Reality, name: str) -> list[Plot]:
    """Return the chart; nothing for no axes.

    Args:
        reality: The grid.
        name: Name of the policy.
    """
    if not reality.axes:
        return []
    caption = (
        f"How far one thing at a time may depart from the nominal trials before fewer than {100 * reality.enough:g}% of"
        f" {reality.trials} trials succeed. Each row runs from the nominal value to the farthest that was searched."
        " The black tick is what is required: a bar that reaches it passes, a red one does not, and grey rows are"
        " not judged. An arrow means that the margin may be larger."
    )
    return draw_plots([(REALITY, "Margins for reality", caption, lambda: _chart(reality, name))])


def _chart(reality: Reality, name: str) -> Figure:
    rows = [one for one in reality.axes if one.judged] + [one for one in reality.axes if not one.judged]
    figure = new_figure(10.0, 1.1 + 0.42 * len(rows))
    axes = figure.add_subplot()
    for row, one in enumerate(rows):
        _row(axes, row, one, reality.baselines)
    divided = sum(one.judged for one in rows)
    if 0 < divided < len(rows):
        axes.axhline(divided - 0.5, color=FAINT, linewidth=0.9)
    for colour, label in ((_GOOD, f"{name}, passed"), (BAD, "not passed"), (_INFORMATIONAL, "not judged")):
        axes.barh([0], [0], color=colour, label=literal(label))
    axes.plot([], [], "|", color=INK, markersize=13, markeredgewidth=2.4, label="required")
    for index, who in enumerate(reality.baselines):
        axes.plot([], [], "D", color=COLOURS[index], markersize=5, label=literal(who))
    axes.set(xlim=(0.0, 1.04), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [literal(one.axis.title) for one in rows])
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4 + len(reality.baselines), borderaxespad=0.3)
    return figure


def _row(axes: Axes, row: int, one: AxisResult, baselines: list[str]) -> None:
    axis, margin = one.axis, one.policy.margin
    colour = (_GOOD if one.passed else BAD) if one.judged else _INFORMATIONAL
    axes.barh(row, 1.0, height=0.62, color="#f1f3f5")
    reach = 0.0 if margin is None else axis.share(margin)
    axes.barh(row, max(reach, 0.004), height=0.62, color=colour)
    if one.policy.open_ended:
        axes.plot(1.015, row, ">", color=colour, markersize=7, clip_on=False)
    if axis.required is not None:
        at = axis.share(axis.required)
        axes.plot([at, at], [row - 0.4, row + 0.4], color=INK, linewidth=2.4)
    for index, who in enumerate(baselines):
        theirs = one.baselines.get(who)
        if theirs is not None and theirs.margin is not None:
            axes.plot(axis.share(theirs.margin), row, "D", color=COLOURS[index], markersize=5, markeredgecolor="white")
    required = "not judged" if axis.required is None else f"required {axis.text(axis.required)}"
    axes.annotate(
        f"{one.policy.text(axis)}   ({required}; {axis.text(axis.nominal)} to {axis.text(axis.farthest)})",
        (1.0, row),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=colour,
        annotation_clip=False,
    )
