"""What is achieved where a thing must be let go of: pure functions over N robots, for numpy and torch alike."""

from __future__ import annotations

from typing import Any

from rlstack.robots.kinematics import library_of

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
