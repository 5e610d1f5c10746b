"""What the guard of a kind of robot subscribes to besides observations and commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.guard import Decision

SeenClock = Callable[[int], "tuple[float, float] | None"]
"""Returns the time and the seconds of a stamp, ns, on the node's clock; None before there is one."""


class GuardSenses:
    """Subscribes to nothing; a kind whose guard needs a scan or a goal adds that.

    Args:
        node: The guard node.
        guard: The guard.
        clock: The node's clock.
        take: Called with the guard's decision on what came.
        lock_step: The guard takes in what comes without answering it.
    """

    def __init__(
        self, node: Any, guard: Any, clock: SeenClock, take: Callable[[Decision], None], lock_step: bool
    ) -> None:
        self.counts: dict[str, int] = {}
        """Figures for diagnostics."""

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether something that goes with the observation of ``stamp_ns`` is still on its way (lock step)."""
        return False

    def forget(self) -> None:
        """Begin another episode."""
