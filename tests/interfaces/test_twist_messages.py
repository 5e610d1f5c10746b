"""Twists there and back, stamped and plain, and what is made of other robots' ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED
from rlstack.interfaces.twist_messages import TwistMessage, TwistReader

FLOATS = st.floats(-1e6, 1e6)


@settings(deadline=None, max_examples=30)
@given(FLOATS, FLOATS, FLOATS, st.integers(1, 2**31 * 10**9 - 1))
def test_there_and_back(x: float, y: float, turn: float, stamp: int) -> None:
    for plain in (False, True):
        message = TwistMessage("base_link", plain=plain)
        data = serialize_message(message.fill(stamp, np.array([x, y, turn])))
        assert TwistReader("planar_twist", plain=plain)(data)[1]["planar_twist"].tolist() == [x, y, turn]
        came, signals = TwistReader(plain=plain)(data)
        assert signals["twist"].tolist() == [x, turn] and came == (None if plain else stamp)
        assert message.fill(stamp, np.array([x, turn])).__class__ is message.type


def test_what_is_left_over_from_the_last_command_does_not_stay() -> None:
    message = TwistMessage()
    message.fill(1, np.array([1.0, 2.0, 3.0]))
    data = serialize_message(message.fill(2, np.array([4.0, 5.0])))
    assert TwistReader("planar_twist")(data)[1]["planar_twist"].tolist() == [4.0, 0.0, 5.0]
    assert message.message.header.frame_id == "base_link"


def test_a_stamp_of_zero_is_none_and_another_shape_is_refused() -> None:
    data = serialize_message(TwistMessage().fill(0, np.array([1.0, 2.0])))
    assert TwistReader()(data)[0] is None
    with pytest.raises(ValueError, match=r"must be \(2,\) or \(3,\)"):
        TwistMessage().fill(0, np.zeros(4))


@pytest.mark.parametrize("name", ["twist", "planar_twist"])
def test_the_catalogue_says_the_same(name: str) -> None:
    message = TwistMessage()
    data = serialize_message(message.fill(7, np.array([1.0, 2.0, 3.0])))
    read = SignalReader(message.type, {name: COMMANDED[name].field})
    assert read(data)[1][name].tolist() == TwistReader(name)(data)[1][name].tolist()
