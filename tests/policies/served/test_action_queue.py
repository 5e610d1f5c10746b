"""The queue of actions from chunks that overlap."""

from __future__ import annotations

import numpy as np

from rlstack.policies.served.action_queue import ActionQueue
from rlstack.policies.served.actions import TimedAction


def chunk(first: int, count: int, value: float) -> list[TimedAction]:
    return [TimedAction(0.0, first + k, np.array([value])) for k in range(count)]


def test_steps_wait_for_actions_and_late_ones_are_left_out() -> None:
    queue = ActionQueue(0.7)
    assert queue.take() is None and queue.step == 0
    assert queue.add(chunk(0, 3, 1.0)) == 3
    assert [queue.take(), queue.take()] == [1.0, 1.0] and (queue.step, len(queue)) == (2, 1)
    assert queue.add(chunk(0, 2, 5.0)) == 0, "both steps have passed"
    assert queue.take() is None and queue.step == 2


def test_the_newer_chunk_has_its_share_where_two_overlap() -> None:
    queue = ActionQueue(0.75)
    queue.add(chunk(0, 4, 0.0))
    queue.take()
    queue.add(chunk(1, 5, 4.0))
    assert [queue.take() for _ in range(5)] == [3.0, 3.0, 3.0, 4.0, 4.0]
    assert len(queue) == 0


def test_what_is_cleared_is_gone_and_its_steps_do_not_come_again() -> None:
    queue = ActionQueue(1.0)
    queue.add(chunk(0, 4, 1.0))
    queue.take()
    queue.clear()
    assert queue.take() is None and queue.step == 1
