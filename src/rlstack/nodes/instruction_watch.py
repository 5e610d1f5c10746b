"""Whether a robot's policy waits for a sentence, as the guard asks before it arms."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics


class InstructionWatch:
    """Hears which sentence a policy follows.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`).
    """

    def __init__(self, node: Any) -> None:
        self._node, self._followed = node, ""
        self._heard = False
        topic = topics.INSTRUCTION_ACTIVE
        self._topic = node.resolve_topic_name(topic)
        node.subscriber(topics.type_of(topic), topic, self._hear, "latched")

    @property
    def refusal(self) -> str:
        """Why a person must not arm the robot yet: the policy would be silent, and the guard soon follow its fallback.

        It is empty once there is a sentence, for a policy that takes none, and when what waited for one has ended.
        """
        if not self._heard or self._followed or not self._node.count_publishers(self._topic):
            return ""
        return (
            "the policy waits for an instruction, and nothing moves before it has one:"
            ' `rlstack agent "arm, ..."` gives it one and arms'
        )

    def _hear(self, message: Any) -> None:
        self._heard, self._followed = True, message.data
