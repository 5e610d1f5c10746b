"""A learned local planner on a global path: A* on a map from scans gives the next goal, a policy drives there.

A policy without a map avoids obstacles well but gets lost in dead ends; a planner with a map does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rlstack import schema
from rlstack.arrays import Array
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.global_planner import GlobalPlanner, GridPathPlanner, PathSettings
from rlstack.control.navigation.occupancy import GridSettings
from rlstack.control.navigation.planner_interface import Scanner, Status, motion
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.schema import value


class PointNavigationPolicy(Protocol):
    """A policy that drives to points: a loaded policy file, or an object with the same methods."""

    contract: Any

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command by name for inputs with a leading batch axis."""


class PathFollowingPolicy:
    """Drives N robots to goals; see :class:`rlstack.control.navigation.planner_interface.Planner`.

    Args:
        policy: Drives to local goals, which replace its ``goal_position``.
        scanner: Scanner of the base's lidar.
        global_planner: Gives the local goals.
        tolerance_m: Distance at which the goal counts as reached.
        unreachable_s: Time without a path on the map after which the goal counts as unreachable.
        period_s: Control period, s.
    """

    def __init__(
        self,
        policy: PointNavigationPolicy,
        scanner: Scanner,
        global_planner: GlobalPlanner,
        *,
        tolerance_m: float = 0.1,
        unreachable_s: float = 3.0,
        period_s: float = 0.1,
    ) -> None:
        self.policy, self.scanner, self.global_planner = policy, scanner, global_planner
        wanted = tuple(port.name for port in policy.contract.inputs)
        self.inputs = tuple(dict.fromkeys((*wanted, "position", "orientation", "scan", "goal_position")))
        self.outputs = tuple(port.name for port in policy.contract.outputs)
        self._wanted, self._tolerance_m = wanted, tolerance_m
        self._unreachable_s, self._period_s = unreachable_s, period_s
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""
        self.policy.reset(batch)
        self.global_planner.reset(batch)
        self.status = np.full(batch, Status.DRIVING, dtype=np.int8)
        self._shut = np.zeros(batch)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands, and update ``status``; without a path, robots stop."""
        now, goal = motion(inputs), np.asarray(inputs["goal_position"], dtype=float)
        guidance = self.global_planner.plan(now, self.scanner.read(inputs["scan"]), goal[:, :2], None)
        self._shut = np.where(guidance.open, 0.0, self._shut + self._period_s)
        there = np.linalg.norm(goal[:, :2] - now.position, axis=1) < self._tolerance_m
        lost = self._shut > self._unreachable_s
        self.status[:] = np.select([there, lost], [Status.ARRIVED, Status.UNREACHABLE], Status.DRIVING)
        given = {name: inputs[name] for name in self._wanted}
        given["goal_position"] = np.concatenate([guidance.target, goal[:, 2:]], axis=1)
        made = self.policy.step(given)
        stand = there | (self._shut > 0.0)
        return {name: np.where(stand[:, None], 0.0, command) for name, command in made.items()}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options."""

    policy: str = ""
    """The policy file."""
    policy_sha256: str = ""
    """SHA-256 that the file must have; default: any."""
    tolerance_m: float = value(0.1, unit="m", above=0.0)
    unreachable_s: float = value(3.0, unit="s", at_least=0.0)
    path: PathSettings = field(default_factory=lambda: PathSettings(lookahead_s=5.0))
    grid: GridSettings | None = None
    """Default: by the base's size."""


def build(robot: RobotSpec, *, loaded: Any = None, **options: Any) -> PathFollowingPolicy:
    """Return the planner for a robot.

    Args:
        robot: A wheeled base with a lidar.
        loaded: The policy, if it is loaded already.
        options: As :class:`Options`; settings are mappings.

    Raises:
        UserError: The robot is no base or has no lidar, an option is unknown or not allowed, or the policy cannot be
            loaded.
    """
    from rlstack.policies import load_policy

    chosen = schema.load(Options, options, "the options of the planner astar_policy")
    if loaded is None:
        if not chosen.policy:
            raise UserError(
                "The planner astar_policy needs a policy file: policy=runs/base_navigation-001/policy.onnx."
            )
        loaded = load_policy(chosen.policy, robot=robot, sha256=chosen.policy_sha256)
    body, period = BaseModel.of(robot), 1.0 / loaded.contract.rate_hz
    scanner = Scanner(body.lidar("scan"))
    global_planner = GridPathPlanner(body, scanner, chosen.path, chosen.grid or GridSettings.for_body(body), period)
    limits = {"tolerance_m": chosen.tolerance_m, "unreachable_s": chosen.unreachable_s, "period_s": period}
    return PathFollowingPolicy(loaded, scanner, global_planner, **limits)


PLANNER = build
