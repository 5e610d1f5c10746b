"""The time limit for the first message of every topic, and the reason why one has not come.

A topic that falls silent later is handled by the guard (``staleness_s``) and, in lock step, by the resends of
:mod:`rlstack.nodes.timekeeping`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from rlstack.errors import UserError


class TopicTimeout:
    """Ends a node whose topics do not all come within the parameter ``topic_timeout_s``, with a sentence for each.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`).
        types: The wanted message type of each topic.
        goals: Topics that the parameter ``goal_position`` can replace.
    """

    def __init__(self, node: Any, types: Mapping[str, str], goals: Collection[str] = ()) -> None:
        self._node, self._types, self._goals = node, types, goals
        self._since: float | None = time.monotonic()
        self.refused: dict[str, str] = {}
        """Why the last invalid message of a topic was refused."""

    def start(self) -> None:
        """Start the time limit."""
        self._since = time.monotonic()

    def check(self, missing: Collection[str]) -> None:
        """Check the time limit; once no topic is missing, it no longer applies.

        Args:
            missing: The topics without a message yet.

        Raises:
            UserError: The time is over.
        """
        if not missing:
            self._since = None
        elif self._since is not None and time.monotonic() - self._since > self._node.parameters["topic_timeout_s"]:
            raise UserError(" ".join(self._reason(topic) for topic in sorted(missing)))

    def _reason(self, topic: str) -> str:
        full, wanted = self._node.resolve_topic_name(topic), self._types[topic]
        if topic in self.refused:
            return f"Messages on the topic {full} are refused: {self.refused[topic]}."
        offered = {info.topic_type for info in self._node.get_publishers_info_by_topic(full)}
        seconds = f"{self._node.parameters['topic_timeout_s']:g} s"
        sentence = f"The topic {full} ({wanted}) did not come within {seconds}: "
        if offered and wanted not in offered:
            return sentence + f"its publisher sends {', '.join(sorted(offered))}; remap {topic} to the right topic."
        if offered:
            return sentence + "it has a publisher that sends nothing; check that the sensor behind it runs."
        if topic in self._goals:
            return sentence + "publish it, or give -p goal_position:=[x, y, z] in metres."
        return (
            sentence + "nothing publishes it; check that the robot node runs, in the same namespace"
            f" ({self._node.get_namespace()}) and ROS_DOMAIN_ID, or remap {topic}."
        )
