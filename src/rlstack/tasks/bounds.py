"""What a policy must reach in verification to pass: bounds by the name of a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

ENOUGH, ENOUGH_OVER_TOPICS = 100, 20
"""Least number of episodes that prove anything, unless the task says otherwise: of 20 that all succeed, the Wilson 95%
interval reaches down to 84%, of 100 to 96%."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What the trials of one column must reach together.

    Args:
        at_least: Least values by the keys of the score's figures; shares are from 0 to 1.
        at_most: Greatest values likewise.
        episodes: Least number of trials; fewer prove too little.

    Raises:
        ValueError: A figure has two bounds, or a bound is not finite.
    """

    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    episodes: int = ENOUGH

    def __post_init__(self) -> None:
        if both := {*self.at_least, "episodes"} & set(self.at_most) or {"episodes"} & set(self.at_least):
            raise ValueError(f"two bounds for {sorted(both)}")
        if not all(math.isfinite(limit) for limit in self.limits.values()):
            raise ValueError(f"bounds are finite: {self.limits}")

    @property
    def limits(self) -> dict[str, float]:
        """Every bound by the key of its figure."""
        return {**self.at_least, **self.at_most, "episodes": self.episodes}

    def is_least(self, key: str) -> bool:
        """Return whether the bound of a figure is a least value."""
        return key not in self.at_most
