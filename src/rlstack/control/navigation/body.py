"""A base as planners see it: discs that cover its footprint, limits on speed, turning and braking, lidars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from rlstack.errors import UserError
from rlstack.robots import Lidar, RobotSpec

if TYPE_CHECKING:
    from rlstack.kinds.wheeled_base.spec import WheeledBase

_LAGS = ("linear_time_constant_s", "angular_time_constant_s")


@dataclass(frozen=True, kw_only=True)
class Body:
    """What planners need to know of a base."""

    name: str
    drive: str
    """``differential``, ``ackermann`` or ``holonomic``."""
    discs: tuple[tuple[float, float, float], ...]
    """x, y of the centre in ``base_link`` and radius, m; together they cover the footprint."""
    reach_m: float
    """Of the circle around ``base_link`` that holds all of it: what it needs to turn on the spot."""
    speed_m_s: float
    turning_rad_s: float
    acceleration_m_s2: float
    angular_acceleration_rad_s2: float
    curvature_per_m: float
    """Largest, of an Ackermann base's reference point; infinite for those that turn on the spot."""
    wheelbase_m: float
    """Of an Ackermann base; 0 for others."""
    delay_s: float
    """Until it does most of what it is commanded: delay and lag of the command, in the middle of their ranges."""
    slowest_s: float
    """The same, at the upper ends of their ranges."""
    lidars: dict[str, Lidar]

    @property
    def radius_m(self) -> float:
        """Of the largest disc: no path may come closer to anything."""
        return max(radius for _, _, radius in self.discs)

    @staticmethod
    def of(spec: RobotSpec) -> Body:
        """Return the body of a wheeled base.

        Raises:
            UserError: It is another kind of robot.
        """
        if not spec.is_mobile_base:
            raise UserError(f"Planners drive wheeled bases, but {spec.name} is of kind {spec.kind}.")
        robot = cast("WheeledBase", spec)
        limits, response = robot.limits, robot.response
        curvature, wheelbase = _steering(robot)
        late = [
            response.range_of("command_delay_s")[k] + max(response.range_of(lag)[k] for lag in _LAGS) for k in (0, 1)
        ]
        return Body(
            name=robot.name,
            drive=robot.drive,
            discs=robot.footprint,
            reach_m=robot.radius_m,
            speed_m_s=limits.linear_velocity_m_s,
            turning_rad_s=limits.angular_velocity_rad_s,
            acceleration_m_s2=limits.linear_acceleration_m_s2,
            angular_acceleration_rad_s2=limits.angular_acceleration_rad_s2,
            curvature_per_m=curvature,
            wheelbase_m=wheelbase,
            delay_s=0.5 * (late[0] + late[1]),
            slowest_s=late[1],
            lidars=dict(robot.lidars),
        )

    def lidar(self, name: str = "scan") -> Lidar:
        """Return the lidar of that name.

        Raises:
            UserError: The robot has none, or it has several rings.
        """
        if name not in self.lidars:
            raise UserError(
                f"The robot {self.name} has no lidar '{name}' to plan with: add one under 'lidars' in its robot file."
            )
        lidar = self.lidars[name]
        if lidar.rings != 1:
            raise UserError(f"The lidar '{name}' of {self.name} has {lidar.rings} rings, but planning wants one.")
        return lidar


def _steering(robot: WheeledBase) -> tuple[float, float]:
    if robot.steering is None:
        return math.inf, 0.0
    steered = float(np.mean([wheel.position_m[0] for wheel in robot.wheels if wheel.steering]))
    wheelbase = abs(steered - robot.axle_m)
    return math.tan(robot.steering.position_max_rad) / wheelbase, wheelbase
