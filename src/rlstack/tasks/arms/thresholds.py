"""What an arm's policy must reach in verification to pass."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value
from rlstack.tasks.criteria import ENOUGH


@dataclass(frozen=True, kw_only=True)
class ArmThresholds:
    """What the trials of one column must reach together; None asks nothing.

    The names are those of :class:`rlstack.verification.arm_score.ArmScore`'s figures.
    """

    success: float = value(0.95, at_least=0.0, at_most=1.0)
    """Least share of trials that are done."""
    lost: float = value(0.02, at_least=0.0, at_most=1.0)
    """Greatest share whose object leaves the table."""
    intervened: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share of trials in which the guard took over."""
    latency_p99_ms: float | None = value(None, unit="ms", above=0.0)
    """Greatest 99th percentile of the control latency."""
    episodes: int = value(ENOUGH, at_least=1)
    """Least number of trials; fewer prove too little."""
