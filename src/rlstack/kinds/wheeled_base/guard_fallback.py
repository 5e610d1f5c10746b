"""Fallback of a wheeled base's guard: a classical planner that drives when the policy cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.guard.watch import SLACK_S
from rlstack.kinds.wheeled_base.spec import WheeledBase

PERIOD_S = 0.1
"""Period of planner calls: that of base policies, which planners assume by default."""

STOP = "stop"
"""The fallback that brakes; others are names of planners."""

_HEARD = (
    *("position", "orientation", "linear_velocity", "angular_velocity"),
    *("scan", "goal_position", "goal_orientation"),
)


class Driver(Protocol):
    """A base driver, as in :mod:`rlstack.control.navigation`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def reset(self, batch: int = 1) -> None:
        """Reset all state, for ``batch`` robots from now on."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``twist`` (N, 2), m/s and rad/s, for signals with a leading batch axis."""


def load_driver(name: str, robot: WheeledBase) -> Driver | None:
    """Return the fallback planner; None for ``stop``.

    Raises:
        UserError: There is no such planner, or it needs signals that the guard does not receive.
    """
    if name == STOP:
        return None
    from rlstack.control.navigation import PLANNERS

    if name not in PLANNERS.names():
        raise unknown_name("fallback", name, [STOP, *PLANNERS.names()])
    driver: Driver = PLANNERS.load(name)(robot)
    if unheard := set(driver.inputs) - set(_HEARD):
        raise UserError(f"The planner {name} needs {', '.join(sorted(unheard))}, which the guard does not receive.")
    return driver


class Fallback:
    """Runs the fallback planner on the guard's inputs, and reports why it cannot drive.

    Args:
        driver: The planner, if any.
    """

    def __init__(self, driver: Driver | None) -> None:
        self.driver = driver
        self._heard: dict[str, Array] = {}
        self._said, self._said_t = [0.0, 0.0], -math.inf

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the signals that the planner needs."""
        return () if self.driver is None else tuple(self.driver.inputs)

    def hear(self, signals: Mapping[str, Any]) -> None:
        """Store the newest of the planner's signals."""
        for name in self.inputs:
            if name in signals:
                self._heard[name] = np.asarray(signals[name], dtype=float)

    def start(self) -> str:
        """Start driving; return why it cannot, or an empty string."""
        if self.driver is None:
            return "there is no fallback planner"
        missing = [name for name in self.inputs if name not in self._heard and not name.startswith("people_")]
        if missing:
            return f"the fallback planner lacks {', '.join(missing)}"
        self.driver.reset()
        self._said_t = -math.inf
        return ""

    def command(self, t: float) -> list[float] | str:
        """Return the planner's command at ``t``, m/s and rad/s, or why there is none.

        Planners count time by their steps: between two steps the command is constant.
        """
        assert self.driver is not None
        if t - self._said_t < PERIOD_S - SLACK_S:
            return self._said
        given = {name: self._heard[name][None] for name in self.inputs if name in self._heard}
        for name, shape in (("people_position", (0, 3)), ("people_velocity", (0, 3)), ("people_radius", (0,))):
            if name in self.inputs:
                given.setdefault(name, np.zeros((1, *shape)))
        try:
            twist = np.asarray(self.driver.step(given)["twist"], dtype=float)
        except (ValueError, KeyError, ArithmeticError, RuntimeError) as error:  # the robot must stop
            return f"the fallback planner failed: {error}"
        if twist.shape != (1, 2) or not np.isfinite(twist).all():
            return "the fallback planner's command is not two finite numbers"
        self._said, self._said_t = twist[0].tolist(), t
        return self._said
