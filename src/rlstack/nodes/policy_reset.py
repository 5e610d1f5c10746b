"""The guard node's requests to the policy node to start anew, before the policy gets control."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from rlstack.interfaces import topics

_REPEAT_S = 0.5
"""Real time after which an unanswered request is repeated."""


class PolicyReset:
    """Client of the policy's reset.

    In lock step a reset happens between two observations: the policy has answered the one, and the other comes only
    once the policy has confirmed its reset. Flights are then the same every time. The guard node calls :meth:`call`
    for that where :attr:`due`.

    Args:
        node: The guard node.
        lock_step: Simulated time waits for every command.
        now_s: Returns the present time, s.
        valid_s: How long a reset counts as just done, s.
        on_done: Called when the policy has confirmed.
    """

    def __init__(
        self, node: Any, lock_step: bool, now_s: Callable[[], float], valid_s: float, on_done: Callable[[], None]
    ) -> None:
        from std_srvs.srv import Trigger

        self._node, self._lock_step, self._now_s, self._valid_s, self._on_done = (
            node,
            lock_step,
            now_s,
            valid_s,
            on_done,
        )
        self._client = node.client(Trigger, topics.POLICY_RESET)
        self.forget()

    def forget(self) -> None:
        """Forget earlier requests: the stamps have jumped."""
        self._asked_at, self._done_at_s = -math.inf, -math.inf
        self.due = False
        """Lock step: whether it is to be called once the policy has answered the observation."""

    def is_done(self) -> bool:
        """Return whether the policy has been reset just now, or keeps no state; otherwise ask for it."""
        return self._now_s() - self._done_at_s <= self._valid_s or not self.ask()

    def ask(self) -> bool:
        """Have the policy reset; return whether it is there and keeps state."""
        if not self._client.service_is_ready():
            return False
        if self._lock_step:
            self.due = True
        elif time.monotonic() - self._asked_at > _REPEAT_S:
            self._asked_at = time.monotonic()
            self.call()
        return True

    def call(self) -> None:
        """Send the request now."""
        self._client.call_async(self._client.srv_type.Request()).add_done_callback(self._answered)

    def _answered(self, answered: Any) -> None:
        if not self._node.active or answered.exception() is not None or not answered.result().success:
            return
        self._asked_at, self._done_at_s = -math.inf, self._now_s()
        self._on_done()
