"""Limits and timeouts of a quadruped's guard."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.guard.config import GuardConfig
from rlstack.kinds.quadruped.spec import QuadrupedLimits
from rlstack.schema import value

_FOLDED_RAD = 4.0
"""More than a leg's joint turns from any posture to the crouching one."""


@dataclass(frozen=True, kw_only=True)
class QuadrupedGuardConfig(QuadrupedLimits, GuardConfig):
    """Limits and timeouts of a quadruped's guard; create it with :meth:`from_robot`.

    Ranges and speeds of the joints are those of the robot file.
    """

    staleness_s: float = value(0.1, unit="s", above=0.0, text="Age at which a policy's command is stale")
    """5 periods at 50 Hz."""
    posture_speed_rad_s: float = value(
        1.0, unit="rad/s", above=0.0, text="Speed of the fastest joint when the guard moves the legs to a posture"
    )
    standing_within_rad: float = value(0.5, unit="rad", above=0.0)
    """The policy takes over at once if no joint is further than this from the standing posture when armed."""
    stand_before_crouching_s: float = value(
        5.0, unit="s", at_least=0.0, text="How long the fallback stands before it crouches"
    )

    @property
    def rest_within_s(self) -> float:
        """Longest time from :meth:`rlstack.guard.guard.Guard.end` until the robot is off, s: it crouches."""
        return _FOLDED_RAD / self.posture_speed_rad_s + 1.0

    fallen_rad: float = value(1.2, unit="rad", above=0.0)
    """Tilt at which the robot has fallen: its legs cannot stand it up again, and it is switched off."""
