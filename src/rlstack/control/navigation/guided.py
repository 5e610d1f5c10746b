"""A learned local driver on a classical way: A* on a map from scans says where to head for, a policy drives there.

A policy that knows no map drives well among what it sees and loses its way in dead ends; a planner on a map does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.driver import Scanner, Status, motion
from rlstack.control.navigation.guides import Guide


class Local(Protocol):
    """The policy: a loaded policy file, or anything with its calls."""

    contract: Any

    def reset(self, batch: int = 1) -> None:
        """Forget everything; from now on there are ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command by name for inputs with a leading batch axis."""


class GuidedPolicy:
    """Drives N robots to goals; see :class:`rlstack.control.navigation.driver.Driver`.

    Args:
        policy: What drives; its ``goal_position`` becomes the place to head for.
        scanner: Of the base's lidar.
        guide: Says where to head for.
        tolerance_m: Nearer to the goal than this is there.
        unreachable_s: A map that shows no way for this long says that the goal is unreachable.
        period_s: Time between calls, s.
    """

    def __init__(
        self,
        policy: Local,
        scanner: Scanner,
        guide: Guide,
        *,
        tolerance_m: float = 0.1,
        unreachable_s: float = 3.0,
        period_s: float = 0.1,
    ) -> None:
        self.policy, self.scanner, self.guide = policy, scanner, guide
        wanted = tuple(port.name for port in policy.contract.inputs)
        self.inputs = tuple(dict.fromkeys((*wanted, "position", "orientation", "scan", "goal_position")))
        self.outputs = tuple(port.name for port in policy.contract.outputs)
        self._wanted, self._tolerance_m = wanted, tolerance_m
        self._unreachable_s, self._period_s = unreachable_s, period_s
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Forget everything; from now on there are ``batch`` robots."""
        self.policy.reset(batch)
        self.guide.reset(batch)
        self.status = np.full(batch, Status.DRIVING, dtype=np.int8)
        self._shut = np.zeros(batch)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands, and keep ``status`` up to date; without a way the robots stand."""
        now, goal = motion(inputs), np.asarray(inputs["goal_position"], dtype=float)
        guidance = self.guide.guide(now, self.scanner.read(inputs["scan"]), goal[:, :2], None)
        self._shut = np.where(guidance.open, 0.0, self._shut + self._period_s)
        there = np.linalg.norm(goal[:, :2] - now.position, axis=1) < self._tolerance_m
        lost = self._shut > self._unreachable_s
        self.status[:] = np.select([there, lost], [Status.ARRIVED, Status.UNREACHABLE], Status.DRIVING)
        given = {name: inputs[name] for name in self._wanted}
        given["goal_position"] = np.concatenate([guidance.target, goal[:, 2:]], axis=1)
        made = self.policy.step(given)
        stand = there | (self._shut > 0.0)
        return {name: np.where(stand[:, None], 0.0, command) for name, command in made.items()}
