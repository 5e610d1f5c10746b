"""How high robots stand: contact is slightly soft, so each engine carries them some micrometres below their height."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import RobotSpec
from rlstack.robots.robot_models import rest_height
from rlstack.sim.drives import rest_positions
from rlstack.sim.engine import BODY_ROWS, Engine

_AT_REST_M = 1e-6
"""By how much the height of a robot at rest may be off."""


class Standing:
    """Where N robots stand in an engine, found by letting them settle at their start places.

    Args:
        engine: It steps, and the robots are left wherever they have come to.
        robots: N robots.
        starts_m: (N, 3) m.
        floor: Whether there is one at z = 0.
        step_s: Physics step, s.
    """

    def __init__(
        self, engine: Engine, robots: Sequence[RobotSpec], starts_m: Array, floor: bool, step_s: float
    ) -> None:
        self._starts, self._floor = starts_m, floor
        self._plain = plain = np.array([rest_height(robot) for robot in robots])
        for index, (robot, place, height) in enumerate(zip(robots, starts_m, plain)):
            body = np.zeros(BODY_ROWS)
            body[:3], body[6] = place + np.array([0.0, 0.0, height]), 1.0
            engine.place(index, body)
            if drives := robot.drives:
                rest = rest_positions(robot)
                engine.place_joints(index, rest, np.zeros(len(drives)))
                engine.drive(index, "file", np.where([d.mode == "position" for d in drives], rest, 0.0))
        for _ in range(100 + round(0.1 / step_s)):  # contact settles within a few tens of steps or of 4 ms
            engine.step()
        rows = np.zeros((BODY_ROWS, len(robots)))
        engine.refresh(rows)
        heights = rows[2] - starts_m[:, 2]
        self._carried = (np.abs(rows[9]) < 1e-3) & (np.abs(heights - plain) < plain)
        self._heights = np.where(self._carried, heights, plain)

    def place(self, index: int) -> Array:
        """Return where robot ``index`` stands at first, (3,) m."""
        return self._starts[index] + np.array([0.0, 0.0, self._heights[index]])

    def settled(self, index: int, motion: Array) -> bool:
        """Put a state (13,), in place, where contact carries robot ``index``, if it stands; return whether it does.

        It stands over the floor or at its start place, where something is there: still, level, and at its rest height
        or lower by what contact takes. At the plain height nothing would push back, and the robot would fall first.
        """
        if not self._carried[index] or motion[3:5].any() or motion[7:].any():
            return False
        height, start = self._heights[index], self._starts[index]
        taken = abs(self._plain[index] - height) + _AT_REST_M
        bases = [0.0] if self._floor else []
        if (motion[:2] == start[:2]).all():
            bases.append(float(start[2]))
        for base in bases:
            if abs(motion[2] - base - height) <= taken:
                motion[2] = base + height
                return True
        return False
