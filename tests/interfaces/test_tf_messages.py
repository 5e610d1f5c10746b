from __future__ import annotations

import pytest

from rlstack.errors import MalformedMessage
from rlstack.interfaces.tf_messages import TfMessage, Transform, read_tf

TRANSFORMS = [
    Transform("odom", "base_link", (1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8), 5 * 10**9 + 7),
    Transform("base_link", "cf1/ä", stamp_ns=3),
    Transform("a", "bc"),
]


def test_what_is_written_is_read_whatever_the_names_are_long() -> None:
    assert read_tf(TfMessage(TRANSFORMS).data) == TRANSFORMS
    assert read_tf(TfMessage([]).data) == []


def test_a_message_is_refilled() -> None:
    message = TfMessage(TRANSFORMS)
    message.fill(1, 2 * 10**9, (0.0,) * 6 + (1.0,))
    assert read_tf(message.data) == [TRANSFORMS[0], Transform("base_link", "cf1/ä", stamp_ns=2 * 10**9), TRANSFORMS[2]]


@pytest.mark.integration
def test_ros_reads_the_same_and_writes_what_is_read() -> None:
    tf2 = pytest.importorskip("tf2_msgs.msg")
    from rclpy.serialization import deserialize_message, serialize_message

    message = deserialize_message(TfMessage(TRANSFORMS).data, tf2.TFMessage)
    first, second, _ = message.transforms
    assert (first.header.frame_id, first.child_frame_id, second.header.stamp.nanosec) == ("odom", "base_link", 3)
    assert (first.transform.translation.y, first.transform.rotation.w) == (2.0, 0.8)
    assert read_tf(bytes(serialize_message(message))) == TRANSFORMS


@pytest.mark.parametrize("cut", [3, 6, 12, 17, 40, 90])
def test_less_than_a_message_is_refused(cut: int) -> None:
    with pytest.raises(MalformedMessage):
        read_tf(TfMessage(TRANSFORMS).data[:cut])


def test_another_encoding_and_too_large_a_count_are_refused() -> None:
    data = TfMessage(TRANSFORMS).data
    for bad in (b"\x00\x00" + data[2:], data[:4] + b"\xff\xff\xff\xff" + data[8:]):
        with pytest.raises(MalformedMessage):
            read_tf(bad)
