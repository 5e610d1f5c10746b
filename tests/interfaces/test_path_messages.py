"""The fast way of reading a path must be the ordinary one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import path_messages, topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.path_messages import path_message, read_path, read_path_data
from rlstack.interfaces.signals import SENSED

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
    assert path_messages._regular(data) is not None
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
    how = draw.draw(st.sampled_from(["stamp", "position", "orientation", "number"]))
    if how == "stamp":
        made.poses[-1].header.stamp.sec = 0
        made.poses[-1].header.stamp.nanosec = 0
    elif how == "position":
        pose.pose.position.y = float("nan")
    elif how == "orientation":
        pose.pose.orientation.w += 3.0
    else:
        made.poses = made.poses[:1]
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


def test_a_path_is_stamped_pose_by_pose() -> None:
    turn = np.array([[0.0, 0.0, 0.6, 0.8], [0.0, 0.0, 0.0, 1.0]])
    path = path_message(
        np.array([-0.25, 1.5]), np.array([[1, 2, 3], [4, 5, 6]]), turn, start_ns=3 * 10**18 + 1, frame="map"
    )
    assert [stamp_to_ns(p.header.stamp) - 3 * 10**18 for p in path.poses] == [-249_999_999, 1_500_000_001]
    assert {path.header.frame_id, *(p.header.frame_id for p in path.poses)} == {"map"}
    last = path.poses[1].pose
    assert (last.position.x, last.position.y, last.position.z) == (4.0, 5.0, 6.0)
    assert (path.poses[0].pose.orientation.z, path.poses[0].pose.orientation.w) == (0.6, 0.8)


@pytest.mark.parametrize("shapes", [((3,), (2, 3), (3, 4)), ((3,), (3, 3), (3, 3)), ((1, 3), (1, 3, 3), (1, 3, 4))])
def test_a_path_of_shapes_that_do_not_go_together_is_refused(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"must be \(points,\), \(points, 3\) and \(points, 4\)"):
        path_message(*(np.zeros(shape) for shape in shapes))


NOW_NS = 1_700_000_000_123_456_789


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 40), st.integers(0, 1000), st.floats(-20.0, 20.0))
def test_a_path_comes_back_as_it_was_written(points: int, seed: int, start_s: float) -> None:
    random = np.random.default_rng(seed)
    time_s = start_s + np.cumsum(random.uniform(1e-3, 1.0, points))
    position, orientation = random.normal(size=(points, 3)), random.normal(size=(points, 4))
    orientation /= np.linalg.norm(orientation, axis=1, keepdims=True)
    message = path_message(time_s, position, orientation, start_ns=NOW_NS)
    path = read_path(deserialize_message(serialize_message(message), type(message)))
    for later_ns in (0, 10_000_000, round(1e9 * start_s), round(1e9 * time_s[-1]) + 50_000_000_000):
        found = path.signals(NOW_NS + later_ns)
        assert {n: a.shape for n, a in found.items()} == {
            "path_time": (points,),
            "path_position": (points, 3),
            "path_orientation": (points, 4),
        }
        assert all(array.dtype == np.float64 for array in found.values())
        np.testing.assert_allclose(found["path_time"], time_s - 1e-9 * later_ns, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(found["path_position"], position)
        np.testing.assert_array_equal(found["path_orientation"], orientation)


@pytest.mark.parametrize("days", [-20000, -3, 3, 20000])
def test_a_path_of_long_ago_keeps_its_times_apart_in_float32(days: int) -> None:
    """Only that it is over, or is to come, matters then."""
    turn = np.tile([0.0, 0.0, 0.0, 1.0], (50, 1))
    path = read_path(path_message(0.01 * np.arange(50), np.zeros((50, 3)), turn, start_ns=NOW_NS))
    found = path.signals(NOW_NS + days * 86_400_000_000_000)["path_time"]
    np.testing.assert_allclose(np.diff(found), 0.01, atol=1e-8)
    assert (np.diff(found.astype(np.float32)) > 0.0).all()
    assert found[-1] == -60.0 if days > 0 else found[0] == 60.0


def test_the_signals_of_a_path_are_those_of_the_catalogue() -> None:
    path = read_path(path_message(np.arange(3.0), np.zeros((3, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (3, 1))))
    for name, array in path.signals(0).items():
        signal = SENSED[name]
        assert (signal.topic, signal.type) == (topics.GOAL_PATH, topics.TYPES[topics.GOAL_PATH])
        assert array.shape == tuple(3 if size == "points" else size for size in signal.shape)


def straight(points: int = 3) -> Any:
    position = np.linspace([0.0, 0.0, 1.0], [1.0, 0.0, 1.0], points)
    return path_message(np.arange(float(points)), position, np.tile([0.0, 0.0, 0.0, 1.0], (points, 1)))


@pytest.mark.parametrize("points", [0, 1])
def test_a_path_of_too_few_poses_is_refused(points: int) -> None:
    with pytest.raises(ValueError, match=f"of {points} poses was refused: it needs at least 2"):
        read_path(straight(points))


def test_a_path_whose_stamps_do_not_increase_is_refused() -> None:
    """As planners send them that stamp no pose."""
    message = straight()
    for pose in message.poses:
        pose.header.stamp.sec = 0
    with pytest.raises(
        ValueError, match=r"refused at pose 1 \(of 0 to 2\): its stamp is not after that of the pose before"
    ):
        read_path(message)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_path_that_is_not_finite_is_refused(bad: float) -> None:
    message = straight()
    message.poses[2].pose.position.y = bad
    with pytest.raises(ValueError, match=r"refused at pose 2 .*: its position is not finite"):
        read_path(message)


@pytest.mark.parametrize("w", [0.0, 1.01, np.nan, 1e300])
def test_a_path_with_a_turn_that_is_none_is_refused(w: float) -> None:
    message = straight()
    message.poses[0].pose.orientation.w = w
    with pytest.raises(ValueError, match=r"refused at pose 0 .*: its orientation is not a unit quaternion"):
        read_path(message)


def test_a_paths_frames_are_those_of_its_poses_or_its_own() -> None:
    message = straight()
    for frame in ("", "odom", "map", "crazyflie/odom"):
        message.header.frame_id = frame
        for pose in message.poses:
            pose.header.frame_id = ""
        assert read_path(message).frames == (frame,)
    message.poses[1].header.frame_id = "base_link"
    assert read_path(message).frames == ("crazyflie/odom", "base_link", "crazyflie/odom")
