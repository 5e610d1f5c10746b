"""The latched topics of a guard's state: its mode, the reason for it, and how often it has taken over."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics


class ModePublisher:
    """Publishes what has changed of a guard's state; the mode last, so that its reason is there when it comes.

    Args:
        node: The guard node (:class:`rlstack.nodes.runtime.ManagedNode`).
    """

    def __init__(self, node: Any) -> None:
        names = (topics.GUARD_INTERVENTIONS, topics.GUARD_REASON, topics.GUARD_MODE)
        self._publishers = {name: node.publisher(topics.type_of(name), name, "latched") for name in names}
        self._last: dict[str, Any] = {}

    def publish(self, mode: str, reason: str, interventions: int) -> None:
        """Publish the state as far as it differs from the last one."""
        state = {topics.GUARD_INTERVENTIONS: interventions, topics.GUARD_REASON: reason, topics.GUARD_MODE: mode}
        for name, value in state.items():
            if self._last.get(name) != value:
                self._last[name] = value
                self._publishers[name].publish(topics.type_of(name)(data=value))
