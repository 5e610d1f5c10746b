"""Body rates and thrust on their topic."""

from __future__ import annotations

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from rlstack.errors import MalformedMessage
from rlstack.interfaces.rates_messages import RatesMessage, RatesReader


def test_a_command_arrives_as_it_was_sent() -> None:
    message, read = RatesMessage("cf1/base_link"), RatesReader()
    sent = message.fill(7_000_000_001, np.array([0.1, -0.2, 0.3, 9.81]))
    assert sent.header.frame_id == "cf1/base_link"
    stamp, command = read(serialize_message(sent))
    assert stamp == 7_000_000_001 and command["rates_thrust"].tolist() == [0.1, -0.2, 0.3, 9.81]


def test_a_thrust_below_zero_stops_the_motors_and_zero_does_not() -> None:
    message, read = RatesMessage(), RatesReader()
    assert read(serialize_message(message.fill_off(5))) == (5, {})
    _, idle = read(serialize_message(message.fill(5, np.zeros(4))))
    assert idle["rates_thrust"].tolist() == [0.0] * 4


def test_what_is_cut_off_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        RatesReader()(serialize_message(RatesMessage().fill(5, np.zeros(4)))[:40])
