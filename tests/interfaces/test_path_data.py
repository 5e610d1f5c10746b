"""The fast way of reading a path must be the ordinary one."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import path_data, topics
from rlstack.interfaces.messages import path_message, stamp_to_ns
from rlstack.interfaces.path_data import read_path_data
from rlstack.interfaces.signal_reader import read_path

PATH = topics.type_of(topics.GOAL_PATH)
FRAMES = ["", "odom", "map", "/odom", "a/odom", "cf12/odom", "swarm/cf3/map"]


def message(seed: int, points: int, frame: str = "odom", start_ns: int = 0):
    random = np.random.default_rng(seed)
    turns = random.normal(size=(points, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    times = np.cumsum(random.uniform(0.01, 1.0, points))
    return path_message(times, random.normal(size=(points, 3)), turns, start_ns=start_ns, frame=frame)


def same(data: bytes) -> None:
    ordinary = deserialize_message(data, PATH)
    stamp_ns, path = read_path_data(data)
    wanted = read_path(ordinary)
    assert stamp_ns == stamp_to_ns(ordinary.header.stamp)
    np.testing.assert_array_equal(path.stamp_ns, wanted.stamp_ns)
    np.testing.assert_array_equal(path.position, wanted.position)
    np.testing.assert_array_equal(path.orientation, wanted.orientation)
    assert path.stamp_ns.dtype == np.int64


@given(
    st.integers(0, 1000), st.integers(2, 40), st.sampled_from(FRAMES), st.sampled_from(FRAMES), st.integers(0, 2**60)
)
@settings(deadline=None, max_examples=100)
def test_it_reads_what_the_message_says(seed, points, of_path, of_poses, start_ns):
    made = message(seed, points, of_poses, start_ns % (2**31 * 10**9))
    made.header.frame_id = of_path
    data = bytes(serialize_message(made))
    assert path_data._regular(data) is not None
    same(data)


@given(st.integers(0, 1000), st.integers(2, 10), st.data())
@settings(deadline=None, max_examples=50)
def test_poses_that_name_different_frames_are_read_the_ordinary_way(seed, points, draw):
    made = message(seed, points)
    for pose in made.poses:
        pose.header.frame_id = draw.draw(st.sampled_from(FRAMES))
    same(bytes(serialize_message(made)))


@given(st.integers(0, 1000), st.integers(2, 10), st.data())
@settings(deadline=None, max_examples=50)
def test_what_the_ordinary_way_refuses_is_refused_with_the_same_words(seed, points, draw):
    made = message(seed, points)
    pose = made.poses[draw.draw(st.integers(0, points - 1))]
    how = draw.draw(st.sampled_from(["stamp", "position", "orientation", "frame", "path's frame", "number"]))
    if how == "stamp":
        made.poses[-1].header.stamp.sec = 0
        made.poses[-1].header.stamp.nanosec = 0
    elif how == "position":
        pose.pose.position.y = float("nan")
    elif how == "orientation":
        pose.pose.orientation.w += 0.5
    elif how == "number":
        made.poses = made.poses[:1]
    else:
        (made if how == "path's frame" else pose).header.frame_id = "world"
    with pytest.raises(ValueError, match="refused") as ordinary:
        read_path(made)
    with pytest.raises(ValueError, match="refused") as fast:
        read_path_data(bytes(serialize_message(made)))
    assert str(fast.value) == str(ordinary.value)


def test_a_thousand_poses_take_less_than_a_tenth_of_a_control_period():
    data = bytes(serialize_message(message(0, 1000)))
    took = []
    for _ in range(20):
        began = time.perf_counter()
        read_path_data(data)
        took.append(time.perf_counter() - began)
    assert min(took) < 1e-3
