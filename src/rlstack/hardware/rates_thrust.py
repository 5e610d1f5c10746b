"""The command ``rates_thrust`` for drivers of autopilots: checked, and limited to what the robot takes."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.interfaces.rates_messages import NAME as RATES_THRUST
from rlstack.robots import RobotSpec

__all__ = ["RATES_THRUST", "RatesThrust"]


class RatesThrust:
    """Checks and limits the command of one robot.

    Args:
        robot: The robot.

    Raises:
        UserError: It takes another command.
    """

    def __init__(self, robot: RobotSpec) -> None:
        if (name := command_of(robot).name) != RATES_THRUST:
            raise UserError(
                f"{robot.name} takes {name}, but its autopilot takes {RATES_THRUST}: choose a quadrotor whose file has"
                " a rate_loop, such as x500_rates or crazyflie_rates."
            )
        low, high = command_range(robot, RATES_THRUST)
        self._low, self._high = np.array(low), np.array(high)

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
