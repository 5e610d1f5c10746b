"""Targets of joints as messages and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.trajectory_messages import TrajectoryMessage, TrajectoryReader

NAMES = ("shoulder", "elbow", "finger")


@given(
    target=st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
    stamp=st.integers(1, 2**31 * 10**9 - 1),
    order=st.permutations(NAMES),
)
@settings(deadline=None, max_examples=40)
def test_targets_come_back_by_name_in_any_order(target: list[float], stamp: int, order: list[str]) -> None:
    message = TrajectoryMessage(NAMES, reach_s=0.02).fill(stamp, np.array(target))
    assert stamp_to_ns(message.points[0].time_from_start) == 20_000_000
    back, signals = TrajectoryReader(order)(serialize_message(message))
    assert back == stamp
    assert signals["joint_target"].tolist() == [target[NAMES.index(name)] for name in order]


def test_no_joints_mean_stop_and_no_stamp_means_now() -> None:
    made, read = TrajectoryMessage(NAMES), TrajectoryReader(NAMES)
    assert read(serialize_message(made.fill(0, np.ones(3))))[0] is None
    stamp, signals = read(serialize_message(made.fill_off(7)))
    assert stamp == 7 and signals["joint_target"].shape == (0,)


def test_numbers_alone_are_in_the_robots_order() -> None:
    made, read = TrajectoryMessage(NAMES, plain=True), TrajectoryReader(NAMES, plain=True)
    stamp, signals = read(serialize_message(made.fill(7, np.arange(3.0))))
    assert stamp is None and signals["joint_target"].tolist() == [0.0, 1.0, 2.0]
    assert made.fill_off(7) is None, "a position controller that gets no numbers fails, and is deactivated"
    made.message.data = []
    assert read(serialize_message(made.message))[1]["joint_target"].shape == (0,)
    made.message.data = [1.0]
    with pytest.raises(ValueError, match="1 numbers for the joints"):
        read(serialize_message(made.message))


def test_other_joints_or_several_points_are_refused() -> None:
    read = TrajectoryReader(NAMES)
    other = TrajectoryMessage(("shoulder", "elbow", "wrist")).fill(7, np.zeros(3))
    with pytest.raises(ValueError, match="missing: finger; unknown: wrist"):
        read(serialize_message(other))
    long = TrajectoryMessage(NAMES).fill(7, np.zeros(3))
    long.points = [*long.points, *long.points]
    with pytest.raises(ValueError, match="has 2 points: give one"):
        read(serialize_message(long))
    with pytest.raises(ValueError, match=r"shape \(2,\) are not allowed"):
        TrajectoryMessage(NAMES).fill(7, np.zeros(2))
