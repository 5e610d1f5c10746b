"""Shared plotting: colours, style, charts and figures without a display."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rlstack.errors import UserError
from rlstack.verification.scores import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette for colour-blind readers; crimson is reserved for failures.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a8a8a")
"""One per backend, in order; also one per rotor."""
BAD = "#a3123a"
INK, FAINT = "#1f2328", "#c9ced6"

SHOWN, ACROSS = 8, 4
"""Number of maps on a page, and in a row."""

STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so plots look the same everywhere
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e9ecf0",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Plot:
    """One picture: file stem, heading, caption, the file's bytes and their type."""

    name: str
    title: str
    caption: str
    png: bytes
    kind: Literal["png", "gif"] = "png"

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.name}.{self.kind}"


Sketch = tuple[str, str, str, "Callable[[], Figure]"]
"""Name, title and caption of a plot, and the function that draws it."""


def draw_plots(sketches: Sequence[Sketch], dpi: int = 140) -> list[Plot]:
    """Return pictures as PNG files; the same data give the same bytes.

    Raises:
        UserError: matplotlib is not installed.
    """
    plots = []
    with matplotlib_or_refuse().rc_context(STYLE):
        for name, title, caption, sketch in sketches:
            png = io.BytesIO()
            sketch().savefig(png, format="png", dpi=dpi, metadata={"Software": None})  # no software version in the file
            plots.append(Plot(name, title, caption, png.getvalue()))
    return plots


def success_chart(
    rows: Mapping[str, Mapping[str, Score]], colours: Mapping[str, str], trials: str, *, divided: int = 0
) -> Figure:
    """Return a chart of success rates with their intervals.

    Args:
        rows: By row label, scores by the names in ``colours``.
        colours: By name, in order.
        trials: The word for trials.
        divided: Number of last rows separated by a line.
    """
    figure = new_figure(10.0, 1.2 + 0.26 * len(rows) * (len(colours) + 0.5))
    axes, lowest = figure.add_subplot(), 1.0
    for row, scores in enumerate(rows.values()):
        for index, (who, colour) in enumerate(colours.items()):
            if who not in scores:
                continue
            success, count = scores[who].figure("success"), scores[who]["episodes"]
            at, value = row + (index - (len(colours) - 1) / 2) * 0.7 / len(colours), success.value or 0.0
            low, high = success.interval or (value, value)
            lowest = min(lowest, low)
            axes.plot([low, high], [at, at], color=colour, linewidth=2.2, alpha=0.5)
            axes.plot(value, at, "o", color=colour, markersize=5.5)
            axes.annotate(
                f"{success.text} of {count:,}",
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
    if divided:
        axes.axhline(len(rows) - divided - 0.5, color=FAINT, linewidth=0.9)
    left = max(0.0, np.floor(10 * lowest) / 10)
    axes.set(xlim=(left, 1.0 + 0.01 * (1.0 - left)), ylim=(len(rows) - 0.5, -0.5), xlabel=f"share of {trials}")
    axes.set_yticks(range(len(rows)), [literal(row) for row in rows])
    axes.xaxis.set_major_formatter(lambda number, _: f"{100 * number:g}%")
    axes.locator_params(axis="x", steps=[1, 2, 5, 10])
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(colours), borderaxespad=0.2)
    return figure


def page_of_maps(chosen: Sequence[int], draw: Callable[[Axes, int], str]) -> Figure:
    """Return a page of maps with one legend, for which the judged driver is drawn last.

    Args:
        chosen: Numbers of the trials.
        draw: Called with axes and a trial's number; draws the trial's map and paths, and returns a title.
    """
    rows = -(-len(chosen) // ACROSS)
    figure = new_figure(10.0, 2.95 * rows + 0.35)
    grid = figure.subplots(rows, ACROSS, squeeze=False)
    for axes in grid.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, number in zip(grid.flat, chosen):
        axes.set_title(draw(axes, number), fontsize=8.0, fontweight="normal")
    handles, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper left", ncols=max(len(names), 1))
    return figure


def stem(name: str) -> str:
    """Return a column's name as part of a file's name."""
    return "_".join("".join(c if c.isalnum() else " " for c in name).split())


def matplotlib_or_refuse() -> Any:
    """Return the package matplotlib; raise ``UserError`` with the install command if it is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError("Plots need matplotlib, which is not installed: pip install 'rlstack[view]'.") from error
    return matplotlib


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches."""
    # The object interface instead of pyplot: no global state and no display, whatever backend the user has set.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def literal(text: str) -> str:
    """Escape ``text`` so that matplotlib displays it literally."""
    return text.replace("$", r"\$")  # matplotlib reads text between two of them as a formula
