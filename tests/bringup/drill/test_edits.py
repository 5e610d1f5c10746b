"""Edits of a robot's messages."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("rclpy")

import numpy as np

from rlstack.bringup.drill.kind_drill import drill_of
from rlstack.interfaces.rates_messages import RatesMessage
from rlstack.kinds.quadrotor.spec import load_quadrotor


def test_rates_become_nonsense_or_far_beyond_their_range_and_off_stays_off() -> None:
    drill, message = drill_of(load_quadrotor("racer_rates")), RatesMessage()
    assert set(drill.command_edits) == {"nan", "beyond"}
    for name, edit in drill.command_edits.items():
        sent = message.fill(1, np.array([0.1, 0.2, 0.3, 9.81]))
        edit(sent)
        roll = sent.twist.angular.x
        assert math.isnan(roll) if name == "nan" else roll > 100.0
        assert (sent.twist.angular.y, sent.twist.linear.z) == (0.2, 9.81)
        off = message.fill_off(2)
        edit(off)
        assert (off.twist.angular.x, off.twist.linear.z) == (0.0, -1.0)
