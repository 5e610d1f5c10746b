"""The planners' model of a base: discs that cover its footprint, limits on speed, turning and braking, lidars."""

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
class BaseModel:
    """Properties of a base that planners use."""

    name: str
    drive: str
    """``differential``, ``ackermann`` or ``holonomic``."""
    discs: tuple[tuple[float, float, float], ...]
    """x, y of the centre in ``base_link`` and radius, m; together they cover the footprint."""
    reach_m: float
    """Radius of the circle around ``base_link`` that contains the base: the room to turn on the spot."""
    speed_m_s: float
    turning_rad_s: float
    acceleration_m_s2: float
    angular_acceleration_rad_s2: float
    curvature_per_m: float
    """Largest curvature of an Ackermann base's path; infinite for bases that turn on the spot."""
    wheelbase_m: float
    """Of an Ackermann base; 0 for others."""
    delay_s: float
    """Response time to a command: delay and lag, at the middle of their ranges."""
    slowest_s: float
    """The same, at the upper ends of their ranges."""
    lidars: dict[str, Lidar]

    @property
    def radius_m(self) -> float:
        """Radius of the largest disc: the least clearance of a path."""
        return max(radius for _, _, radius in self.discs)

    @staticmethod
    def of(spec: RobotSpec) -> BaseModel:
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
        return BaseModel(
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
            raise UserError(
                f"The lidar '{name}' of {self.name} has {lidar.rings} rings, but planning needs one with a single ring."
            )
        return lidar


def _steering(robot: WheeledBase) -> tuple[float, float]:
    if robot.steering is None:
        return math.inf, 0.0
    steered = float(np.mean([wheel.position_m[0] for wheel in robot.wheels if wheel.steering]))
    wheelbase = abs(steered - robot.axle_m)
    return math.tan(robot.steering.position_max_rad) / wheelbase, wheelbase
