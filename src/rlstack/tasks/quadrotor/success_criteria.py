"""Success and failure criteria of a flight."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class SuccessCriteria:
    """Success and failure criteria of one episode.

    Distances are from the goal, or from the path's current reference point if the task follows a path.

    Raises:
        ValueError: The window is empty, or the episode ends before the window does.
    """

    radius_m: float = value(0.2, unit="m", above=0.0)
    """Largest distance from the goal over the window in a successful episode."""
    from_s: float = value(3.0, unit="s", at_least=0.0)
    """Start of the window, after the start of the episode."""
    to_s: float = value(8.0, unit="s", above=0.0)
    """End of the window."""
    lost_m: float = value(2.0, unit="m", above=0.0)
    """An episode is lost once its distance exceeds this."""
    duration_s: float = value(8.0, unit="s", above=0.0)
    """Length of an episode."""

    def __post_init__(self) -> None:
        if not self.from_s < self.to_s <= self.duration_s:
            raise ValueError(
                f"the window from {self.from_s:g} s to {self.to_s:g} s is not one of {self.duration_s:g} s of flight"
            )
