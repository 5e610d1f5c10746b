from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.interfaces import messages, topics
from rlstack.interfaces.signals import COMMANDED, IMAGE_CAMERAS, SENSED, Signal

IMAGE_TYPE = "sensor_msgs/msg/Image"


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**31 * messages.NANOSECONDS - 1))
def test_stamps_keep_every_nanosecond(nanoseconds: int) -> None:
    stamp = topics.message_type("builtin_interfaces/msg/Time")()
    messages.set_stamp(stamp, nanoseconds)
    assert messages.stamp_to_ns(stamp) == nanoseconds


def test_seconds_are_rounded_to_nanoseconds() -> None:
    assert messages.seconds_to_ns(0.1 + 0.2) == 300_000_000


def on_one_message(signal: Signal) -> bool:
    """Those of paths, scans, people, maps, pictures, joints' targets and sentences have tests of their modules."""
    if signal.type == IMAGE_TYPE:
        return False
    return signal.topic not in (topics.GOAL_PATH, topics.SCAN, topics.PEOPLE, topics.MAP, "cmd/joints", "instruction")


@pytest.mark.parametrize(
    "signal", [s for s in (*SENSED.values(), *COMMANDED.values()) if on_one_message(s)], ids=lambda s: s.name
)
def test_every_signal_of_the_catalogue_can_be_read(signal: object) -> None:
    names = ("m1", "m2") if {"rotors", "joints"} & {*signal.shape} else ()
    kind = topics.message_type(signal.type)
    message = kind()
    if names:
        message.name, message.velocity, message.position = ["m2", "m1"], [1.0, 2.0], [1.0, 2.0]
    found = messages.field_reader(kind, signal.field, names)(message)
    assert found.dtype == np.float64
    assert found.shape == tuple(2 if size in ("rotors", "joints") else size for size in signal.shape)
    if names:
        assert found.tolist() == [2.0, 1.0]


def test_quaternions_are_read_as_xyzw() -> None:
    message = topics.type_of(topics.GOAL)()
    q = message.pose.orientation
    q.x, q.y, q.z, q.w = 0.1, 0.2, 0.3, 0.4
    assert messages.field_reader(type(message), "pose.orientation")(message).tolist() == [0.1, 0.2, 0.3, 0.4]


def test_imu_says_that_it_gives_no_orientation() -> None:
    imu = messages.ImuMessage(topics.type_of(topics.IMU)(), "base_link", linear_acceleration_noise_m_s2=2.0)
    assert imu.message.orientation_covariance[0] == -1.0
    assert imu.message.linear_acceleration_covariance.tolist() == [4.0, 0, 0, 0, 4.0, 0, 0, 0, 4.0]


def test_unknown_message_types_are_refused() -> None:
    with pytest.raises(UserError, match="install the ROS package 'no_such_msgs'"):
        topics.message_type("no_such_msgs/msg/Thing")
    with pytest.raises(UserError, match="has no message 'Odo'"):
        topics.message_type("nav_msgs/msg/Odo")


def test_the_types_of_topics_are_those_of_the_catalogue() -> None:
    pictures = {f"{camera}/image_raw": IMAGE_TYPE for camera in IMAGE_CAMERAS}
    for signal in SENSED.values():  # a scan's topic is a lidar's name
        assert {**topics.TYPES, **pictures, topics.SCAN: topics.SCAN_TYPE}[signal.topic] == signal.type
    for signal in COMMANDED.values():
        assert topics.TYPES[signal.topic] == signal.type
        assert topics.type_of(topics.POLICY_PREFIX + signal.topic) is topics.message_type(signal.type)


def test_lock_step_loses_no_sensor_message() -> None:
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

    assert topics.quality("sensor_in").reliability == ReliabilityPolicy.BEST_EFFORT
    for use in ("sensor_out", "sensor_in_reliable", "command"):
        quality = topics.quality(use)
        assert (quality.reliability, quality.depth) == (ReliabilityPolicy.RELIABLE, 1)
    assert topics.quality("latched").durability == DurabilityPolicy.TRANSIENT_LOCAL
