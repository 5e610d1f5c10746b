"""What the dense rewards of tasks for arms are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.tasks.manipulator.view import ArmView

RewardTerm = Callable[[ArmView], Array]
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
