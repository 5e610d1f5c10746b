"""Planners that drive to goals: a global planner gives local goals, a local planner drives there safely.

Each robot's ``status`` is driving, arrived, unreachable (the map shows no path) or stuck (no progress, and nothing new
on the map, for ``patience_s``). A robot that does not move although it should backs up, turns towards its target, and
continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.global_planner import GlobalPlanner, GridPathPlanner, LocalGoal
from rlstack.control.navigation.planner_interface import (
    JUMP_M,
    MOTION,
    PEOPLE,
    POSE,
    Motion,
    People,
    Scanner,
    ScanPoints,
    Status,
    motion,
    people,
    turned,
)
from rlstack.robots import frames
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class GoalSettings:
    """When a goal counts as reached, and when a planner gives it up."""

    rate_hz: float = value(10.0, unit="Hz", above=0.0)
    """Rate of the planner's steps."""
    tolerance_m: float = value(0.1, unit="m", above=0.0)
    heading_tolerance_rad: float | None = value(None, unit="rad", above=0.0)
    """Heading tolerance at the goal, where the robot turns on the spot; default: any heading."""
    unreachable_s: float = value(3.0, unit="s", at_least=0.0)
    """Time without a path on the map after which the goal counts as unreachable."""
    patience_s: float = value(20.0, unit="s", above=0.0)
    """Time without progress, and without anything new on the map, after which a robot counts as stuck."""
    still_s: float = value(4.0, unit="s", above=0.0)
    """Time within its own radius, although it should move, after which a robot backs up."""
    back_s: float = value(1.5, unit="s", at_least=0.0)
    turn_s: float = value(1.0, unit="s", at_least=0.0)
    """Durations of backing up, and of the turn after it."""


_RAYS = 360
"""Approximate number of rays that the local planner gets, evenly thinned."""


class LocalPlanner(Protocol):
    """A local planner: chooses commands, once a control period."""

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""

    def choose(
        self, target: Array, points: Array, hit: Mask, *, fastest: Array, backing: Mask, crowd: People | None = None
    ) -> tuple[Array, Mask]:
        """Return commands (N, 2) or (N, 3) and which are good; see :meth:`rlstack.control.navigation.dwa`."""


