"""The world around robots in the browser view: the obstacles that a simulator shows."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from rlstack.interfaces import topics
from rlstack.nodes.polled_topics import PolledTopics
from rlstack.robots.visuals import Visual
from rlstack.view.shapes import add_shape


class ViewedWorld:
    """Draws ``/markers/world``, and moves what ``/markers/moved`` moves.

    Args:
        scene: viser's ``SceneApi``.
        polled: Its subscriptions.
    """

    def __init__(self, scene: Any, polled: PolledTopics) -> None:
        self._scene, self._polled = scene, polled
        self._drawn: dict[int, Any] = {}

    def discover(self, there: Container[str]) -> None:
        """Subscribe once somebody publishes them; ``there``: the topics of the whole graph."""
        self._polled.discover(
            {topics.WORLD_MARKERS: (self._on_markers, "latched"), topics.MOVED_MARKERS: (self._on_moved, "event")},
            there,
        )

    def _on_markers(self, message: Any) -> None:
        from visualization_msgs.msg import Marker

        shapes = {Marker.CUBE: "box", Marker.CYLINDER: "cylinder", Marker.SPHERE: "sphere"}
        for handle in self._drawn.values():
            handle.remove()
        self._drawn.clear()
        for marker in message.markers:
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
            self._drawn[marker.id] = add_shape(self._scene, f"/world/{marker.id}", visual)

    def _on_moved(self, message: Any) -> None:
        for marker in message.markers:
            handle, p, q = self._drawn.get(marker.id), marker.pose.position, marker.pose.orientation
            if handle is not None:
                handle.position, handle.wxyz = (p.x, p.y, p.z), (q.w, q.x, q.y, q.z)
