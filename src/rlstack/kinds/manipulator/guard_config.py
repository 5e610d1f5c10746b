"""What the guard of an arm allows and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.guard.config import GuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value

_SLOW = 0.1


@dataclass(frozen=True, kw_only=True)
class ManipulatorGuardConfig(GuardConfig):
    """Limits and times of the guard of an arm; make it with :meth:`from_robot`.

    Ranges, speeds and efforts of the joints are those of the robot file.
    """

    workspace_min_m: tuple[float, float, float] = value(unit="m")
    workspace_max_m: tuple[float, float, float] = value(unit="m")
    """The box, in ``base_link``, that the tool is kept in."""
    tool_velocity_m_s: float = value(unit="m/s", above=0.0)
    joint_speed: float = value(1.0, unit="1", above=0.0)
    """Share of the joints' speeds that targets may move with."""
    speed_up_s: float = value(0.15, unit="s", at_least=0.0)
    """Targets may go from standing to a joint's full speed in no less: 15 rad/s^2 for a joint of 2.2 rad/s. They may
    always slow down at once: a target that overshot to be gentle would be the greater danger."""
    window_s: float = value(0.06, unit="s", above=0.0)
    """A policy may be slower than the guard: what targets move by at once may be what the speeds allow in this time, if
    they have not moved before, and speeds are compared over so long. A little more than a policy's period."""
    overspeed: float = value(1.5, unit="1", at_least=1.0)
    """Measured speeds beyond so many times a joint's limit are a fault."""
    self_collision: bool = True
    """Whether links are kept from each other, where the model says what shape they have."""
    apart_m: float = value(0.02, unit="m", at_least=0.0)
    """What is kept free between links that could meet."""
    staleness_s: float = value(0.125, unit="s", above=0.0)
    """Age from which a policy's command is stale, and the longest silence of a policy: 2.5 periods at 20 Hz."""
    hold_before_parking_s: float = value(10.0, unit="s", at_least=0.0)
    park: bool = True
    """Whether to go to the rest position after that; else it disarms where it is."""
    parking_speed: float = value(_SLOW, unit="1", above=0.0, at_most=1.0)
    """Share of the joints' speeds that it parks with."""

    @property
    def reach_s(self) -> float:
        """As long as a policy's command is to last, or a controller that interpolates stops between two of them."""
        return max(super().reach_s, self.window_s)

    def __post_init__(self) -> None:
        if any(low >= high for low, high in zip(self.workspace_min_m, self.workspace_max_m)):
            raise ValueError(
                f"workspace_max_m: {list(self.workspace_max_m)} is not allowed: every number must be above"
                f" workspace_min_m ({list(self.workspace_min_m)})."
            )

    @classmethod
    def limits_of(cls, robot: Manipulator) -> dict[str, Any]:
        """Return the limits of the robot file."""
        return {
            "workspace_min_m": robot.limits.workspace_min_m,
            "workspace_max_m": robot.limits.workspace_max_m,
            "tool_velocity_m_s": robot.limits.tool_velocity_m_s,
            "joint_speed": 1.0,
        }
