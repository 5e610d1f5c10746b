"""Wheeled bases on the common topics: joints by name, and a twist."""

from __future__ import annotations

from rlstack.interfaces.kind_signals import KindSignals, Range
from rlstack.kinds.wheeled_base.spec import WheeledBase


class WheeledBaseSignals(KindSignals):
    """See :class:`rlstack.interfaces.kind_signals.KindSignals`; steering joints come before their wheels."""

    def command(self, robot: WheeledBase) -> str:
        """Return the twist's name."""
        return "planar_twist" if robot.drive == "holonomic" else "twist"

    def command_range(self, robot: WheeledBase, name: str) -> Range | None:
        """Return the range of a waypoint, m: the geofence; or of the twist, m/s and rad/s.

        A holonomic base's twist has a sideways component.
        """
        if name == "waypoint":
            low, high = robot.limits.geofence_min_m, robot.limits.geofence_max_m
            return (low[0], low[1], -1.0), (high[0], high[1], 1.0)
        if name != self.command(robot):
            return None
        speed, turn = robot.limits.linear_velocity_m_s, robot.limits.angular_velocity_rad_s
        most = (speed, speed, turn) if robot.drive == "holonomic" else (speed, turn)
        return tuple(-x for x in most), most


SIGNALS = WheeledBaseSignals()
