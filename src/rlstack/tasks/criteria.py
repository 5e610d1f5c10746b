"""By what a task's flights are judged: when each succeeds, and what all of them must reach together."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value

ENOUGH, ENOUGH_OVER_TOPICS = 100, 20
"""Least number of episodes that prove anything, unless the task says otherwise: of 20 that all succeed, the Wilson 95%
interval reaches down to 84%, of 100 to 96%."""


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """When one episode succeeds and when it is lost.

    Distances are from the goal; where the goal moves along a path, from the point that is due at that moment.

    Raises:
        ValueError: The window is empty or the episode ends before it.
    """

    radius_m: float = value(0.2, unit="m", above=0.0)
    """How near the goal a successful episode stays over the window."""
    from_s: float = value(3.0, unit="s", at_least=0.0)
    """Start of the window, after the start of the episode."""
    to_s: float = value(8.0, unit="s", above=0.0)
    """End of the window."""
    lost_m: float = value(2.0, unit="m", above=0.0)
    """An episode that was ever farther away than this is lost."""
    duration_s: float = value(8.0, unit="s", above=0.0)
    """Length of an episode."""

    def __post_init__(self) -> None:
        if not self.from_s < self.to_s <= self.duration_s:
            raise ValueError(
                f"the window from {self.from_s:g} s to {self.to_s:g} s is not one of {self.duration_s:g} s of flight"
            )


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What a policy must reach in a backend to pass; None asks nothing."""

    success: float = value(0.95, at_least=0.0, at_most=1.0)
    """Least share of success."""
    lost: float = value(0.01, at_least=0.0, at_most=1.0)
    """Greatest share lost."""
    error_m: float | None = value(None, unit="m", above=0.0)
    """Greatest median position error."""
    rmse_m: float | None = value(None, unit="m", above=0.0)
    """Greatest median of the root mean square distance."""
    recover_s: float | None = value(None, unit="s", above=0.0)
    """Greatest median time to recover."""
    intervened: float | None = value(None, at_least=0.0, at_most=1.0)
    """Greatest share of episodes with a guard intervention."""
    latency_p99_ms: float | None = value(None, unit="ms", above=0.0)
    """Greatest 99th percentile of the control latency."""
    episodes: int = value(ENOUGH, at_least=1)
    """Least number of episodes; fewer prove too little."""
