"""Pushes and gusts that a person gives simulated robots in the browser view."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics

_AGAIN_S = 0.5 * topics.DISTURBED_S
Force = tuple[float, float, float]


class Pushes:
    """Publishes forces on ``disturbance`` for as long as they are to act.

    Args:
        node: Publishes, :class:`rlstack.nodes.runtime.ManagedNode`.
    """

    def __init__(self, node: Any) -> None:
        self._node = node
        self._publishers: dict[str, Any] = {}
        self._acting: dict[str, tuple[Force, float, float]] = {}

    def begin(self, space: str, force: Force, for_s: float, now: float) -> None:
        """Push the robot of a namespace with a force, N in its world's frame, from a time on for another, s."""
        self._send(space, force)
        self._acting[space] = (force, now + for_s - topics.DISTURBED_S, now)

    def go_on(self, now: float) -> None:
        """Publish again what still acts; call it often."""
        for space, (force, until, sent) in list(self._acting.items()):
            if now > until:
                del self._acting[space]
            elif now - sent >= _AGAIN_S:
                self._send(space, force)
                self._acting[space] = (force, until, now)

    def _send(self, space: str, force: Force) -> None:
        kind = topics.type_of(topics.DISTURBANCE)
        if space not in self._publishers:
            topic = f"{space.rstrip('/')}/{topics.DISTURBANCE}"
            self._publishers[space] = self._node.publisher(kind, topic, "command")
        message = kind()
        message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = force
        self._publishers[space].publish(message)
