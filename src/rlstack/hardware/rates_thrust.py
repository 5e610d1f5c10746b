"""The command ``rates_thrust`` for drivers: checked, and limited to what the robot takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import Signals
from rlstack.robots.spec import STANDARD_GRAVITY

RATES_THRUST = "rates_thrust"


class RatesThrust:
    """Checks and limits the command of one robot.

    Args:
        robot: The robot.

    Raises:
        UserError: It has no rotors.
    """

    def __init__(self, robot: Any) -> None:
        if not robot.has_rotors:
            raise UserError(f"{robot.name} is a {robot.kind}, but rates and thrust are a quadrotor's command.")
        fastest = robot.limits.angular_velocity_rad_s
        self._high = np.array([fastest, fastest, fastest, robot.thrust_to_weight * STANDARD_GRAVITY])
        self._low = np.array([-fastest, -fastest, -fastest, 0.0])

    def __call__(self, command: Signals) -> Array:
        """Return body rates in FLU, rad/s, and thrust per mass, m/s^2: (4,), within the robot's range.

        Raises:
            ValueError: It is not exactly this command, has another shape, or is not finite.
        """
        if set(command) != {RATES_THRUST}:
            raise ValueError(f"the robot takes {RATES_THRUST}, not {', '.join(sorted(command)) or 'nothing'}")
        values = np.asarray(command[RATES_THRUST], dtype=float)
        if values.shape != (4,):
            raise ValueError(f"{RATES_THRUST} has shape {values.shape}, must be (4,)")
        if not np.isfinite(values).all():
            raise ValueError(f"{RATES_THRUST} is not finite: {values.tolist()}")
        return np.clip(values, self._low, self._high)
