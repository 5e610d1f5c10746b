"""Limits and timeouts of a quadrotor's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.guard.config import GuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class QuadrotorGuardConfig(GuardConfig):
    """Limits and timeouts of the guard; create it with :meth:`from_robot`.

    After ``observation_timeout_s`` without an observation the motors stop.
    """

    tilt_rad: float = value(unit="rad", above=0.0, at_most=3.15)
    linear_velocity_m_s: float = value(unit="m/s", above=0.0)
    angular_velocity_rad_s: float = value(unit="rad/s", above=0.0)
    rotor_acceleration_rad_s2: float = value(unit="rad/s^2", above=0.0)
    """Fastest change of a published rotor speed command."""
    geofence_min_m: tuple[float, float, float] = value(unit="m")
    geofence_max_m: tuple[float, float, float] = value(unit="m")
    reaction_s: float = value(0.2, unit="s", at_least=0.0)
    braking_m_s2: float = value(6.0, unit="m/s^2", above=0.0)
    """Reaction time and deceleration (of the hover controller) of a stop: the fence counts as violated, except
    downward, when the robot could no longer stop inside it."""
    staleness_periods: float = value(2.0, unit="control periods", at_least=1.0)
    """Age at which a policy's command is stale, and the longest a policy may be silent."""
    hover_before_landing_s: float = value(5.0, unit="s", at_least=0.0)
    takeoff_height_m: float = value(1.0, unit="m", above=0.0)
    """Height above the place of arming."""
    takeoff_speed_m_s: float = value(0.5, unit="m/s", above=0.0)
    takeoff_tolerance_m: float = value(0.15, unit="m", above=0.0)
    """Distance from the take-off height at which the policy takes over."""
    airborne_height_m: float = value(0.2, unit="m", above=0.0)
    """Armed higher than this over ``floor_m``, the robot is already flying and the policy takes over at once."""
    floor_m: float = value(0.0, unit="m")
    """Height of the floor in the ``odom`` frame."""
    landing_speed_m_s: float = value(0.3, unit="m/s", above=0.0)
    tumble_s: float = value(1.0, unit="s", above=0.0)
    """Motors stop when the robot lies on its side or back for this long while the guard flies it."""

    def __post_init__(self) -> None:
        for low, high in zip(self.geofence_min_m, self.geofence_max_m):
            if low >= high:
                raise ValueError(
                    f"geofence_max_m: {list(self.geofence_max_m)} is not allowed: every number must be above"
                    f" geofence_min_m ({list(self.geofence_min_m)})."
                )

    @property
    def staleness_s(self) -> float:
        """Age at which a command is stale."""
        return self.staleness_periods / self.control_rate_hz

    @classmethod
    def limits_of(cls, robot: Quadrotor) -> dict[str, Any]:
        """Return the limits of the robot file."""
        limits = robot.limits
        return {
            "tilt_rad": limits.tilt_rad,
            "linear_velocity_m_s": limits.linear_velocity_m_s,
            "angular_velocity_rad_s": limits.angular_velocity_rad_s,
            "rotor_acceleration_rad_s2": limits.rotor_acceleration_rad_s2,
            "geofence_min_m": limits.geofence_min_m,
            "geofence_max_m": limits.geofence_max_m,
        }
