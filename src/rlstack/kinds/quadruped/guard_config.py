"""What the guard of a quadruped allows and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.guard.config import GuardConfig
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class QuadrupedGuardConfig(GuardConfig):
    """Limits and times of the guard of a quadruped; make it with :meth:`from_robot`.

    Ranges and speeds of the joints are those of the robot file.
    """

    tilt_rad: float = value(unit="rad", above=0.0, at_most=1.5)
    staleness_s: float = value(0.1, unit="s", above=0.0)
    """Age from which a policy's command is stale, and the longest silence of a policy: 5 periods at 50 Hz."""
    posture_speed_rad_s: float = value(1.0, unit="rad/s", above=0.0)
    """The fastest joint's, where the guard leads the legs to a posture."""
    standing_within_rad: float = value(0.5, unit="rad", above=0.0)
    """No joint may be further from the standing posture where the policy takes over at once when it is armed."""
    stand_before_crouching_s: float = value(5.0, unit="s", at_least=0.0)
    fallen_rad: float = value(1.2, unit="rad", above=0.0)
    """Tilt from which legs cannot stand it up again: it is switched off."""

    @classmethod
    def limits_of(cls, robot: Quadruped) -> dict[str, Any]:
        """Return the limits of the robot file."""
        return {"tilt_rad": robot.limits.tilt_rad}
