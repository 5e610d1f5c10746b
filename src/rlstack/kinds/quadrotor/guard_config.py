"""Limits and timeouts of a quadrotor's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rlstack.guard.config import GuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor, QuadrotorLimits
from rlstack.schema import value

_TETHERED_TILT_RAD = 0.7
"""A tether does not limit the tilt further: a policy tilts so far to reach a goal a few decimetres away."""
_ABOVE_TAKEOFF_M = 0.5
"""How far the ceiling of a tethered robot is above the height that it takes off to, at least."""
_LANDING_S = 5.0
"""What a landing may take besides the descent: to slow down, a floor up to 1 m lower, and to notice the floor."""


@dataclass(frozen=True, kw_only=True)
class QuadrotorGuardConfig(QuadrotorLimits, GuardConfig):
    """Limits and timeouts of a quadrotor's guard; create it with :meth:`from_robot`.

    After ``observation_timeout_s`` without an observation the policy is out, after ``blind_s`` the motors stop.
    """

    RAISED: ClassVar[frozenset[str]] = frozenset({"clearance_m"})
    TETHERED: ClassVar[frozenset[str]] = frozenset(
        {"tilt_rad", "linear_velocity_m_s", "angular_velocity_rad_s", "geofence_min_m", "geofence_max_m"}
    )
    """Not the change of rotor speeds: the fallback flies with it, too."""

    reaction_s: float = value(0.2, unit="s", at_least=0.0)
    braking_m_s2: float = value(6.0, unit="m/s^2", above=0.0)
    """Reaction time and deceleration (of the hover controller) of a stop: the fence counts as violated, except
    downward, when the robot could no longer stop inside it."""
    protective_stop: bool = value(
        True, text="Whether to brake for obstacles that the lidar called scan, or a quadrotor's depth camera, detects"
    )
    clearance_m: float = value(
        0.15, unit="m", at_least=0.0, text="Clearance that the protective stop keeps around the robot"
    )
    """What a hovering quadrotor may stray, and the errors of odometry and depth."""
    staleness_periods: float = value(
        2.0, unit="control periods", at_least=1.0, text="Age at which a policy's command is stale"
    )
    hover_before_landing_s: float = value(
        5.0, unit="s", at_least=0.0, text="How long the fallback hovers before it lands"
    )
    takeoff_height_m: float = value(
        1.0, unit="m", above=0.0, text="Height above the place of arming at which the policy takes over"
    )
    takeoff_speed_m_s: float = value(0.5, unit="m/s", above=0.0)
    takeoff_tolerance_m: float = value(0.15, unit="m", above=0.0)
    """Distance from the take-off height at which the policy takes over."""
    airborne_height_m: float = value(0.2, unit="m", above=0.0)
    """Armed higher than this over ``floor_m``, the robot is already flying and the policy takes over at once."""
    floor_m: float = value(0.0, unit="m", text="Height of the floor in odom")
    landing_speed_m_s: float = value(0.3, unit="m/s", above=0.0, text="Descent speed of the fallback")
    turn_back_share: float = value(
        0.95, unit="1", above=0.0, at_most=1.0, text="Share of a limit from which the guard turns the robot back"
    )
    turn_backs: int = value(3, unit="", at_least=0, text="Turn-backs within turn_backs_s that end the policy's flight")
    turn_backs_s: float = value(20.0, unit="s", at_least=0.0, text="Time over which turn-backs are counted")
    overrun: float = value(1.25, unit="1", at_least=1.0)
    """Beyond this many times a limit the policy has lost control and does not get it back."""
    inside_m: float = value(0.3, unit="m", at_least=0.0)
    """How far inside the fence a robot that was turned back stops."""
    blind_s: float = value(
        0.3,
        unit="s",
        at_least=0.0,
        text="How long after the last valid observation the fallback flies on a prediction before the motors stop",
    )
    """Predicted attitude drifts: a torque of 1% of the weight times the arm tilts a Crazyflie by 0.9 rad in this time,
    from which it recovers when observations return, and by 2.4 rad in half a second."""
    jump_m: float = value(
        0.1, unit="m", above=0.0, text="Odometry further than this from where its speed leads has jumped"
    )
    jump_m_s: float = value(1.0, unit="m/s", above=0.0)
    jump_rad: float = value(
        0.35, unit="rad", above=0.0, text="A heading further than this from where its speed leads has jumped"
    )
    """Margins over what the robot can do between two observations: noise, and how exact stamps are."""
    frozen_observations: int = value(
        5,
        unit="",
        at_least=0,
        text="Equal observations in a row in flight that count as frozen odometry; 0: none do",
    )
    """To the last bit: noise, and a hover that is not perfectly still, change at least one."""
    tumble_s: float = value(1.0, unit="s", above=0.0)
    """Motors stop when the robot lies on its side or back for this long while the guard flies it."""

    def landing_s(self, height_m: float) -> float:
        """Return the longest time that a landing from a height above the floor takes, s."""
        return max(height_m, 0.0) / self.landing_speed_m_s + _LANDING_S

    def _scaled(self, name: str, limit: Any, share: float) -> Any:
        scaled = super()._scaled(name, limit, share)
        if name == "tilt_rad":
            return max(scaled, _TETHERED_TILT_RAD)
        if name == "geofence_min_m":  # odometry errs below the floor as it did before
            return (*scaled[:2], limit[2])
        if name == "geofence_max_m":
            return (*scaled[:2], max(scaled[2], self.floor_m + self.takeoff_height_m + _ABOVE_TAKEOFF_M))
        return scaled

    @property
    def rest_within_s(self) -> float:
        """Longest time from :meth:`rlstack.guard.guard.Guard.end` until the robot is off, s: from the fence's top."""
        return self.landing_s(self.geofence_max_m[2] - self.floor_m)

    @classmethod
    def values_for(cls, robot: Quadrotor) -> dict[str, Any]:
        """Return the control rate, and the battery's cells where the robot file has them."""
        cells = {} if robot.battery is None else {"battery_cells": robot.battery.cells}
        return {**super().values_for(robot), **cells}

    @property
    def oldest_observation_s(self) -> float:
        """Age beyond which an observation is refused: the fallback makes up for what it can predict."""
        return max(self.blind_s, self.observation_timeout_s)

    @property
    def staleness_s(self) -> float:
        """Age at which a command is stale."""
        return self.staleness_periods / self.control_rate_hz
