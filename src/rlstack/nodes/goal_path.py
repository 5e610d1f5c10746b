"""Hearing paths: from writers that latch and from those that do not, each path once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from rlstack.interfaces import topics
from rlstack.interfaces.path_data import read_path_data
from rlstack.interfaces.signal_reader import GoalPath

QUALITIES: tuple[topics.Quality, ...] = ("latched", "command")
"""Of the two subscriptions that a goal or a path needs: some publishers latch, RViz does not."""

_TWICE_WITHIN_S = 0.5
"""A writer that latches is heard by both subscriptions."""


class OnPath(Protocol):
    """What is done with a path."""

    def __call__(self, path: GoalPath, *, from_now: bool) -> None:
        """Take it in; with ``from_now`` its stamps count from the newest observation."""


class PathListener:
    """The callback for serialized messages on ``goal_path``.

    A path whose ``header.stamp`` is zero begins when it comes: its poses' stamps then count from the newest
    observation, so that whoever sends one by hand needs no clock.

    Args:
        on_path: Called with what is new.
        refuse: Called with a sentence about a path that makes no sense; the one before stays.
    """

    def __init__(self, on_path: OnPath, refuse: Callable[[str], Any]) -> None:
        self.kind = topics.type_of(topics.GOAL_PATH)
        self._on_path, self._refuse = on_path, refuse
        self._last, self._last_at = b"", 0.0

    def __call__(self, data: bytes) -> None:
        """Take in a message."""
        now = time.monotonic()
        again = data == self._last and now - self._last_at < _TWICE_WITHIN_S
        self._last, self._last_at = data, now
        if again:
            return
        try:
            stamp_ns, path = read_path_data(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        self._on_path(path, from_now=stamp_ns == 0)
