"""The goal of a descent: straight down at a given speed until the floor is felt."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAD_M = 0.3
"""How far the goal may be below the robot; also how far it must be before a standstill counts as the floor."""
STILL_M_S = 0.1
"""Speed below which the robot counts as standing still."""
STILL_S = 0.5
"""How long it must stand still before the motors stop."""


class Descent:
    """A descent that ends on whatever it lands on, at whatever height that is.

    The floor is felt rather than known: the goal goes on down, and a robot that no longer follows it and does not
    move is standing on something.

    Args:
        start: (3,) m, world, where the robot is; it lands below.
        speed_m_s: Of the goal on its way down.
    """

    def __init__(self, start: Sequence[float], speed_m_s: float) -> None:
        self.goal: list[float] = [float(x) for x in start]
        self._speed = speed_m_s
        self._still_s = 0.0

    def step(self, position: Sequence[float], linear_velocity: Sequence[float], dt: float) -> bool:
        """Move the goal on by ``dt`` s and say whether the robot has landed.

        Args:
            position: (3,) m, world.
            linear_velocity: (3,) m/s, any frame.
            dt: s.
        """
        height = float(position[2])
        self.goal[2] = max(self.goal[2] - self._speed * dt, height - LEAD_M)
        blocked = height - self.goal[2] >= 0.9 * LEAD_M
        still = math.hypot(*(float(v) for v in linear_velocity)) < STILL_M_S
        self._still_s = self._still_s + dt if blocked and still else 0.0
        return self._still_s >= STILL_S
