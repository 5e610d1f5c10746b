"""Pushes of robots in a simulation by whoever watches it: forces and torques on their bases, for a while."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array


@dataclass
class _Push:
    wrench: Array
    """(6,) N in the world and N m in the body."""
    left: int
    """Physics steps for which it still acts."""


class Pushes:
    """What pushes the N robots of a simulation, beside everything that its physics knows of.

    Args:
        count: Number of robots.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._acting: dict[int, _Push] = {}

    def __bool__(self) -> bool:
        return bool(self._acting)

    def set(self, index: int, force: Array, torque: Array, steps: int) -> None:
        """Push a robot from the next step on, instead of as before.

        Args:
            index: The robot.
            force: (3,) N, world.
            torque: (3,) N m, body.
            steps: For how many physics steps; 0: no more.
        """
        self._acting.pop(index, None)
        if steps > 0:
            self._acting[index] = _Push(np.concatenate([force, torque]), steps)

    def take(self) -> Array:
        """Return the wrenches (6, N) of one step, which has passed then."""
        wrench = np.zeros((6, self._count))
        for index, push in list(self._acting.items()):
            wrench[:, index] = push.wrench
            push.left -= 1
            if not push.left:
                del self._acting[index]
        return wrench
