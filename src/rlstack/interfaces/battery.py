"""Batteries: ``sensor_msgs/BatteryState`` from signals."""

from __future__ import annotations

import math
from typing import Any

from rlstack.interfaces.messages import set_stamp

_UNKNOWN, _DISCHARGING, _FULL = 0, 2, 4
"""Of ``power_supply_status``."""
_UNMEASURED = ("temperature", "charge", "capacity", "design_capacity")


class BatteryMessage:
    """One BatteryState that is filled again; what is not measured is NaN, as the message asks.

    Args:
        message: An empty ``sensor_msgs/BatteryState``.
    """

    def __init__(self, message: Any) -> None:
        self.message = message
        message.present = True
        for name in _UNMEASURED:
            setattr(message, name, math.nan)

    def fill(self, stamp_ns: int, voltage: float, current: float = math.nan, percentage: float = math.nan) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: When it was measured.
            voltage: V.
            current: A, below 0 while it discharges.
            percentage: 0 to 1.
        """
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        message.voltage, message.current, message.percentage = voltage, current, percentage
        message.power_supply_status = _DISCHARGING if current < 0.0 else _FULL if percentage >= 1.0 else _UNKNOWN
        return message
