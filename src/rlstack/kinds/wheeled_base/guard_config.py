"""Limits and timeouts of a wheeled base's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError
from rlstack.guard.config import GuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.schema import value

SCAN = "scan"
"""Name of the protective stop's lidar in the robot file."""

_SCAN_PERIODS = 2.5


@dataclass(frozen=True, kw_only=True)
class WheeledBaseGuardConfig(GuardConfig):
    """Limits and timeouts of a wheeled base's guard; create it with :meth:`from_robot`."""

    linear_velocity_m_s: float = value(unit="m/s", above=0.0)
    angular_velocity_rad_s: float = value(unit="rad/s", above=0.0)
    """Commands beyond these are limited to them."""
    linear_acceleration_m_s2: float = value(unit="m/s^2", above=0.0)
    angular_acceleration_rad_s2: float = value(unit="rad/s^2", above=0.0)
    """Fastest change of a published command, also when the guard brakes."""
    geofence_min_m: tuple[float, float] = value(unit="m")
    geofence_max_m: tuple[float, float] = value(unit="m")
    overspeed: float = value(1.5, unit="1", at_least=1.0)
    """Measured speeds beyond this many times the limit are a fault: a push, a slope, a runaway wheel."""
    tilt_rad: float = value(0.35, unit="rad", above=0.0, at_most=3.15)
    """20 degrees: steeper than a ramp for wheelchairs (5 degrees), not yet where an indoor base tips over."""
    reaction_s: float = value(0.25, unit="s", at_least=0.0)
    """How long the robot keeps its motion until braking begins: a period of scan or command, and their latency."""
    clearance_m: float = value(0.02, unit="m", at_least=0.0)
    """Clearance that the protective stop keeps around the robot."""
    protective_stop: bool = True
    """Whether to brake for obstacles in the scan, if the robot file has a lidar called ``scan``."""
    scan_timeout_s: float = value(0.5, unit="s", above=0.0)
    """Age at which a scan expires; without a newer one the robot stops."""
    jump_factor: float = value(1.5, unit="1", at_least=1.0)
    jump_m: float = value(0.1, unit="m", above=0.0)
    jump_rad: float = value(0.35, unit="rad", above=0.0)
    """Odometry has jumped when it moved further than its speed times the time times ``jump_factor``, plus this."""
    staleness_s: float = value(0.25, unit="s", above=0.0)
    """Age at which a policy's command is stale, and the longest a policy may be silent: 2.5 periods at 10 Hz."""
    stand_before_disarming_s: float = value(10.0, unit="s", at_least=0.0)
    """How long a stopped robot waits for a policy that was late."""

    def __post_init__(self) -> None:
        if any(low >= high for low, high in zip(self.geofence_min_m, self.geofence_max_m)):
            raise ValueError(
                f"geofence_max_m: {list(self.geofence_max_m)} is not allowed: both numbers must be above"
                f" geofence_min_m ({list(self.geofence_min_m)})."
            )

    @classmethod
    def limits_of(cls, robot: WheeledBase) -> dict[str, Any]:
        """Return the limits of the robot file.

        Raises:
            UserError: The base is holonomic, which the guard does not support.
        """
        if robot.drive == "holonomic":
            raise UserError(f"The guard supports bases that drive and turn, but {robot.name} is holonomic.")
        limits = robot.limits
        return {
            "linear_velocity_m_s": limits.linear_velocity_m_s,
            "angular_velocity_rad_s": limits.angular_velocity_rad_s,
            "linear_acceleration_m_s2": limits.linear_acceleration_m_s2,
            "angular_acceleration_rad_s2": limits.angular_acceleration_rad_s2,
            "geofence_min_m": limits.geofence_min_m,
            "geofence_max_m": limits.geofence_max_m,
        }

    @classmethod
    def values_for(cls, robot: WheeledBase) -> dict[str, Any]:
        """Return the control rate, and the lifetime of a scan of the robot's lidar."""
        scan = {"scan_timeout_s": _SCAN_PERIODS / robot.lidars[SCAN].rate_hz} if SCAN in robot.lidars else {}
        return {**super().values_for(robot), **scan}
