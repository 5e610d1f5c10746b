"""Tighter limits for a guard that runs."""

from __future__ import annotations

from typing import Any

from rlstack.guard.guard import Guard


def tighten(guard: Guard[Any], config: Any) -> str:
    """Give a guard a configuration that differs in its limits ``LIVE``; return why not, or an empty string.

    A limit that the armed robot is near or beyond already is refused: the change would end what it is doing.

    Args:
        guard: The guard.
        config: An instance of its class of configurations.
    """
    before, guard.config, seen = guard.config, config, guard._seen
    if guard.mode.role == "off" or seen is None:
        return ""
    beyond = guard._broken_limit(seen) or guard._near_limit(seen)
    if beyond:
        guard.config = before
    return beyond
