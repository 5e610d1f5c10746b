"""When a flight succeeds and when it is lost."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


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
