from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from rlstack.errors import UserError
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import ImuMessage, OdometryMessage, RotorMessage, pose_message
from rlstack.interfaces.signal_reader import SignalReader, topic_reader
from rlstack.interfaces.signals import SENSED

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
    for frame in ("odom", "", "panda/odom"):
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


def test_a_reader_that_keeps_to_its_frames_refuses_others_until_told_to_forget() -> None:
    kind = topics.type_of(topics.ODOM)
    read = SignalReader(kind, {name: SENSED[name].field for name in ODOM}, same_frames=True)
    message, values = odometry(1)
    assert np.array_equal(read(serialize_message(message))[1]["position"], values["position"])
    for change in ({"child_frame_id": "cf2/base_link"}, {"header": "map"}):
        other, _ = odometry(2)
        other.child_frame_id = change.get("child_frame_id", other.child_frame_id)
        other.header.frame_id = change.get("header", other.header.frame_id)
        with pytest.raises(ValueError, match=r"in the frames .* and was in \['odom', 'base_link'\] before"):
            read(serialize_message(other))
    read(serialize_message(message))
    read.forget_frames()
    read(serialize_message(other))
