"""What a racing policy must reach in verification to pass."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class RaceThresholds:
    """What the races of one column must reach together; None asks nothing.

    The names are those of :class:`rlstack.verification.race_score.RaceScore`'s figures.
    """

    success: float = value(0.95, at_least=0.0, at_most=1.0)
    """Least share of races that are driven to their end without contact."""
    contact: float = value(0.02, at_least=0.0, at_most=1.0)
    """Greatest share that touches a wall."""
    lap_ratio: float | None = value(None, unit="1", above=0.0)
    """Greatest flying lap over the yardstick's, on tracks that both finish."""
    intervened: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share of races in which the guard took over."""
    episodes: int = value(20, at_least=1)
    """Least number of races; fewer prove too little. Each is several laps."""
