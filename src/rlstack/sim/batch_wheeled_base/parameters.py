"""Parameter rows of N bases: nominal values of the robot file, or values drawn from its ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.spec_response import RESPONSE_PARAMETERS
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import value
from rlstack.sim.batch_wheeled_base.dynamics import WheeledBaseModel
from rlstack.sim.batch_wheeled_base.layout import PARAMETER_WIDTH, PARAMETERS

_UNLIMITED = 1e4
"""Jerk limit of a base without one in its file, m/s^3 or rad/s^3."""

_AT_ONCE_S = 1e-3
"""Least time constant, s."""


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """A task's speed limits, tighter than the robot's; by default the robot's own."""

    forward_m_s: float | None = value(None, unit="m/s", above=0.0)
    backward_m_s: float | None = value(None, unit="m/s", at_least=0.0)
    turning_rad_s: float | None = value(None, unit="rad/s", above=0.0)

    def range(self, robot: WheeledBase) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the least and greatest command of ``robot`` under these limits, in the command's order."""
        limits = robot.limits
        forward = min(limits.linear_velocity_m_s, self.forward_m_s or limits.linear_velocity_m_s)
        asked = limits.linear_velocity_m_s if self.backward_m_s is None else self.backward_m_s
        backward = min(limits.linear_velocity_m_s, asked)
        turning = min(limits.angular_velocity_rad_s, self.turning_rad_s or limits.angular_velocity_rad_s)
        if robot.drive == "holonomic":
            return (-forward, -forward, -turning), (forward, forward, turning)
        return (-backward, -turning), (forward, turning)


def base_model(robot: WheeledBase, rate_hz: float) -> WheeledBaseModel:
    """Return the dynamics of ``robot`` at a control rate, with the longest command delay in its file."""
    return WheeledBaseModel(1.0 / rate_hz, robot.drive, max_delay_s=robot.response.range_of("command_delay_s")[1])


def nominal(robot: WheeledBase, count: int) -> NDArray[np.float32]:
    """Return the rows (PARAMETER_WIDTH, N) of ``count`` robots with the file's nominal values."""
    return _rows(robot, {name: np.full(count, getattr(robot.response, name)) for name in RESPONSE_PARAMETERS})


def drawn(robot: WheeledBase, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the rows (PARAMETER_WIDTH, N) of ``count`` robots, uniformly from the file's ranges."""
    return _rows(robot, {name: rng.uniform(*robot.response.range_of(name), count) for name in RESPONSE_PARAMETERS})


def _rows(robot: WheeledBase, response: dict[str, NDArray[np.float64]]) -> NDArray[np.float32]:
    limits, count = robot.limits, len(response["command_delay_s"])
    speed, turning = limits.linear_velocity_m_s, limits.angular_velocity_rad_s
    jerk = [limits.linear_jerk_m_s3 or _UNLIMITED, limits.angular_jerk_rad_s3 or _UNLIMITED]
    accelerations = [[limits.linear_acceleration_m_s2], [limits.angular_acceleration_rad_s2]]
    curvature, wheelbase, rate = _steering(robot)
    grip = robot.contact.wheel_friction * STANDARD_GRAVITY if robot.wheels else _UNLIMITED
    side = speed if robot.drive == "holonomic" else 0.0
    columns: dict[str, Any] = {
        "limits": [[-speed], [speed], [side], [turning]],
        "acceleration": accelerations,
        "jerk": [[j] for j in jerk],
        "lag": np.maximum([response["linear_time_constant_s"], response["angular_time_constant_s"]], _AT_ONCE_S),
        "gain": 1.0 - np.array([response["linear_slip"], response["angular_slip"]]),
        "delay": response["command_delay_s"],
        "steering": [[curvature], [wheelbase], [rate]],
        "grip": grip,
        "radius": robot.radius_m,
    }
    rows = np.empty((PARAMETER_WIDTH, count), dtype=np.float32)
    for name, where in PARAMETERS.items():
        rows[where] = columns[name]
    return rows


def _steering(robot: WheeledBase) -> tuple[float, float, float]:
    """Return the greatest curvature 1/m, the wheelbase m and the greatest steering rate rad/s."""
    if robot.drive != "ackermann" or robot.steering is None:
        return 0.0, 1.0, 0.0
    steered = [wheel.position_m[0] for wheel in robot.wheels if wheel.steering]
    wheelbase = abs(sum(steered) / len(steered) - robot.axle_m)
    # of the mean steering angle, a little less than the inner wheel's limit
    inner = np.tan(robot.steering.position_max_rad) / wheelbase
    track = max(abs(wheel.position_m[1]) for wheel in robot.wheels if wheel.steering)
    return float(inner / (1.0 + inner * track)), wheelbase, robot.steering.velocity_max_rad_s
