"""Progress display of a run: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bars

from rlstack.training.run_result import Progress

LINE_EVERY_S = 10.0
"""Time between lines without a terminal."""
_WIDE = 140
"""Columns of a terminal that has room for all figures beside a long bar."""


class ProgressDisplay:
    """Context manager that displays each :class:`Progress` passed to it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        columns: tuple[ProgressColumn, ...] = (
            BarColumn(bar_width=28 if self.console.width >= _WIDE else 8),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.description}"),
        )
        self._bars = Bars(*columns, console=self.console) if self.console.is_terminal else None
        self._task = self._bars.add_task("simulating the first steps", total=1.0) if self._bars else None
        self._printed = -math.inf

    def __enter__(self) -> ProgressDisplay:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bars:
            self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        """Display the latest figures."""
        if self._bars is not None and self._task is not None:
            share = progress.steps / progress.total_steps
            shown = describe(progress, short=self.console.width < _WIDE)
            self._bars.update(self._task, completed=share, description=shown)
        elif time.monotonic() - self._printed > LINE_EVERY_S or progress.steps >= progress.total_steps:
            self._printed = time.monotonic()
            share = 100 * progress.steps / progress.total_steps
            print(f"{share:3.0f}%  {describe(progress)}", file=sys.stderr, flush=True)


def describe(progress: Progress, short: bool = False) -> str:
    """Return the figures of a run in one line: steps/s, return, success, time left; ``short``: in 60 characters."""
    success = "-" if progress.success is None else f"{100 * progress.success:.1f}%"
    minutes, seconds = divmod(int(progress.seconds_left), 60)
    over = progress.steps >= progress.total_steps
    left = "writing the policy" if over else f"{minutes}:{seconds:02d} left"
    if short:
        return f"{progress.steps / 1e6:.2f}M steps, success {success}, lost {100 * progress.lost_share:.0f}%, {left}"
    return (
        f"{progress.steps / 1e6:.2f}M steps, {progress.steps_per_s / 1e3:.0f}k/s, return {progress.reward_per_s:.2f}/s,"
        f" lost {100 * progress.lost_share:.1f}%, held-out success {success},"
        f" {left}"
    )
