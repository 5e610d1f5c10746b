"""The world around robots in the browser view: the obstacles that a simulator shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.nodes.polled_topics import PolledTopics
from rlstack.robots.visuals import Visual
from rlstack.view.shapes import add_shape


class ViewedWorld:
    """Draws ``/markers/world``.

    Args:
        scene: viser's ``SceneApi``.
        polled: Its subscription.
    """

    def __init__(self, scene: Any, polled: PolledTopics) -> None:
        self._scene, self._polled = scene, polled
        self._subscribed = False
        self._drawn: list[Any] = []

    def discover(self, there: dict[str, list[str]]) -> None:
        """Subscribe once somebody publishes it; ``there``: types by topic of the whole graph."""
        if not self._subscribed and topics.WORLD_MARKERS in there:
            self._subscribed = True
            kind = topics.type_of(topics.WORLD_MARKERS)
            self._polled.subscribe(kind, topics.WORLD_MARKERS, self._on_markers, "latched")

    def _on_markers(self, message: Any) -> None:
        from visualization_msgs.msg import Marker

        shapes = {Marker.CUBE: "box", Marker.CYLINDER: "cylinder", Marker.SPHERE: "sphere"}
        for handle in self._drawn:
            handle.remove()
        self._drawn.clear()
        for number, marker in enumerate(message.markers):
            if marker.action != Marker.ADD or marker.type not in shapes:
                continue
            p, q, size, c = marker.pose.position, marker.pose.orientation, marker.scale, marker.color
            visual = Visual(
                "",
                shapes[marker.type],  # type: ignore[arg-type]
                (size.x, size.y, size.z),
                np.array([p.x, p.y, p.z]),
                np.array([q.x, q.y, q.z, q.w]),
                (c.r, c.g, c.b, c.a),
            )
            self._drawn.append(add_shape(self._scene, f"/world/{number}", visual))
