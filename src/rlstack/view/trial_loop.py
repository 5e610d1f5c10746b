"""Trials in a loop, one after the other, on a live page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlstack.view.recording import ReplayedTrial
from rlstack.view.replay import ReplayScene, look_from

_STAYS_S = 1.0
"""How long the end of a trial is shown."""


class TrialLoop:
    """Plays trials on a viser server's page, again and again.

    Args:
        viser: The ``ViserServer``.
    """

    def __init__(self, viser: Any) -> None:
        self._viser = viser
        self._shown: ReplayScene | None = None
        self._trials: Sequence[ReplayedTrial] = ()
        self._number, self._since = 0, 0.0

    def clear(self) -> None:
        """Show nothing."""
        if self._shown is not None:
            self._shown.remove()
            self._shown = None

    def show(self, trials: Sequence[ReplayedTrial]) -> None:
        """Play other trials, one or more, from the first one on."""
        self.clear()
        self._trials, self._shown = trials, ReplayScene(self._viser.scene, trials)
        self._number, self._since = 0, time.monotonic()
        for camera in (self._viser.initial_camera, *(one.camera for one in self._viser.get_clients().values())):
            look_from(camera, self._shown.away_m)

    def play(self) -> None:
        """Draw the present; call it often."""
        if self._shown is None:
            return
        time_s = time.monotonic() - self._since
        if time_s > self._trials[self._number].duration_s + _STAYS_S:
            self._number, self._since, time_s = (self._number + 1) % len(self._trials), time.monotonic(), 0.0
        with self._viser.atomic():
            self._shown.show(self._number, time_s)
