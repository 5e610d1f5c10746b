"""Pass bounds of verification, by the name of a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

RELATIVE = ("lead_high", "time_ratio", "lap_ratio", "steps_ratio")
"""Keys of figures relative to a baseline's."""

ENOUGH, ENOUGH_OVER_TOPICS = 100, 20
"""Default least number of episodes. If all succeed, the Wilson 95% interval starts at 84% for 20, at 96% for 100."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds that the trials of one column must meet together.

    Args:
        at_least: Least values by the keys of the score's figures; shares are from 0 to 1.
        at_most: Greatest values by the same keys.
        episodes: Least number of trials.
        sample: Whether the trials are only a sample that confirms another column: shares miss their bound only if the
            better end of their 95% interval does.

    Raises:
        ValueError: A figure has two bounds, or a bound is not finite.
    """

    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    episodes: int = ENOUGH
    sample: bool = False

    def __post_init__(self) -> None:
        if both := {*self.at_least, "episodes"} & set(self.at_most) or {"episodes"} & set(self.at_least):
            raise ValueError(f"two bounds for {sorted(both)}")
        if not all(math.isfinite(limit) for limit in self.limits.values()):
            raise ValueError(f"bounds are finite: {self.limits}")

    @property
    def limits(self) -> dict[str, float]:
        """All bounds by the key of their figure."""
        return {**self.at_least, **self.at_most, "episodes": self.episodes}

    def for_sample(self, count: int, compared: bool) -> Bounds:
        """Return the bounds of a sample of ``count`` trials; :data:`RELATIVE` ones only if it is ``compared``."""
        dropped = () if compared else RELATIVE
        at_least, at_most = (
            {key: limit for key, limit in one.items() if key not in dropped} for one in (self.at_least, self.at_most)
        )
        return Bounds(at_least=at_least, at_most=at_most, episodes=count, sample=True)

    def is_least(self, key: str) -> bool:
        """Return whether the bound of a figure is a least value."""
        return key not in self.at_most