class GoalPlanner:
    """Drives N robots to goals.

    Args:
        body: The base.
        scanner: Scanner of its lidar; None: it senses only people.
        global_planner: Gives the local goals.
        local: Chooses commands.
        settings: When a goal counts as reached.
        sees_people: Whether people are among its inputs.
    """

    def __init__(
        self,
        body: BaseModel,
        scanner: Scanner | None,
        global_planner: GlobalPlanner,
        local: LocalPlanner,
        settings: GoalSettings,
        *,
        sees_people: bool = False,
    ) -> None:
        self.body, self.scanner, self.global_planner, self.local, self.settings = (
            body,
            scanner,
            global_planner,
            local,
            settings,
        )
        heading = ("goal_orientation",) if settings.heading_tolerance_rad is not None else ()
        scan = ("scan",) if scanner is not None else ()
        self.inputs = (*POSE, *MOTION, *scan, "goal_position", *heading, *(PEOPLE if sees_people else ()))
        self.outputs = ("planar_twist",) if body.drive == "holonomic" else ("twist",)
        self._stride = 1 if scanner is None else max(1, round(scanner.lidar.rays / _RAYS))
        # the map fills in where the lidar is blind
        self._remembers = scanner is not None and scanner.misses and isinstance(global_planner, GridPathPlanner)
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""
        self.global_planner.reset(batch)
        self.local.reset(batch)
        self.status = np.full(batch, Status.DRIVING, dtype=np.int8)
        self._position = np.full((batch, 2), np.nan)
        self._goal = np.full((batch, 2), np.nan)
        self._anchor = np.full((batch, 2), np.nan)
        self._still, self._waited, self._shut, self._recovery = (np.zeros(batch) for _ in range(4))
        self._best = np.full(batch, np.inf)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands, and update ``status``."""
        now = motion(inputs)
        scan_points = ScanPoints.none(len(now.position)) if self.scanner is None else self.scanner.read(inputs["scan"])
        goal = np.asarray(inputs["goal_position"], dtype=float)[:, :2]
        crowd = people(inputs) if "people_position" in self.inputs else None
        self._follow_changes(now, goal)
        met = None if crowd is None else _rays_on_people(now, scan_points, crowd)
        guidance = self.global_planner.plan(now, scan_points, goal, met, crowd)
        there = self._judge(now, goal, guidance)
        backing, turning = self._recover(now)

        target = turned(guidance.target - now.position, -now.heading)
        left = np.linalg.norm(goal - now.position, axis=1)
        fastest = np.sqrt(self.body.acceleration_m_s2 * np.maximum(left - 0.5 * self.settings.tolerance_m, 0.0)) + 0.02
        fastest = np.where(turning, 0.0, np.minimum(fastest, self.body.speed_m_s))
        target[backing] = [-self.body.speed_m_s * self.settings.back_s, 0.0]
        picked = slice(None, None, self._stride)
        points, hit = (
            scan_points.points[:, picked],
            (scan_points.hit if met is None else scan_points.hit & ~met)[:, picked],
        )
        if self._remembers:
            assert isinstance(self.global_planner, GridPathPlanner)
            more, counts = self.global_planner.remembered(now, 2.0 * self.body.reach_m + 0.5 * self.body.speed_m_s)
            points, hit = np.concatenate((points, more), axis=1), np.concatenate((hit, counts), axis=1)
        command, good = self.local.choose(
            target,
            points,
            hit,
            fastest=fastest,
            backing=backing,
            crowd=None if crowd is None else crowd.in_base(now),
        )
        self._still = np.where(good | backing, self._still, self._still + 1.0 / self.settings.rate_hz)
        if self.outputs[0] == "planar_twist" and command.shape[1] == 2:
            command = np.column_stack((command[:, 0], np.zeros(len(command)), command[:, 1]))
        command[there | (self._shut > 0.0)] = 0.0
        if self.settings.heading_tolerance_rad is not None:
            self._face(command, there, now, inputs["goal_orientation"])
        return {self.outputs[0]: command}

    def _follow_changes(self, now: Motion, goal: Array) -> None:
        """Restart for new goals, and clear the maps of robots whose odometry jumped."""
        with np.errstate(invalid="ignore"):
            jumped = np.linalg.norm(now.position - self._position, axis=1) > JUMP_M
            changed = ~(np.linalg.norm(goal - self._goal, axis=1) < 0.01)
        if jumped.any():
            self.global_planner.forget(jumped)
        new = changed | jumped
        self._position, self._goal = now.position.copy(), goal.copy()
        self._anchor[new] = now.position[new]
        self._best[new] = np.inf
        for timer in (self._still, self._waited, self._shut, self._recovery):
            timer[new] = 0.0
        self.status[new] = Status.DRIVING

    def _judge(self, now: Motion, goal: Array, guidance: LocalGoal) -> Mask:
        """Update the status of all robots; return which have arrived (N,)."""
        s, period = self.settings, 1.0 / self.settings.rate_hz
        left = np.linalg.norm(goal - now.position, axis=1)
        there = left < np.where(self.status == Status.ARRIVED, 1.5, 1.0) * s.tolerance_m
        self._shut = np.where(guidance.open, 0.0, self._shut + period)
        better = guidance.left < self._best - 0.5 * self.body.radius_m
        self._best = np.where(guidance.grown, np.inf, np.where(better, guidance.left, self._best))
        self._waited = np.where(guidance.grown | better | there, 0.0, self._waited + period)
        stuck = self._waited > s.patience_s
        self.status[:] = np.select(
            [there, self._shut > s.unreachable_s, stuck],
            [Status.ARRIVED, Status.UNREACHABLE, Status.STUCK],
            Status.DRIVING,
        )
        return there

    def _recover(self, now: Motion) -> tuple[Mask, Mask]:
        """Return which robots back up and which turn on the spot (N,)."""
        s, period = self.settings, 1.0 / self.settings.rate_hz
        waits = (self.status == Status.ARRIVED) | (self._shut > 0.0)
        moved = np.linalg.norm(now.position - self._anchor, axis=1) > self.body.radius_m
        self._anchor[moved | waits] = now.position[moved | waits]
        self._recovery = np.maximum(self._recovery - period, 0.0)
        self._still = np.where(moved | waits | (self._recovery > 0.0), 0.0, self._still + period)
        turn_s = s.turn_s if np.isinf(self.body.curvature_per_m) else 0.0
        self._recovery = np.where(self._still > s.still_s, s.back_s + turn_s, self._recovery)
        backing = self._recovery > turn_s + 1e-9
        return backing, (self._recovery > 1e-9) & ~backing

    def _face(self, command: Array, there: Mask, now: Motion, goal_orientation: Array) -> None:
        """Turn arrived robots to the goal's heading, on the spot."""
        if np.isfinite(self.body.curvature_per_m):
            return
        away = frames.wrap_angle(frames.yaw(goal_orientation) - now.heading)
        most = np.minimum(self.body.turning_rad_s, np.sqrt(self.body.angular_acceleration_rad_s2 * np.abs(away)))
        turn = np.where(np.abs(away) > self.settings.heading_tolerance_rad, np.clip(2.0 * away, -most, most), 0.0)
        command[there, -1] = turn[there]
        self.status[there & (turn != 0.0)] = Status.DRIVING


def _rays_on_people(now: Motion, scan_points: ScanPoints, crowd: People) -> Mask:
    """Return which rays (N, rays) hit people."""
    met = np.zeros(scan_points.hit.shape, dtype=bool)
    position = now.to_base(crowd.position)
    for k in range(position.shape[1]):
        away = np.linalg.norm(scan_points.points - position[:, k, None], axis=2)
        met |= away < crowd.radius[:, k, None] + 0.1
    return met & scan_points.hit
