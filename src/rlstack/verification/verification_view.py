"""A verification in the browser: how far it is, its figures, and trials of each column as soon as that is complete."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import Any

from rlstack.progress import duration
from rlstack.verification.schedule import Progress
from rlstack.view.page_process import PageProcess
from rlstack.view.recording import ReplayedTrial
from rlstack.view.server import ViewServer
from rlstack.view.trial_loop import TrialLoop

_TOLD_S = 0.5
"""Least time between the figures that are sent."""
_FIGURES = 6
"""Figures of a column that are shown, the first ones of its score."""


class VerificationView(PageProcess):
    """Context manager of the browser view of a verification.

    Args:
        port: Port of the page; the next free one if it is in use.

    Raises:
        UserError: viser is not installed, or the port cannot be listened on.
    """

    def __init__(self, port: int = 8080) -> None:
        super().__init__(_Page, label="verification", port=port)
        self._told_at, self._part = 0.0, ""

    def progress(self, progress: Progress) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if now - self._told_at >= _TOLD_S or progress.part != self._part:
            self._told_at, self._part = now, progress.part
            self.send("progress", (progress.part, progress.done, progress.count, progress.left_s))

    def column(self, name: str, figures: Sequence[tuple[str, str]], trials: Sequence[ReplayedTrial]) -> None:
        """Show a column that is complete.

        Args:
            name: Its name.
            figures: Titles and values of its figures.
            trials: What can be watched of it.
        """
        self.send("column", (name, list(figures)[:_FIGURES], list(trials)))


class _Page:
    """Progress, figures, and trials in a loop."""

    def __init__(self, server: ViewServer) -> None:
        self._server, gui = server, server.viser.gui
        self._part = gui.add_markdown("The verification begins.")
        self._bar = gui.add_progress_bar(0.0)
        self._columns = gui.add_html("")
        self._done: dict[str, list[tuple[str, str]]] = {}
        self._new: list[ReplayedTrial] = []
        self._loop = TrialLoop(server.viser)

    def take(self, kind: str, content: Any) -> None:
        """Take a message of the verification."""
        if kind == "progress":
            part, done, count, left_s = content
            left = f", about {duration(left_s)} left" if left_s >= 1.0 else ""
            self._part.content = f"{part}: {done} of {count}{left}"
            self._bar.value = 100.0 * done / max(count, 1)
            return
        name, figures, trials = content
        self._done[name] = figures
        self._columns.content = columns_html(self._done)
        if trials:
            self._new = [ReplayedTrial(f"{name}: {one.title}", one.takes, one.apart_m) for one in trials]

    def draw(self) -> None:
        """Play the newest column's trials, if anybody looks."""
        if not self._server.watched:
            return
        if self._new:
            self._loop.show(self._new)
            self._new = []
        self._loop.play()


def columns_html(columns: dict[str, list[tuple[str, str]]]) -> str:
    """Return the figures of columns as HTML."""
    parts = []
    for name, figures in columns.items():
        rows = "".join(f"<tr><td>{html.escape(title)}</td><td>{html.escape(text)}</td></tr>" for title, text in figures)
        parts.append(f"<b>{html.escape(name)}</b><table>{rows}</table>")
    return f'<div style="padding:2px 12px 6px;font-size:0.85em">{"".join(parts)}</div>'
