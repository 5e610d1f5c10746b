from __future__ import annotations

from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from rlstack.interfaces.path_messages import GoalPath, path_message
from rlstack.nodes import goal_subscriptions
from rlstack.nodes.goal_subscriptions import PathListener

TIMES = np.array([0.0, 1.0, 2.5])


def serialized(start_ns: int = 10**9, turn: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0), **options: Any) -> bytes:
    places = np.arange(9.0).reshape(3, 3)
    return bytes(serialize_message(path_message(TIMES, places, np.tile(turn, (3, 1)), start_ns=start_ns, **options)))


class Heard:
    """A listener and what it said."""

    def __init__(self) -> None:
        self.paths: list[tuple[GoalPath, bool]] = []
        self.refusals: list[str] = []
        self.listener = PathListener(self.on_path, self.refusals.append)

    def on_path(self, stamp_ns: int, path: GoalPath) -> None:
        self.paths.append((path, stamp_ns == 0))


def test_a_path_is_heard_with_its_stamps() -> None:
    heard = Heard()
    heard.listener(serialized())
    [(path, from_now)] = heard.paths
    assert not from_now
    assert path.stamp_ns.tolist() == [10**9, 2 * 10**9, 3_500_000_000]
    np.testing.assert_array_equal(path.position, np.arange(9.0).reshape(3, 3))


def test_without_a_stamp_it_begins_now() -> None:
    heard = Heard()
    heard.listener(serialized(start_ns=0))
    assert heard.paths[0][1] and heard.paths[0][0].stamp_ns[0] == 0


def test_what_both_subscriptions_bring_counts_once_and_a_later_repetition_again(monkeypatch) -> None:
    heard = Heard()
    heard.listener(serialized())
    heard.listener(serialized())
    assert len(heard.paths) == 1
    heard.listener(serialized(start_ns=2 * 10**9))
    heard.listener(serialized())
    assert len(heard.paths) == 3
    monkeypatch.setattr(goal_subscriptions, "TWICE_WITHIN_S", 0.0)
    heard.listener(serialized())
    assert len(heard.paths) == 4


def test_a_path_that_makes_no_sense_is_refused_in_a_sentence() -> None:
    heard = Heard()
    heard.listener(serialized(turn=(0.0, 0.0, 0.0, 0.5)))
    assert heard.paths == [] and len(heard.refusals) == 1 and "not a unit quaternion" in heard.refusals[0]
