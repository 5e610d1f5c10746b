"""Limits and timeouts of a manipulator's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rlstack.guard.config import GuardConfig
from rlstack.kinds.manipulator.spec import Manipulator, ManipulatorLimits
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class ManipulatorGuardConfig(ManipulatorLimits, GuardConfig):
    """Limits and timeouts of an arm's guard; create it with :meth:`from_robot`.

    Ranges, speeds and efforts of the joints are those of the robot file.
    """

    RAISED: ClassVar[frozenset[str]] = frozenset({"apart_m", "speed_up_s"})
    TETHERED: ClassVar[frozenset[str]] = frozenset({"joint_speed", "speed_up_s", "tool_velocity_m_s"})
    """Not the workspace: a smaller one could leave out where the arm is."""

    joint_speed: float = value(1.0, unit="1", above=0.0, text="Share of the joints' speeds that targets may use")
    speed_up_s: float = value(
        0.15, unit="s", at_least=0.0, text="Shortest time in which targets go from rest to a joint's full speed"
    )
    """15 rad/s^2 for a joint of 2.2 rad/s. They may always slow down at once, because overshooting to be gentle would
    be more dangerous."""
    window_s: float = value(
        0.06, unit="s", above=0.0, text="Time whose motion a target may cover at once: a policy's period"
    )
    """Speeds are compared over it. It is a little more than the period of a policy, which may be slower than the
    guard."""
    overspeed: float = value(1.5, unit="1", at_least=1.0)
    """Measured speeds beyond this many times a joint's limit are a fault."""
    self_collision: bool = value(True, text="Whether to prevent self-collision, if the model has the links' shapes")
    apart_m: float = value(0.02, unit="m", at_least=0.0, text="Smallest allowed distance between links that could meet")
    staleness_s: float = value(0.125, unit="s", above=0.0, text="Age at which a policy's command is stale")
    """2.5 periods at 20 Hz."""
    hold_before_parking_s: float = value(
        10.0, unit="s", at_least=0.0, text="How long an arm holds still before it parks"
    )
    park: bool = value(True, text="Whether it then moves slowly to its rest position; otherwise it disarms in place")
    parking_speed: float = value(0.1, unit="1", above=0.0, at_most=1.0, text="Share of the joints' speeds for parking")

    @property
    def reach_s(self) -> float:
        """How long each command must last, so that an interpolating controller does not stop between two."""
        return max(super().reach_s, self.window_s)

    @classmethod
    def limits_of(cls, robot: Manipulator) -> dict[str, Any]:
        """Return the limits of the robot file, and the joints' full speeds."""
        return {**super().limits_of(robot), "joint_speed": 1.0}
