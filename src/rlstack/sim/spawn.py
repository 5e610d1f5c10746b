"""Start positions of robots in a world and their resting heights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.robots.joints import rest_positions
from rlstack.robots.kind_models import rest_height
from rlstack.sim.engine import BODY_ROWS, Engine
from rlstack.sim.input_checks import checked_array
from rlstack.sim.world import World

SPACING_M = 1.0
"""Spacing of start positions in a world without its own, m."""
_AT_REST_M = 1e-6
"""Tolerance on the height of a robot at rest, m."""


class SpawnHeights:
    """Resting heights of N robots in an engine, found by settling them at their start positions.

    Contact is slightly soft, so each engine carries them some micrometres below their rest height.

    Args:
        engine: The engine; robots are left where they settle.
        robots: N robots.
        starts_m: (N, 3) start positions, m.
        floor: Whether there is a floor at z = 0.
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
                rest = rest_positions(drives)
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
        """Return the initial resting position of robot ``index``, (3,) m."""
        return self._starts[index] + np.array([0.0, 0.0, self._heights[index]])

    def settled(self, index: int, motion: Array) -> bool:
        """If robot ``index`` stands in a state (13,), correct the state's height in place; return whether it stands.

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


def checked_starts(starts_m: ArrayLike, count: int) -> Array:
    """Return start positions (count, 3), m.

    Raises:
        UserError: The shape is wrong, or a value is not finite.
    """
    try:
        return checked_array("starts_m", starts_m, (count, 3))
    except ValueError as error:
        raise UserError(str(error)) from error


def start_places(count: int, world: World | None = None, isolated: bool = False) -> Array:
    """Return start positions (count, 3), m: the world's, or a grid about the origin.

    Raises:
        UserError: The world has too few.
    """
    places = np.array(world.starts_m if world else (), dtype=float).reshape(-1, 3)
    if isolated or count == 1:
        return np.tile(places[:1] if len(places) else np.zeros((1, 3)), (count, 1))
    if world and len(places):
        if len(places) < count:
            raise UserError(f"The world '{world.name}' has {len(places)} start places for {count} robots.")
        return places[:count]
    side = math.ceil(math.sqrt(count))
    grid = np.array([(k % side, k // side, 0.0) for k in range(count)])
    return (grid - [(side - 1) / 2, (side - 1) / 2, 0.0]) * SPACING_M
