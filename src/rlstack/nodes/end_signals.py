"""How a process of nodes ends: the signals that ask it to, and steps that must all run."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from rlstack.nodes.fatal_errors import first_line
from rlstack.processes import AGAIN_S


class Received:
    """The signals that ask the process to end."""

    def __init__(self) -> None:
        # not threading.Event: a second signal's handler could block forever on its lock
        self._first: tuple[int, float] | None = None
        self.at_once = False
        """Whether it is to end at once."""

    def __bool__(self) -> bool:
        return self._first is not None

    @property
    def name(self) -> str:
        """Name of the first signal; empty: there was none."""
        return "" if self._first is None else signal.Signals(self._first[0]).name

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        self._first = self._first or (number, now)
        self.at_once = self.at_once or number == signal.SIGQUIT or now - self._first[1] >= AGAIN_S


def spin(executor: Any, nodes: Sequence[Any], is_over: Callable[[], bool]) -> None:
    """Serve nodes until ``is_over()``; an error ends all, unless a lifecycle manager may configure them again."""
    while not is_over():
        try:
            executor.spin_while(lambda: not is_over())
        except Exception as error:
            if not all([node.fail(error) for node in nodes]):
                raise


def quietly(action: Callable[[], Any]) -> None:
    """Run one shutdown step; the next ones must run whatever it raises."""
    try:
        action()
    except Exception as error:
        with contextlib.suppress(OSError):  # the reader of stderr may be gone
            print(f"While stopping: {first_line(error)}", file=sys.stderr, flush=True)
