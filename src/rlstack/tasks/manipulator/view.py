"""What the rewards of arms are judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array


@dataclass(frozen=True)
class ArmView:
    """N arms after a step; places are in base_link.

    Args:
        tool: (N, 3) m.
        goal: (N, 3) m.
        achieved: (N, 3) m: what is to be at the goal.
        object: (N, 3) m; the tool's place where there is none.
        half: (N, 3) m of the object.
        opening: (N,) share of the gripper's range.
        stopped: (N,) whether its fingers are told to close and something is between them.
        action: (N, actions) -1..1.
        last_action: (N, actions), the one before.
        success: (N,) whether it is done.
    """

    tool: Array
    goal: Array
    achieved: Array
    object: Array
    half: Array
    opening: Array
    stopped: NDArray[np.bool_]
    action: Array
    last_action: Array
    success: NDArray[np.bool_]

    @property
    def distance(self) -> Array:
        """(N,) m left to do."""
        return np.asarray(np.linalg.norm(self.goal - self.achieved, axis=1))

    @property
    def reaching(self) -> Array:
        """(N,) m from the tool to the object."""
        return np.asarray(np.linalg.norm(self.object - self.tool, axis=1))

    @property
    def action_change(self) -> Array:
        """(N,) squared length of the action's change."""
        return np.asarray(np.square(self.action - self.last_action).sum(axis=1))

    @property
    def lifted(self) -> Array:
        """(N,) m that the object is above the table."""
        return self.object[:, 2] - self.half[:, 2]

    @property
    def held(self) -> NDArray[np.bool_]:
        """(N,) whether the fingers are stopped by something, at the object."""
        return self.stopped & (self.reaching < 0.03)
