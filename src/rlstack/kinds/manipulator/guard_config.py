"""Limits and timeouts of a manipulator's guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.guard.config import GuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value

_SLOW = 0.1


@dataclass(frozen=True, kw_only=True)
class ManipulatorGuardConfig(GuardConfig):
    """Limits and timeouts of an arm's guard; create it with :meth:`from_robot`.

    Ranges, speeds and efforts of the joints are those of the robot file.
    """

    workspace_min_m: tuple[float, float, float] = value(unit="m")
    workspace_max_m: tuple[float, float, float] = value(unit="m")
    """The box, in ``base_link``, that the tool must stay in."""
    tool_velocity_m_s: float = value(unit="m/s", above=0.0)
    joint_speed: float = value(1.0, unit="1", above=0.0)
    """Share of the joints' speeds that targets may use."""
    speed_up_s: float = value(0.15, unit="s", at_least=0.0)
    """Shortest time in which targets go from rest to a joint's full speed: 15 rad/s^2 for a joint of 2.2 rad/s. They
    may always slow down at once, because overshooting to be gentle would be more dangerous."""
    window_s: float = value(0.06, unit="s", above=0.0)
    """Time whose motion a target may cover at once after a rest, and over which speeds are compared: a little more than
    the period of a policy, which may be slower than the guard."""
    overspeed: float = value(1.5, unit="1", at_least=1.0)
    """Measured speeds beyond this many times a joint's limit are a fault."""
    self_collision: bool = True
    """Whether self-collision is checked, where the model has the shapes of links."""
    apart_m: float = value(0.02, unit="m", at_least=0.0)
    """Smallest allowed distance between links that could meet."""
    staleness_s: float = value(0.125, unit="s", above=0.0)
    """Age at which a policy's command is stale, and the longest a policy may be silent: 2.5 periods at 20 Hz."""
    hold_before_parking_s: float = value(10.0, unit="s", at_least=0.0)
    park: bool = True
    """Whether to move to the rest position after that; otherwise it disarms in place."""
    parking_speed: float = value(_SLOW, unit="1", above=0.0, at_most=1.0)
    """Share of the joints' speeds for parking."""

    @property
    def reach_s(self) -> float:
        """How long each command must last, so that an interpolating controller does not stop between two."""
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
