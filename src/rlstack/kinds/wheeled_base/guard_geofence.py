"""Geofence of a wheeled base: slows it so that it can stop inside, and lets it drive back in from outside."""

from __future__ import annotations

import math

from rlstack.guard.observation import Observation
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase

MARGIN_M = 0.02
"""Distance from the fence at which a base stops: more than the noise of its odometry, less than a goal's tolerance."""

RETURN_M = 1.0
"""A base further outside is not armed: it was not pushed there, its odometry or the fence is of another place."""

_DRIFT_M = 0.05
"""How much further out an armed base may be measured on its way back, by slip and noise."""

_LAG_S = 0.35
"""At least this much is expected of delay and lag: 0.1 and 0.15 s, as in the TurtleBot3's ranges, and a period in which
a base that is late still turns towards the fence."""

_FURTHER_M = 1e-6
_STEPS = 8
"""Number of checked points on the way to a standstill."""


class Geofence:
    """Checks places and motions against the box, for the point of the base that twists refer to (the axle's middle).

    A motion is predicted until the base has reacted and braked to a standstill on the same curve. It is blocked if it
    leads outside, or further outside than the base is: driving back in and turning on the spot never are.

    Args:
        robot: Its axle, and how late it follows commands at most.
        config: The box, reaction time and braking.
    """

    def __init__(self, robot: WheeledBase, config: WheeledBaseGuardConfig) -> None:
        self.config = config
        """The box and braking."""
        self._axle_m = robot.axle_m
        lag_s = sum(robot.response.range_of(name)[1] for name in ("command_delay_s", "linear_time_constant_s"))
        self._reaction_s = max(config.reaction_s, config.longest_s + max(lag_s, _LAG_S))
        self._tolerated = [0.0, 0.0]  # m outside, by axis

    def begin(self, seen: Observation) -> None:
        """Let a base that is armed outside drive back in."""
        out = self._outside(*self._place(seen))
        near = max(out) <= RETURN_M
        self._tolerated = [o + _DRIFT_M if near and o > 0.0 else 0.0 for o in out]

    def move(self, config: WheeledBaseGuardConfig, seen: Observation | None) -> None:
        """Take another box, and let a base that is outside of it now stop and drive back in."""
        before, self.config = self.config, config
        same = (before.geofence_min_m, before.geofence_max_m) == (config.geofence_min_m, config.geofence_max_m)
        if seen is not None and not same:
            self._tolerated = self._stops_within(seen)

    def follow(self, seen: Observation) -> None:
        """Tighten what is tolerated of a base that comes back in."""
        if any(self._tolerated):
            self._tolerated = list(map(min, self._tolerated, self._stops_within(seen)))

    def _stops_within(self, seen: Observation) -> list[float]:
        """Return how far outside a base may be measured until it stands, m, by axis; 0 where it is inside."""
        speed = math.hypot(*seen.linear_velocity[:2])
        way_s = self._reaction_s + 0.5 * speed / self.config.linear_acceleration_m_s2
        place, found = self._place(seen), []
        corners = zip(place, seen.linear_velocity, self.config.geofence_min_m, self.config.geofence_max_m)
        for out, (p, v, low, high) in zip(self._outside(*place), corners):
            outward = v if 2.0 * p > low + high else -v
            found.append(out + _DRIFT_M + max(0.0, outward) * way_s if out > 0.0 else 0.0)
        return found

    def broken(self, seen: Observation) -> str:
        """Return where the base is outside, and what to do; empty if it is inside or on its way back."""
        place = self._place(seen)
        for axis, p, out, tolerated in zip("xy", place, self._outside(*place), self._tolerated):
            if out <= tolerated:
                continue
            found = f"{axis} = {p:.2f} m is outside the geofence, {self._side(axis)}"
            if out > RETURN_M:
                return (
                    f"{found}, by more than {RETURN_M:g} m: move it back, or give the fence of this place"
                    " (geofence_min_m, geofence_max_m)"
                )
            return f"{found}: move it back, or arm it and drive it back inside (only motion towards the inside passes)"
        return ""

    def left_by(self, seen: Observation, speed: float, turning: float) -> str:
        """Return the side of the fence that a motion would cross before the base stands, or an empty string.

        Args:
            seen: The base's pose.
            speed: m/s, negative backwards.
            turning: rad/s.
        """
        way_m = abs(speed) * (self._reaction_s + 0.5 * abs(speed) / self.config.linear_acceleration_m_s2)
        x, y = self._place(seen)
        now = self._outside(x, y, MARGIN_M)
        if not way_m or max(now) < -way_m:
            return ""
        most = [max(out, 0.0) + _FURTHER_M for out in now]
        for k in range(1, _STEPS + 1):
            along = way_m * k / _STEPS
            angle = turning * along / abs(speed)
            chord = along * math.copysign(_sinc(0.5 * angle), speed)
            heading = seen.yaw_rad + 0.5 * angle
            then = self._outside(x + chord * math.cos(heading), y + chord * math.sin(heading), MARGIN_M)
            for axis, out, limit, before in zip("xy", then, most, now):
                if out > limit:
                    return f"the geofence, {self._side(axis)}, is {max(0.0, MARGIN_M - before):.2f} m away"
        return ""

    def _place(self, seen: Observation) -> tuple[float, float]:
        x, y = seen.position[:2]
        return x + self._axle_m * math.cos(seen.yaw_rad), y + self._axle_m * math.sin(seen.yaw_rad)

    def _outside(self, x: float, y: float, margin_m: float = 0.0) -> list[float]:
        """Return how far a point is outside the box less a margin along x and y, m; negative inside."""
        config = self.config
        return [
            max(low + margin_m - p, p - high + margin_m)
            for p, low, high in zip((x, y), config.geofence_min_m, config.geofence_max_m)
        ]

    def _side(self, axis: str) -> str:
        k = "xy".index(axis)
        return f"{axis} from {self.config.geofence_min_m[k]:.2f} to {self.config.geofence_max_m[k]:.2f} m"


def _sinc(angle: float) -> float:
    return math.sin(angle) / angle if abs(angle) > 1e-9 else 1.0
