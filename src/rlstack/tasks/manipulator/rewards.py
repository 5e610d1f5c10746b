"""What the rewards of arms are made of: a transition of N arms, terms of it by name, and what counts as placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.kinematics import library_of


@dataclass(frozen=True)
class ArmTransition:
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


RewardTerm = Callable[[ArmTransition], Array]
"""Maps a view of N arms to (N,)."""

TERMS: Mapping[str, RewardTerm] = {
    "distance": lambda s: s.distance,
    "reaching": lambda s: s.reaching,
    "held": lambda s: s.held.astype(float),
    "lifted": lambda s: np.clip(s.lifted / 0.04, 0.0, 1.0),
    "at_goal": lambda s: s.success.astype(float),
    "action_change": lambda s: s.action_change,
}
"""By the names that weights have: m to the goal and to what is handled, whether something is between the fingers at it,
share of 4 cm that it is above the table, whether it is done, squared change of the action."""


def weighted(reward: Any, **own: RewardTerm) -> dict[str, tuple[float, RewardTerm]]:
    """Return ``{name: (weight, term)}`` for a dataclass of weights, rates a second.

    Args:
        reward: Each of its fields is the weight of the term of that name.
        own: Terms that :data:`TERMS` has not, or otherwise.
    """
    terms = {**TERMS, **own}
    return {field.name: (getattr(reward, field.name), terms[field.name]) for field in fields(reward)}


CLEAR_M = 0.05
"""From tool to thing: the hand is away from it."""
HELD_M = 0.1
"""What a thing counts as higher while the hand is at it: more than it could lie too low, so that neither makes up for
the other."""


def placed(tool: Any, thing: Any) -> Any:
    """Return (N, 3) m where the thing is and, while the hand is at it, above that: by 0.1 m and as it is too near.

    So what is achieved is at a goal on a table only once the thing stands there by itself, and a hand that draws back
    comes nearer to it all the way.

    Args:
        tool: (N, 3) m.
        thing: (N, 3) m.
    """
    xp = library_of(thing)
    away = xp.sqrt(((tool - thing) ** 2).sum(-1) + 1e-12)
    near = xp.clip(CLEAR_M - away, 0.0, None)
    above = near + HELD_M * (near > 0.0)
    return xp.stack([thing[..., 0], thing[..., 1], thing[..., 2] + above], -1)
