from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.errors import UserError
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import ImuMessage, OdometryMessage, RotorMessage, path_message, pose_message
from rlstack.interfaces.signal_reader import SignalReader, read_path
from rlstack.interfaces.signals import SENSED
from rlstack.interfaces.topic_reader import topic_reader

ROTORS = ("m1", "m2", "m3", "m4")
ODOM = ("position", "orientation", "linear_velocity", "angular_velocity")


def odometry(stamp_ns: int) -> tuple[Any, dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    values = {n: random.normal(size=4 if n == "orientation" else 3) for n in ODOM}
    message = OdometryMessage(topics.type_of(topics.ODOM)(), "odom", "base_link", position_noise_m=0.5)
    return message.fill(stamp_ns, *values.values()), values


def rotor_reader() -> SignalReader:
    kind = topics.type_of(topics.ROTOR_COMMAND)
    return SignalReader(kind, {"rotor_speed": "velocity"}, {"rotor_speed": ROTORS})


@pytest.mark.parametrize("plain", [True, False])
def test_odometry_comes_back_as_it_was_written(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not plain:  # as if another middleware had encoded it: read the ordinary way
        monkeypatch.setattr(cdr, "readable", lambda data: False)
    message, values = odometry(1_700_000_000_123_456_789)
    assert message.pose.covariance[0] == 0.25
    stamp, found = SignalReader(type(message), {n: SENSED[n].field for n in ODOM})(serialize_message(message))
    assert stamp == 1_700_000_000_123_456_789
    assert found.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == np.float64


def test_imu_comes_back_as_it_was_written() -> None:
    rate, acceleration = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    message = ImuMessage(topics.type_of(topics.IMU)(), "base_link").fill(5, rate, acceleration)
    read = SignalReader(type(message), {"linear_acceleration": "linear_acceleration"})
    stamp, found = read(serialize_message(message))
    assert stamp == 5
    np.testing.assert_array_equal(found["linear_acceleration"], acceleration)


@pytest.mark.parametrize("plain", [True, False])
def test_where_an_object_is_counts_in_the_worlds_frame_alone(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not plain:
        monkeypatch.setattr(cdr, "readable", lambda data: False)
    signals = [SENSED[name] for name in ("object_orientation", "object_position")]
    read = topic_reader(signals[0].type, {s.name: s.field for s in signals})
    place = np.array([0.5, 0.1, 0.02])
    for frame in ("odom", "map", "", "panda/odom"):
        stamp, found = read(serialize_message(pose_message(place, stamp_ns=7, frame=frame)))
        assert stamp == 7 and found["object_position"].tolist() == place.tolist(), frame
        assert found["object_orientation"].tolist() == [0.0, 0.0, 0.0, 1.0]
    for frame in ("scene_optical_frame", "base_link"):
        with pytest.raises(ValueError, match=f"in the frame '{frame}': transform it and give it in odom"):
            read(serialize_message(pose_message(place, frame=frame)))


@pytest.mark.parametrize("plain", [True, False])
def test_rotors_go_by_name_in_every_order(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not plain:
        monkeypatch.setattr(cdr, "readable", lambda data: False)
    speed = {name: 100.0 * i for i, name in enumerate(ROTORS)}
    read = rotor_reader()
    for order in itertools.permutations(ROTORS):
        message = RotorMessage(topics.type_of(topics.ROTOR_COMMAND)(), order)
        data = serialize_message(message.fill(9, np.array([speed[name] for name in order])))
        _, found = read(data)
        assert found["rotor_speed"].tolist() == [speed[name] for name in ROTORS]


@pytest.mark.parametrize(
    "names, count, words",
    [
        (["m1", "m2", "m3"], 3, "missing: m4"),
        (["m1", "m2", "m3", "m9"], 4, "missing: m4; unknown: m9"),
        (["m1", "m2", "m3", "m4", "m4"], 5, "a name comes twice"),
        (["m1", "m2", "m3", "m4"], 3, "3 values for the names"),
        ([], 4, "missing: m1, m2, m3, m4"),
    ],
)
def test_other_names_are_refused(names: list[str], count: int, words: str) -> None:
    message = RotorMessage(topics.type_of(topics.ROTOR_COMMAND)(), names).fill(0, np.ones(count))
    read = rotor_reader()
    for _ in range(2):  # what was refused once is not taken for known the second time
        with pytest.raises(ValueError, match=words):
            read(serialize_message(message))


def test_no_rotor_at_all_is_an_empty_array() -> None:
    message = RotorMessage(topics.type_of(topics.ROTOR_COMMAND)(), ROTORS)
    read = rotor_reader()
    assert read(serialize_message(message.fill(0, np.ones(4))))[1]["rotor_speed"].tolist() == [1.0] * 4
    assert len(read(serialize_message(message.fill_off(3)))[1]["rotor_speed"]) == 0
    assert read(serialize_message(message.fill(0, np.ones(4))))[1]["rotor_speed"].tolist() == [1.0] * 4


def test_two_named_lists_share_their_names() -> None:
    kind = topics.type_of(topics.JOINT_STATES)
    names = {"turn": ("a", "b"), "speed": ("b", "a")}
    message = kind(name=["b", "a"], position=[1.0, 2.0], velocity=[3.0, 4.0])
    _, found = SignalReader(kind, {"turn": "position", "speed": "velocity"}, names)(serialize_message(message))
    assert found["turn"].tolist() == [2.0, 1.0] and found["speed"].tolist() == [3.0, 4.0]


def test_a_list_without_names_is_read_as_it_is() -> None:
    kind = topics.type_of(topics.JOINT_STATES)
    _, found = SignalReader(kind, {"effort": "effort"})(serialize_message(kind(effort=[1.0, 2.0])))
    assert found["effort"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "field, words", [("pose.pose.nose", "'nose' is missing"), ("pose.pose", "not a vector"), ("header", "not a vector")]
)
def test_a_field_that_is_no_array_is_refused(field: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        SignalReader(topics.type_of(topics.ODOM), {"position": field})


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


def test_a_path_in_another_frame_is_refused() -> None:
    message = straight()
    for frame in ("", "odom", "map", "crazyflie/odom"):
        message.header.frame_id = frame
        assert len(read_path(message).stamp_ns) == 3
    message.poses[1].header.frame_id = "base_link"
    with pytest.raises(ValueError, match="A path in the frame 'base_link' was refused: give it in odom"):
        read_path(message)
