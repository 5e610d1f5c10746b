"""What a guard hears of the sentence that a policy follows, on real topics."""

from __future__ import annotations

import pytest

from rlstack.interfaces import topics
from rlstack.nodes.instruction_watch import InstructionWatch
from rlstack.nodes.runtime import ManagedNode
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


class Guard(ManagedNode):
    NAME = "guard"


def test_arming_is_refused_while_a_policy_that_is_there_waits_for_its_sentence(listener: Listener) -> None:
    guard = Guard(context=listener.context, namespace="/panda")
    listener.executor.add_node(guard)
    watch, kind = InstructionWatch(guard), topics.type_of(topics.INSTRUCTION_ACTIVE)
    name, latched = f"/panda/{topics.INSTRUCTION_ACTIVE}", topics.quality("latched")
    try:
        assert watch.refusal == "", "nothing takes instructions"
        policy = listener.node.create_publisher(kind, name, latched)
        policy.publish(kind(data=""))
        listener.until(lambda: watch.refusal, "the refusal")
        assert watch.refusal.startswith("the policy waits for an instruction")
        policy.publish(kind(data="push the red block"))
        listener.until(lambda: not watch.refusal, "the sentence")
        policy.publish(kind(data=""))
        listener.until(lambda: watch.refusal, "the next policy, which waits")
        listener.node.destroy_publisher(policy)
        listener.until(lambda: not watch.refusal, "its end")
    finally:
        listener.executor.remove_node(guard)
        guard.destroy_node()
