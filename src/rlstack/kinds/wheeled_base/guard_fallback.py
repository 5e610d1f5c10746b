"""Fallback of a wheeled base's guard: a classical planner that drives when the policy cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.guard.policy_monitor import SLACK_S
from rlstack.kinds.wheeled_base.spec import WheeledBase

if TYPE_CHECKING:
    from rlstack.control.navigation import Planner

PERIOD_S = 0.1
"""Period of planner calls: that of base policies, which planners assume by default."""

STOP = "stop"
"""The fallback that brakes; others are names of planners."""

_RECEIVED = (
    *("position", "orientation", "linear_velocity", "angular_velocity"),
    *("scan", "goal_position", "goal_orientation"),
)


def load_planner(name: str, robot: WheeledBase) -> Planner | None:
    """Return the fallback planner; None for ``stop``.

    Raises:
        UserError: There is no such planner, or it needs signals that the guard does not receive.
    """
    if name == STOP:
        return None
    from rlstack.control.navigation import PLANNERS

    if name not in PLANNERS.names():
        raise unknown_name("fallback", name, [STOP, *PLANNERS.names()])
    planner: Planner = PLANNERS.load(name)(robot)
    if missing := set(planner.inputs) - set(_RECEIVED):
        raise UserError(f"The planner {name} needs {', '.join(sorted(missing))}, which the guard does not receive.")
    return planner


class PlannerFallback:
    """Runs the fallback planner on the guard's inputs, and reports why it cannot drive."""

    def __init__(self, planner: Planner | None) -> None:
        self.planner = planner
        self._received: dict[str, Array] = {}
        self._twist, self._twist_t = [0.0, 0.0], -math.inf

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the signals that the planner needs."""
        return () if self.planner is None else tuple(self.planner.inputs)

    def receive(self, signals: Mapping[str, Any]) -> None:
        """Store the newest of the planner's signals."""
        for name in self.inputs:
            if name in signals:
                self._received[name] = np.asarray(signals[name], dtype=float)

    def start(self) -> str:
        """Start driving; return why it cannot, or an empty string."""
        if self.planner is None:
            return "there is no fallback planner"
        missing = [name for name in self.inputs if name not in self._received and not name.startswith("people_")]
        if missing:
            return f"the fallback planner lacks {', '.join(missing)}"
        self.planner.reset()
        self._twist_t = -math.inf
        return ""

    def command(self, t: float) -> list[float] | str:
        """Return the planner's command at ``t``, m/s and rad/s, or why there is none.

        Planners count time by their steps: between two steps the command is constant.
        """
        assert self.planner is not None
        if t - self._twist_t < PERIOD_S - SLACK_S:
            return self._twist
        inputs = {name: self._received[name][None] for name in self.inputs if name in self._received}
        for name, shape in (("people_position", (0, 3)), ("people_velocity", (0, 3)), ("people_radius", (0,))):
            if name in self.inputs:
                inputs.setdefault(name, np.zeros((1, *shape)))
        try:
            twist = np.asarray(self.planner.step(inputs)["twist"], dtype=float)
        except (ValueError, KeyError, ArithmeticError, RuntimeError) as error:  # the robot must stop
            return f"the fallback planner failed: {error}"
        if twist.shape != (1, 2) or not np.isfinite(twist).all():
            return "the fallback planner's command is not two finite numbers"
        self._twist, self._twist_t = twist[0].tolist(), t
        return self._twist
