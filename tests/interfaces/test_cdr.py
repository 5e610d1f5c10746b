from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.errors import MalformedMessage, UserError
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.signals import COMMANDED, SENSED

numbers = st.floats(allow_nan=False, width=64)
words = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=9)
STAMP = ["header.stamp.sec", "header.stamp.nanosec"]


def joint_state(names: list[str], velocity: list[float], position: list[float], frame: str) -> Any:
    message = topics.type_of(topics.JOINT_STATES)()
    message.header.frame_id, message.header.stamp.sec, message.header.stamp.nanosec = frame, -3, 999_999_999
    message.name, message.velocity, message.position = names, velocity, position
    return message


@settings(deadline=None)
@given(st.lists(words, max_size=6), st.lists(numbers, max_size=5), st.lists(numbers, max_size=3), words)
def test_lists_are_read_whatever_comes_before_them(
    names: list[str], velocity: list[float], position: list[float], frame: str
) -> None:
    kind = topics.type_of(topics.JOINT_STATES)
    read = cdr.compile_reader(kind, [*STAMP, "velocity", "name", "header.frame_id"])
    sec, nanosec, found, name_bytes, frame_id = read(serialize_message(joint_state(names, velocity, position, frame)))
    assert (sec, nanosec, frame_id) == (-3, 999_999_999, frame)
    np.testing.assert_array_equal(found, velocity)
    assert cdr.texts(name_bytes) == names


@settings(deadline=None)
@given(st.lists(numbers, min_size=13, max_size=13), words, words, st.lists(numbers, min_size=36, max_size=36))
def test_odometry_is_read_whatever_its_frames_are(
    values: list[float], frame: str, child: str, covariance: list[float]
) -> None:
    kind = topics.type_of(topics.ODOM)
    message = kind()
    message.header.frame_id, message.child_frame_id, message.twist.covariance = frame, child, np.array(covariance)
    paths = [f"pose.pose.position.{a}" for a in "xyz"] + [f"pose.pose.orientation.{a}" for a in "xyzw"]
    paths += [f"twist.twist.linear.{a}" for a in "xyz"] + [f"twist.twist.angular.{a}" for a in "xyz"]
    for path, number in zip(paths, values):
        target: Any = message
        *parents, leaf = path.split(".")
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, leaf, number)
    read = cdr.compile_reader(kind, [*paths, "child_frame_id", "twist.covariance"])
    *found, found_child, found_covariance = read(serialize_message(message))
    assert found == values and found_child == child
    np.testing.assert_array_equal(found_covariance, covariance)


@pytest.mark.parametrize("name", sorted({*(s.type for s in SENSED.values()), *(s.type for s in COMMANDED.values())}))
def test_every_type_of_the_catalogue_can_be_read(name: str) -> None:
    kind = topics.message_type(name)
    message = kind()
    if name == "std_msgs/msg/String":  # has no stamp
        message.data = "push"
        assert cdr.compile_reader(kind, ["data"])(serialize_message(message)) == ("push",)
        return
    message.header.stamp.sec, message.header.stamp.nanosec = 7, 8
    assert cdr.compile_reader(kind, STAMP)(serialize_message(message)) == (7, 8)


def test_numbers_of_several_sizes_are_aligned() -> None:
    kind = topics.message_type("sensor_msgs/msg/BatteryState")
    message = kind()
    message.voltage, message.present, message.cell_voltage, message.location = 3.5, True, [1.0, 2.0, 4.0], "left"
    message.power_supply_technology = 3
    wanted = ["present", "location", "cell_voltage", "voltage", "power_supply_technology"]
    present, location, cells, voltage, technology = cdr.compile_reader(kind, wanted)(serialize_message(message))
    assert (present, location, voltage, technology) == (True, "left", 3.5, 3)
    assert cells.tolist() == [1.0, 2.0, 4.0] and cells.dtype == np.float32


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(UserError, match=r"no primitive field 'pose\.pose\.position\.q'"):
        cdr.compile_reader(topics.type_of(topics.ODOM), ["pose.pose.position.q"])


def test_a_type_that_cannot_be_read_serialized_is_refused() -> None:
    with pytest.raises(UserError, match="UnboundedSequence of NamespacedType"):
        list(cdr.leaves(topics.type_of(topics.MARKERS)))


def test_other_encodings_are_recognised() -> None:
    data = serialize_message(topics.type_of(topics.ODOM)())
    assert cdr.readable(data)
    assert not cdr.readable(b"\x00\x00" + data[2:])  # big-endian
    assert not cdr.readable(b"\x00\x03" + data[2:])  # parameter list
    assert math.isclose(struct.unpack_from("<d", data, len(data) - 8)[0], 0.0)


@settings(deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_bytes_that_are_no_message_are_refused_as_such(data: bytes, plain: bool) -> None:
    """Whatever the bytes are, a reader returns values or refuses them, and so does the middleware."""
    kind = topics.type_of(topics.JOINT_STATES)
    read = cdr.compile_reader(kind, [*STAMP, "header.frame_id", "name", "velocity"])
    given_bytes = b"\x00\x01\x00\x00" + data if plain else data
    try:
        found = read(given_bytes)
        cdr.texts(found[3])
    except MalformedMessage:
        pass


def test_a_message_cut_short_is_refused_wherever_it_ends() -> None:
    kind = topics.type_of(topics.JOINT_STATES)
    read = cdr.compile_reader(kind, [*STAMP, "header.frame_id", "name", "velocity"])
    whole = bytes(serialize_message(joint_state(["a", "b"], [1.0, 2.0], [], "odom")))
    assert read(whole)[2] == "odom"
    end = whole.index(struct.pack("<d", 2.0)) + 8
    for length in range(end):
        with pytest.raises(MalformedMessage, match=f"its {length} bytes are no JointState"):
            read(whole[:length])


@pytest.mark.parametrize("at", ("frame", "names", "velocity"))
def test_a_length_beyond_the_end_is_refused(at: str) -> None:
    kind = topics.type_of(topics.JOINT_STATES)
    read = cdr.compile_reader(kind, [*STAMP, "header.frame_id", "name", "velocity"])
    whole = bytearray(serialize_message(joint_state(["a"], [1.5], [], "odom")))
    offset = {"frame": 12, "names": 24, "velocity": whole.index(struct.pack("<d", 1.5)) - 4}[at]
    for length in (0xFFFFFFFF, 0x7FFFFFFF, 1000):
        changed = bytes(whole[:offset] + struct.pack("<I", length) + whole[offset + 4 :])
        with pytest.raises(MalformedMessage):
            read(changed)
