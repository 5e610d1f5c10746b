"""Rewards of manipulation tasks: the transition of N arms, reward terms by name, and placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.frames import library_of
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class ArmReward:
    """Weights per second, for ``rewards: dense``; tasks set their own defaults, and a weight of 0 drops its term."""

    reaching: float = value(0.0)
    """Distance from the tool to the object, m."""
    held: float = value(0.0)
    """1 while the fingers hold the object."""
    lifted: float = value(0.0)
    """Height of the object above the table as a share of 4 cm; in arm_pick_place only while it is held."""
    distance: float = value(0.0)
    """Distance from the achieved to the desired goal, m."""
    aside: float = value(0.0)
    """The horizontal part of that distance, m."""
    at_goal: float = value(0.0)
    """1 while the task is done; in arm_reach exp(-distance / 1 cm)."""
    action_change: float = value(0.0)
    """Squared change of the action."""


@dataclass(frozen=True)
class ArmTransition:
    """N arms after a step; positions are in base_link.

    Args:
        tool: (N, 3) m.
        goal: (N, 3) m.
        achieved: (N, 3) m, the achieved goal.
        object: (N, 3) m; the tool's position if there is none.
        half: (N, 3) half lengths of the object, m.
        opening: (N,) share of the gripper's range.
        stopped: (N,) whether the closing fingers are stopped by an object.
        action: (N, actions) -1..1.
        last_action: (N, actions), the previous action.
        success: (N,) whether the task is done.
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
        """(N,) m from the achieved to the desired goal."""
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
        """(N,) height of the object above the table, m."""
        return self.object[:, 2] - self.half[:, 2]

    @property
    def held(self) -> NDArray[np.bool_]:
        """(N,) whether the fingers hold the object."""
        return self.stopped & (self.reaching < 0.03)


RewardTerm = Callable[[ArmTransition], Array]
"""Maps a transition of N arms to (N,)."""

TERMS: Mapping[str, RewardTerm] = {
    "distance": lambda s: s.distance,
    "reaching": lambda s: s.reaching,
    "held": lambda s: s.held.astype(float),
    "lifted": lambda s: np.clip(s.lifted / 0.04, 0.0, 1.0),
    "aside": lambda s: np.linalg.norm((s.goal - s.achieved)[:, :2], axis=1),
    "at_goal": lambda s: s.success.astype(float),
    "action_change": lambda s: s.action_change,
}
"""The terms by the names of their weights in :class:`ArmReward`."""


def weighted(reward: ArmReward, **own: RewardTerm) -> dict[str, tuple[float, RewardTerm]]:
    """Return ``{name: (weight, term)}`` of the terms with a weight; ``own`` replaces some of :data:`TERMS`."""
    weights = {field.name: getattr(reward, field.name) for field in fields(reward)}
    return {name: (weight, {**TERMS, **own}[name]) for name, weight in weights.items() if weight != 0.0}


CLEAR_M = 0.05
"""Distance from tool to object at which the hand is away."""
HELD_M = 0.1
"""Height added to the object while the hand is at it: more than it can be too low, so that the two cannot cancel."""


def placed(tool: Any, thing: Any) -> Any:
    """Return the object's position (N, 3) m, raised by 0.1 m and the missing distance while the hand is near it.

    So a goal on a table is achieved only once the object stands there by itself, and a retreating hand always makes
    progress.

    Args:
        tool: (N, 3) m.
        thing: (N, 3) m.
    """
    xp = library_of(thing)
    away = xp.sqrt(((tool - thing) ** 2).sum(-1) + 1e-12)
    near = xp.clip(CLEAR_M - away, 0.0, None)
    above = near + HELD_M * (near > 0.0)
    return xp.stack([thing[..., 0], thing[..., 1], thing[..., 2] + above], -1)
