"""What all pictures of flights share: the colours, the style, and a figure that needs no display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlstack.errors import UserError
from rlstack.tasks.criteria import Criteria
from rlstack.verification.metrics import Score
from rlstack.verification.outcome import Outcome
from rlstack.verification.records import FlightRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart; crimson is kept for what went wrong.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a8a8a")
"""One per backend, in order; also one per rotor."""
BAD = "#a3123a"
INK, FAINT = "#1f2328", "#c9ced6"

STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so pictures look the same everywhere
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
class Flown:
    """One backend's flights, judged, with the colour that it has in every picture."""

    name: str
    episodes: FlightRecord
    score: Score
    outcome: Outcome
    colour: str

    @property
    def criteria(self) -> Criteria:
        """By what they were judged."""
        return self.score.criteria


def matplotlib_or_refuse() -> Any:
    """Return the package matplotlib; raise ``UserError`` with the way to get it if it is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError("Plots need matplotlib, which is not installed: pip install 'rlstack[view]'.") from error
    return matplotlib


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches."""
    # The object interface: no pyplot, so no global state and no display, whatever backend the user has set.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def title_of(item: Flown) -> str:
    """Return where the flights were flown."""
    return literal(item.episodes.simulator)


def literal(text: str) -> str:
    """Return ``text`` so that matplotlib shows it as it is."""
    return text.replace("$", r"\$")  # what is between two of them would be read as a formula
