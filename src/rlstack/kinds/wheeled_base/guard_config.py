"""Limits and timeouts of a wheeled base's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.guard.config import GuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase, WheeledBaseLimits
from rlstack.schema import value

SCAN = "scan"
"""Name of the protective stop's lidar in the robot file."""

_SCAN_PERIODS, _USUAL_HZ = 2.5, 5.0

_ROLLS_OUT_S = 2.0
"""How long a base may take to stand once it is commanded to."""
_LONGEST_S = 0.1
"""A period of base policies, which may be slower than the base."""


@dataclass(frozen=True, kw_only=True)
class WheeledBaseGuardConfig(WheeledBaseLimits, GuardConfig):
    """Limits and timeouts of a wheeled base's guard; create it with :meth:`from_robot`.

    Commands beyond the limits of speed are limited to them; those of acceleration hold when the guard brakes, too.
    """

    RAISED: ClassVar[frozenset[str]] = frozenset({"clearance_m"})
    TETHERED: ClassVar[frozenset[str]] = frozenset(
        {
            *("linear_velocity_m_s", "angular_velocity_rad_s", "linear_acceleration_m_s2"),
            *("angular_acceleration_rad_s2", "linear_jerk_m_s3", "angular_jerk_rad_s3"),
            *("geofence_min_m", "geofence_max_m"),
        }
    )
    """Not the tilt, at which a base tips over: no command chooses it."""

    linear_jerk_m_s3: float = value(
        unit="m/s^3", above=0.0, text="Fastest change of the acceleration while the commanded speed grows"
    )
    angular_jerk_rad_s3: float = value(
        unit="rad/s^3", above=0.0, text="Fastest change of the acceleration while the commanded angular velocity grows"
    )
    """Slowing down is never delayed: a stopping distance depends on the acceleration alone. By default the whole
    acceleration is there within a control period: policies are trained and verified without a limit of jerk, and
    controllers such as ros2_controllers' have none by default."""
    overspeed: float = value(
        1.5, unit="1", at_least=1.0, text="Measured speeds beyond this many times the limit are a fault"
    )
    """Such as a push, a slope or a runaway wheel."""
    tilt_rad: float = value(0.35, unit="rad", above=0.0, at_most=3.15, text="Largest tilt")
    """20 degrees: steeper than a ramp for wheelchairs (5 degrees), not yet where an indoor base tips over."""
    reaction_s: float = value(
        0.25, unit="s", at_least=0.0, text="How long the robot keeps its motion until braking begins"
    )
    """A period of scan or command, and their latency."""
    clearance_m: float = value(
        0.02, unit="m", at_least=0.0, text="Clearance that the protective stop keeps around the robot"
    )
    protective_stop: bool = value(
        True, text="Whether to brake for obstacles that the lidar called scan, or a quadrotor's depth camera, detects"
    )
    scan_timeout_s: float = value(unit="s", above=0.0, text="Age at which a scan expires (2.5 turns of the lidar)")
    jump_factor: float = value(1.5, unit="1", at_least=1.0)
    jump_m: float = value(
        0.1, unit="m", above=0.0, text="Odometry further than this from where its speed leads has jumped"
    )
    jump_rad: float = value(
        0.35, unit="rad", above=0.0, text="A heading further than this from where its speed leads has jumped"
    )
    """Odometry has jumped when it moved further than its speed times the time times ``jump_factor``, plus this."""
    jump_m_s: float = value(
        0.2,
        unit="m/s",
        above=0.0,
        text="Odometry whose speed grows by more than tyres can give, plus this, has jumped",
    )
    staleness_s: float = value(0.25, unit="s", above=0.0, text="Age at which a policy's command is stale")
    """2.5 periods at 10 Hz."""
    stand_before_disarming_s: float = value(
        10.0, unit="s", at_least=0.0, text="How long a stopped robot waits for a policy that was late"
    )

    @property
    def longest_s(self) -> float:
        """Longest time whose change of speed one command may cover."""
        return max(self.period_s, _LONGEST_S)

    @property
    def rest_within_s(self) -> float:
        """Longest time from :meth:`rlstack.guard.guard.Guard.end` until the base is off, s: it brakes and rolls out."""
        turning_s = self.angular_velocity_rad_s / self.angular_acceleration_rad_s2
        return max(self.linear_velocity_m_s / self.linear_acceleration_m_s2, turning_s) + _ROLLS_OUT_S

    @classmethod
    def limits_of(cls, robot: WheeledBase) -> dict[str, Any]:
        """Return the limits of the robot file.

        Raises:
            UserError: The base is holonomic, which the guard does not support.
        """
        if robot.drive == "holonomic":
            raise UserError(f"The guard supports bases that drive and turn, but {robot.name} is holonomic.")
        return {name: limit for name, limit in super().limits_of(robot).items() if limit is not None}

    @classmethod
    def values_for(cls, robot: WheeledBase) -> dict[str, Any]:
        """Return the control rate, the lifetime of a scan of the robot's lidar, and limits of jerk."""
        rate_hz = robot.lidars[SCAN].rate_hz if SCAN in robot.lidars else _USUAL_HZ
        return {
            **super().values_for(robot),
            "scan_timeout_s": _SCAN_PERIODS / rate_hz,
            "linear_jerk_m_s3": robot.limits.linear_acceleration_m_s2 * robot.control_rate_hz,
            "angular_jerk_rad_s3": robot.limits.angular_acceleration_rad_s2 * robot.control_rate_hz,
        }
