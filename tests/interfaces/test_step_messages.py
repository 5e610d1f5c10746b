from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces import topics
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.step_messages import Held, StepRows, held_message, read_held, read_rows

STAMPS = st.integers(0, 2**62)


@settings(deadline=None, max_examples=30)
@given(rows=st.lists(st.tuples(STAMPS, STAMPS, STAMPS, STAMPS, STAMPS, STAMPS), min_size=1, max_size=20))
def test_rows_are_read_as_they_were_written(rows: list[tuple[int, ...]]) -> None:
    message = StepRows(("odom", "front/image_raw")).fill(array("q", [one for row in rows for one in row]))
    read = read_rows(message)
    assert list(read) == ["step", "resets", "stamp", "odom", "front/image_raw", "held"]
    assert [tuple(map(int, row)) for row in zip(*read.values())] == rows


@settings(deadline=None, max_examples=30)
@given(start=STAMPS, steps=st.lists(st.integers(1, 10**10), min_size=1, max_size=20), version=st.integers(1, 2**40))
def test_what_is_held_is_read_as_it_was_written(start: int, steps: list[int], version: int) -> None:
    stamps = start + np.cumsum([0, *steps]).astype(np.int64)
    count = len(stamps)
    path = GoalPath(stamps, np.random.default_rng(0).normal(size=(count, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)))
    goal = np.array([0.1, -0.2, 1.0 / 3.0])
    held = read_held(held_message(Held(version, {"goal_position": goal}, path)))
    assert held.version == version and held.path is not None
    np.testing.assert_array_equal(held.values["goal_position"], goal)
    for part in ("stamp_ns", "position", "orientation"):
        np.testing.assert_array_equal(getattr(held.path, part), getattr(path, part))


def test_another_array_is_refused() -> None:
    with pytest.raises(ValueError, match="not an array of a policy's steps"):
        read_rows(topics.type_of(topics.POLICY_STEPS)(data=array("q", [1, 2])))
    with pytest.raises(ValueError, match="not an array of a policy's held inputs"):
        read_held(topics.type_of(topics.POLICY_HELD)(data=array("d", [1.0])))
