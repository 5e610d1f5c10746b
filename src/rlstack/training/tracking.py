"""A run's tracker in a thread of its own: training neither waits for it nor ends with it."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rlstack import schema
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.training.recipe import Recipe
from rlstack.training.run_files import TRACKED
from rlstack.training.trackers import TRACKERS, Tracker

OPENING_S = 30.0
"""Longest time that training waits for a tracker to open, s: a cold import and a slow network."""
CLOSING_S = 60.0
"""Longest time that the end of training waits for the rest to be sent, s."""
_WAITING = 10_000
"""Most iterations that wait to be sent; further ones are left out."""


class Tracking:
    """Context manager of a run's tracker, or of none if the recipe names none.

    The run's identity in the service is kept in the run's folder, so that a resumed run continues there.

    Args:
        recipe: The run's recipe.
        folder: The run's folder, which is there.

    Raises:
        UserError: On entering: the library is missing, or the service refuses.
    """

    def __init__(self, recipe: Recipe[Any, Any], folder: Path) -> None:
        self._recipe, self._folder, self._name = recipe, folder, recipe.tracker
        self._work: queue.Queue[Callable[[Tracker], None] | None] = queue.Queue(_WAITING)
        self._ready, self._ended = threading.Event(), False
        self._failed: BaseException | None = None
        self._told = False
        self._place = ""

    def __enter__(self) -> Tracking:
        if self._name is None:
            return self
        self._thread = threading.Thread(target=self._serve, daemon=True, name=f"tracker {self._name}")
        self._thread.start()
        if not self._ready.wait(OPENING_S):
            self._tell(f"has not answered for {OPENING_S:.0f} s: training goes on, and it gets the figures later.")
        elif self._failed is not None:
            raise UserError(
                f"The tracker {self._name} cannot be opened: {_sentence(self._failed)} Mend that, or train without it"
                " (`tracker` in the recipe)."
            ) from self._failed
        else:
            self._tell(f"keeps this run: {self._place}.")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # a second Ctrl-C ends at once
        if self._name is not None and not self._ended and not isinstance(error, KeyboardInterrupt):
            self.finish({}, None)

    def log(self, scalars: Mapping[str, float], step: int) -> None:
        """Send scalars at an environment step, when the service takes them."""
        kept = dict(scalars)
        self._put(lambda tracker: tracker.log(kept, step))

    def finish(self, figures: Mapping[str, float], policy: Path | None) -> None:
        """End the run there, with the best policy's figures and its file, or without."""
        best = {f"best/{name}": float(figure) for name, figure in figures.items()}
        self._put(lambda tracker: tracker.finish(best, policy))
        self._ended = True
        if self._name is None:
            return
        self._put(None)
        self._thread.join(CLOSING_S)
        if self._thread.is_alive():
            self._tell(f"has not taken the rest within {CLOSING_S:.0f} s: it is left out there.")
        elif self._failed is not None:
            self._warn_once()

    def _put(self, job: Callable[[Tracker], None] | None) -> None:
        if self._name is None:
            return
        if self._failed is not None:
            self._warn_once()
            return
        try:
            self._work.put_nowait(job)
        except queue.Full:  # the service hangs: what it missed stays in TensorBoard's events
            self._warn_once()

    def _serve(self) -> None:
        """Open the tracker and do the work; whatever its library raises ends the tracking alone."""
        try:
            tracker = self._open()
            self._ready.set()
            while (job := self._work.get()) is not None:
                job(tracker)
        except BaseException as error:  # a library may raise SystemExit, too
            self._failed = error
        finally:
            self._ready.set()

    def _open(self) -> Tracker:
        file, name = self._folder / TRACKED, str(self._name)
        kept = json.loads(file.read_text()) if file.is_file() else {}
        kind: type[Tracker] = TRACKERS.load(name)
        tracker = kind(self._folder.name, self._folder, schema.to_data(self._recipe), kept.get(name))
        write_atomically(file, json.dumps({**kept, name: tracker.run}) + "\n")
        self._place = tracker.place
        return tracker

    def _warn_once(self) -> None:
        if not self._told:
            self._told = True
            why = "it takes too long." if self._failed is None else _sentence(self._failed)
            self._tell(f"gets no more figures: {why} Training goes on; TensorBoard's events have all of them.")

    def _tell(self, what: str) -> None:
        print(f"Tracker {self._name} {what}", file=sys.stderr, flush=True)


def _sentence(error: BaseException) -> str:
    """Return what a library raised in one line that ends with a full stop."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    return text if text.endswith(".") else f"{text}."
