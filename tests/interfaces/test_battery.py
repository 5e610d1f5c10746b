from __future__ import annotations

import math

import pytest
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import messages, topics
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED

NAMES = ("battery_voltage", "battery_current", "battery_percentage")


def test_a_battery_is_read_by_its_signals() -> None:
    filler = messages.BatteryMessage(topics.type_of(topics.BATTERY)())
    data = serialize_message(filler.fill(9, 3.75, -8.5, 0.5))
    stamp, signals = SignalReader(type(filler.message), {name: SENSED[name].field for name in NAMES})(data)
    assert stamp == 9
    assert [signals[name].tolist() for name in NAMES] == [[3.75], [-8.5], [0.5]]


def test_what_is_not_measured_is_nan() -> None:
    filler = messages.BatteryMessage(topics.type_of(topics.BATTERY)())
    message = filler.fill(0, 4.0)
    got = deserialize_message(serialize_message(message), type(message))
    assert got.present and got.power_supply_status == got.POWER_SUPPLY_STATUS_UNKNOWN
    for name in ("current", "percentage", "temperature", "charge", "capacity", "design_capacity"):
        assert math.isnan(getattr(got, name)), name


@pytest.mark.parametrize(
    ("current", "percentage", "status"),
    [(-1.0, 0.9, "DISCHARGING"), (0.0, 1.0, "FULL"), (0.0, 0.9, "UNKNOWN"), (-1.0, 1.0, "DISCHARGING")],
)
def test_it_says_what_the_battery_does(current: float, percentage: float, status: str) -> None:
    message = messages.BatteryMessage(topics.type_of(topics.BATTERY)()).fill(0, 4.0, current, percentage)
    assert message.power_supply_status == getattr(message, f"POWER_SUPPLY_STATUS_{status}")
