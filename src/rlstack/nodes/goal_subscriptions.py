"""Subscriptions to goals and paths from latching and non-latching publishers, each message once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.path_messages import GoalPath, read_path_data

QUALITIES: tuple[topics.Quality, ...] = ("latched", "command")
"""QoS of the two subscriptions that a goal or a path needs: some publishers latch, RViz does not."""

TWICE_WITHIN_S = 0.5
"""Period in which duplicates are dropped: both subscriptions receive a latching publisher's message."""


BAD_GOAL = "A goal was refused: its position must be finite and its orientation a unit quaternion."


def is_goal(values: Mapping[str, Array]) -> bool:
    """Return whether a goal's position is finite and its orientation, if read, a unit quaternion."""
    orientation = values.get("goal_orientation")
    unit = orientation is None or abs(float(np.linalg.norm(orientation)) - 1.0) <= 1e-3
    return unit and all(np.isfinite(value).all() for value in values.values())


class OnPath(Protocol):
    """Callback for a path."""

    def __call__(self, path: GoalPath, *, from_now: bool) -> None:
        """Use the path; with ``from_now`` its stamps count from the newest observation."""


class PathListener:
    """The callback for serialized messages on ``goal_path``.

    A path whose ``header.stamp`` is zero starts on arrival: its poses' stamps then count from the newest observation,
    so that a path sent by hand needs no clock.

    Args:
        on_path: Called with each new path.
        refuse: Called with a sentence about an invalid path; the previous one stays.
    """

    def __init__(self, on_path: OnPath, refuse: Callable[[str], Any]) -> None:
        self.kind = topics.type_of(topics.GOAL_PATH)
        self._on_path, self._refuse = on_path, refuse
        self._last, self._last_at = b"", 0.0

    def __call__(self, data: bytes) -> None:
        """Process a message."""
        now = time.monotonic()
        again = data == self._last and now - self._last_at < TWICE_WITHIN_S
        self._last, self._last_at = data, now
        if again:
            return
        try:
            stamp_ns, path = read_path_data(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        self._on_path(path, from_now=stamp_ns == 0)
