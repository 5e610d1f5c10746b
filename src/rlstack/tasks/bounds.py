"""Pass bounds of verification, by the name of a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

ENOUGH, ENOUGH_OVER_TOPICS = 100, 20
"""Default least number of episodes. If all succeed, the Wilson 95% interval starts at 84% for 20, at 96% for 100."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds that the trials of one column must meet together.

    Args:
        at_least: Least values by the keys of the score's figures; shares are from 0 to 1.
        at_most: Greatest values by the same keys.
        episodes: Least number of trials.

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
        """All bounds by the key of their figure."""
        return {**self.at_least, **self.at_most, "episodes": self.episodes}

    def is_least(self, key: str) -> bool:
        """Return whether the bound of a figure is a least value."""
        return key not in self.at_most
