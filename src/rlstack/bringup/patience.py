"""How long an arm's guard and robot node wait for a policy that is slower than arms' usual ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlstack.bringup.process import Parameter
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import RobotSpec

_PERIODS, _WINDOW = 2.5, 1.2
"""Of a policy's period: its longest silence, and in what time an arm may move as far as it says at once."""
_ROBOT = 2.0
"""Of a policy's longest silence: what the robot node waits, so that the guard is the first to act."""


@dataclass(frozen=True)
class Patience:
    """Parameters of the nodes that wait; empty: their defaults are long enough."""

    guard: dict[str, Parameter] = field(default_factory=dict)
    robot: dict[str, Parameter] = field(default_factory=dict)


def patience_for(spec: RobotSpec, rate_hz: float | None) -> Patience:
    """Return what a deployment's guard and robot node are told.

    Args:
        spec: The robot.
        rate_hz: The policy's; None: nobody knows it yet.
    """
    if not isinstance(spec, Manipulator) or rate_hz is None:
        return Patience()
    period_s = 1.0 / rate_hz
    needed = {"staleness_s": _PERIODS * period_s, "window_s": _WINDOW * period_s}
    guard: dict[str, Parameter] = {
        name: time_s for name, time_s in needed.items() if time_s > getattr(ManipulatorGuardConfig, name) + 1e-9
    }
    silent_s = needed["staleness_s"]
    return Patience(guard, {"cmd_joints_timeout_s": _ROBOT * silent_s} if "staleness_s" in guard else {})
