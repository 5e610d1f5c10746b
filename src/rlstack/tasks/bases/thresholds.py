"""What a base's policy must reach in verification to pass."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value
from rlstack.tasks.criteria import ENOUGH


@dataclass(frozen=True, kw_only=True)
class DriveThresholds:
    """What the ways of one column must reach together; None asks nothing.

    The names are those of :class:`rlstack.verification.drive_score.DriveScore`'s figures.
    """

    success: float = value(0.95, at_least=0.0, at_most=1.0)
    """Least share that arrives without contact."""
    collided: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share that touches something."""
    lead_high: float | None = value(None, at_least=-1.0, at_most=1.0)
    """Least upper end of the interval of its lead over the planner: at 0, it may not be worse beyond chance."""
    time_ratio: float | None = value(None, unit="1", above=0.0)
    """Greatest time over the planner's, on ways that both finish."""
    intervened: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share of the ways on which the guard took over."""
    latency_p99_ms: float | None = value(None, unit="ms", above=0.0)
    """Greatest 99th percentile of the control latency."""
    episodes: int = value(ENOUGH, at_least=1)
    """Least number of ways; fewer prove too little."""
