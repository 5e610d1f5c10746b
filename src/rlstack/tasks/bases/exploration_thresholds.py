"""What an explorer must reach in verification to pass."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class ExplorationThresholds:
    """What the expeditions of one column must reach together; None asks nothing.

    The names are those of :class:`rlstack.verification.exploration_score.ExplorationScore`'s figures.
    """

    success: float = value(0.98, at_least=0.0, at_most=1.0)
    """Least share that sees enough in time and touches nothing."""
    crashed: float = value(0.0, at_least=0.0, at_most=1.0)
    """Greatest share that touches something."""
    steps_ratio: float | None = value(None, unit="1", above=0.0)
    """Greatest time to 90% over that of the soonest planner."""
    intervened: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share in which the guard took over."""
    episodes: int = value(100, at_least=1)
    """Least number of expeditions; fewer prove too little."""
