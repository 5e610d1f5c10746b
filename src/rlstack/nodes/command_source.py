"""Whose commands a robot obeys: those of the publisher of one node, on each robot's command topic."""

from __future__ import annotations

import time
from typing import Any

from rlstack.interfaces.node_names import full_name, name_of
from rlstack.nodes.topic_watch import listed

_NO_NODE = "a program that is no ROS node"
_SILENT_S = 0.5
"""Silence after which another publisher of the same node name may replace the one obeyed: the node was restarted."""
_LOOK_S = 0.05
"""Shortest time between two looks at the graph for a publisher that it does not name."""
_PATIENCE_S = 1.0
"""Time after which a publisher that the graph does not name is reported; its name comes a moment after its messages."""


class CommandSource:
    """Decides for every command whether it counts, by its publisher.

    Args:
        node: The robot node.
        topic: The command topic, as subscribed to.
        wanted: The node whose commands count, relative to the topic's robot or with its namespace; empty: any.
        subscription: The subscription, where publishers cannot be told apart.
        why_unknown: Why they cannot; empty: each message comes with its publisher's GID.
    """

    def __init__(self, node: Any, topic: str, wanted: str, subscription: Any, why_unknown: str = "") -> None:
        self._node, self._topic, self._subscription = node, node.resolve_topic_name(topic), subscription
        self._wanted = wanted
        self._why_unknown = why_unknown
        self._names: dict[bytes, str] = {}
        self._strangers: dict[bytes, float] = {}
        self._looked_at = -1e9
        self._obeyed, self._obeyed_at = b"", -1e9
        self._alone: tuple[float, str] = (-1e9, "")
        self.foreign = 0
        """Commands that did not count."""
        self._warned, self._warned_at = "", -1e9

    def admits(self, gid: bytes | None) -> bool:
        """Return whether a command counts, and otherwise say whose it was.

        Args:
            gid: Its publisher's GID; None: unknown.
        """
        now = time.monotonic()
        if gid is None or self._why_unknown:
            why = self._why_not_alone(now)
        elif gid == self._obeyed:
            self._obeyed_at = now
            return True
        else:
            why = self._why_not(gid, now)
        if not why:
            return True
        self.foreign += 1
        if why != "unnamed":
            self._warn(f"a command on {self._topic} was dropped: {why}", now)
        return False

    @property
    def warning(self) -> str:
        """Who else has sent commands within the last 2 s; empty if nobody has."""
        return self._warned if time.monotonic() - self._warned_at < 2.0 else ""

    def _warn(self, what: str, now: float) -> None:
        self._warned, self._warned_at = what, now
        self._node.warn(f"{what[0].upper()}{what[1:]}.", f"source {self._topic}")

    def _why_not(self, gid: bytes, now: float) -> str:
        name = self._names.get(gid) or self._look(gid, now)
        if self._wanted and name != self._wanted:
            if not name:
                if len(self._strangers) > 100:
                    self._strangers.clear()
                since = self._strangers.setdefault(gid, now)
                if now - since < _PATIENCE_S:
                    return "unnamed"
                name = _NO_NODE
            return f"it is from {name}, and this robot obeys {self._wanted} alone"
        if self._wanted and now - self._obeyed_at < _SILENT_S:
            return f"two nodes are called {name}, and the other one commands: end one of them"
        others = {name or _NO_NODE, self._names.get(self._obeyed, _NO_NODE)}
        if not self._wanted and now - self._obeyed_at < _SILENT_S:
            self._warn(
                f"commands on {self._topic} come from {listed(sorted(others))}: stop all but one, or set the parameter"
                " command_source",
                now,
            )
        self._obeyed, self._obeyed_at = gid, now
        return ""

    def _look(self, gid: bytes, now: float) -> str:
        """Return the node name of a publisher that is new; empty if the graph does not have it."""
        if now - self._looked_at < _LOOK_S:
            return ""
        self._looked_at = now
        found = {bytes(e.endpoint_gid)[:16]: name_of(e) for e in self._publishers()}
        self._names = {one: name for one, name in found.items() if name}
        return self._names.get(gid, "")

    def _why_not_alone(self, now: float) -> str:
        """Return why a command whose publisher is not known does not count."""
        at, why = self._alone
        if now - at > 1.0 or (self._subscription.get_publisher_count() > 1) != ("cannot be told" in why):
            names = sorted(name_of(e) or _NO_NODE for e in self._publishers())
            if len(names) > 1:
                why = (
                    f"{listed(names)} publish there, and their messages cannot be told apart here"
                    f" ({self._why_unknown or 'the executor is not that of rlstack'}): stop all but one"
                )
            elif self._wanted and names != [self._wanted]:
                why = f"{listed(names) or 'nobody'} publishes there, and this robot obeys {self._wanted} alone"
            else:
                why = ""
            self._alone = now, why
        return why

    def _publishers(self) -> list[Any]:
        return list(self._node.get_publishers_info_by_topic(self._topic))


def full_source(node: Any, robot: str, source: str) -> str:
    """Return the full name of the node that commands a robot.

    Args:
        node: The robot node.
        robot: The robot's namespace under the node's own; empty: the node's own.
        source: The parameter ``command_source``; empty: any.
    """
    if not source or source.startswith("/"):
        return source
    space = full_name(node.get_namespace(), robot) if robot else node.get_namespace()
    return full_name(space, source)
