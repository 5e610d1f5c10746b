"""People there and back, from clouds of other makers, and none at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rclpy.serialization import serialize_message

from rlstack.interfaces import topics
from rlstack.interfaces.cloud_messages import CloudMessage, cloud_fields
from rlstack.interfaces.people_messages import NOBODY, RADIUS_M, PeopleMessage, PeopleReader, extrapolated, read_people
from rlstack.interfaces.signal_reader import topic_reader
from rlstack.interfaces.signals import DYNAMIC, SENSED

ROWS = st.integers(1, 40).flatmap(lambda n: arrays(np.float64, (n, 6), elements=st.floats(-100.0, 100.0, width=32)))


@settings(deadline=None, max_examples=40)
@given(ROWS, st.sampled_from([2, 3]))
def test_there_and_back(rows: np.ndarray, axes: int) -> None:
    rows[:, 5] = np.abs(rows[:, 5])
    rows[:, axes:3] = 0.0
    message = PeopleMessage()
    data = serialize_message(message.fill(5, rows[:, :axes], rows[:, 3:5], rows[:, 5], np.arange(len(rows)) + 7))
    stamp, found = PeopleReader()(data)
    assert stamp == 5 and message.message.header.frame_id == "odom"
    np.testing.assert_array_equal(found["people_position"], rows[:, :3])
    np.testing.assert_array_equal(found["people_velocity"][:, :2], rows[:, 3:5])
    np.testing.assert_array_equal(found["people_radius"], rows[:, 5])
    assert cloud_fields(message.message, ["id"])["id"].tolist() == list(range(7, 7 + len(rows)))
    for name, array in found.items():
        assert array.shape == tuple(len(rows) if size == "people" else size for size in SENSED[name].shape)


def test_where_nobody_is_there_is_one_too_far_to_matter() -> None:
    message = PeopleMessage()
    nobody = read_people(message.fill(1, np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0)))
    lost = read_people(message.fill(1, np.full((2, 2), np.nan), np.zeros((2, 2)), np.ones(2)))
    for found in (nobody, lost):
        assert found.keys() == NOBODY.keys()
        assert found["people_position"].tolist() == [[1000.0, 0.0, 0.0]] and found["people_radius"].tolist() == [0.01]
    assert len(nobody["people_radius"]) == DYNAMIC["people"]
    with pytest.raises(ValueError, match="read-only"):
        NOBODY["people_velocity"][0, 0] = 1.0


def test_a_plain_cloud_is_people_who_stand() -> None:
    found = read_people(CloudMessage("odom").fill(1, np.array([[1.0, 2.0, 3.0]])))
    assert found["people_position"].tolist() == [[1.0, 2.0, 3.0]]
    assert not found["people_velocity"].any() and found["people_radius"].tolist() == [RADIUS_M]


def test_what_is_no_people_is_refused_by_name() -> None:
    message = PeopleMessage("base_link").fill(1, np.zeros((1, 2)), np.zeros((1, 2)), np.ones(1))
    with pytest.raises(ValueError, match="in the frame 'base_link': transform it and give it in odom"):
        read_people(message)
    with pytest.raises(ValueError, match="no field 'x'"):
        read_people(topics.type_of(topics.PEOPLE)())
    message.header.frame_id, message.fields[0].datatype = "odom", 0
    with pytest.raises(ValueError, match="'x' has no number type"):
        read_people(message)
    with pytest.raises(ValueError, match=r"must be \(people, 2 or"):
        PeopleMessage().fill(1, np.zeros((2, 2)), np.zeros((1, 2)), np.ones(2))


def test_a_reader_gives_what_is_asked_for() -> None:
    data = serialize_message(PeopleMessage().fill(9, np.ones((2, 2)), np.zeros((2, 2)), np.ones(2)))
    signals = [SENSED["people_radius"], SENSED["people_position"]]
    read = topic_reader(signals[0].type, {signal.name: signal.field for signal in signals})
    stamp, found = read(data)
    assert stamp == 9 and found.keys() == {"people_radius", "people_position"}


def test_people_are_extrapolated_by_their_velocity() -> None:
    position, velocity = np.zeros((2, 3, 3)), np.ones((2, 3, 3))
    found = extrapolated(position, velocity, np.array([0.2, -1.0]))  # a stamp from the future counts as now
    assert np.allclose(found[0], 0.2) and np.allclose(found[1], 0.0)
    assert np.allclose(extrapolated(position[0], velocity[0], 0.5), 0.5)
