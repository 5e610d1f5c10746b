"""Says on topics which messages each step of a policy was on, at little cost to the control loop."""

from __future__ import annotations

import time
from array import array
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.step_messages import Held, StepRows, held_message
from rlstack.nodes.policy_loop import Answer, PolicyLoop
from rlstack.policies import Contract

_PERIOD_NS = NANOSECONDS // 10
"""Steps of this time make one message: a step costs the control loop a row of integers."""


class PolicySteps:
    """Publishes ``policy/steps`` ten times a second while somebody listens, and ``policy/held`` whenever it changes.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`).
        loop: The steps.
        contract: Of the policy that it steps.
    """

    def __init__(self, node: Any, loop: PolicyLoop, contract: Contract) -> None:
        steps, held = topics.POLICY_STEPS, topics.POLICY_HELD
        self._steps = node.publisher(topics.type_of(steps), steps, "event")
        self._held = node.publisher(topics.type_of(held), held, "latched")
        self._loop, self._sensors = loop, loop.sensors
        self._message = StepRows(loop.sensors)
        self._names = [
            port.name for port in contract.inputs if port.topic in topics.LATCHED and port.topic != topics.GOAL_PATH
        ]
        self._rows = array("q")
        self._sent_ns = 0
        self._values: dict[str, Array] = {}
        self._path: GoalPath | None = None
        self._version = 0

    def stepped(self, answer: Answer) -> None:
        """Note a step; call it once its command has been sent."""
        loop = self._loop
        self._see()
        stamps = loop.stamps
        row = (loop.counts.steps, loop.counts.resets, answer.stamp_ns, *(stamps[topic] for topic in self._sensors))
        self._rows.extend((*row, self._version))
        if time.monotonic_ns() - self._sent_ns >= _PERIOD_NS:
            self.flush()

    def flush(self) -> None:
        """Publish what has been noted."""
        if not self._rows:
            return
        self._sent_ns = time.monotonic_ns()
        rows, self._rows = self._rows, array("q")
        if self._steps.get_subscription_count():
            self._steps.publish(self._message.fill(rows))

    def _see(self) -> None:
        """Publish what is held if it is not what it was; messages that repeat it change nothing."""
        seen, path = self._loop.seen, self._loop.path
        if path is self._path and all(seen[name] is self._values.get(name) for name in self._names):
            return
        changed = not (_same(path, self._path) and all(_equal(seen[n], self._values.get(n)) for n in self._names))
        self._values, self._path = {name: seen[name] for name in self._names}, path
        if changed:
            self._version += 1
            self._held.publish(held_message(Held(self._version, self._values, path)))


def _equal(one: Array, other: Array | None) -> bool:
    return other is not None and np.array_equal(one, other)


def _same(one: GoalPath | None, other: GoalPath | None) -> bool:
    if one is None or other is None:
        return one is other
    parts = ("stamp_ns", "position", "orientation")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)
