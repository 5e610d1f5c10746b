"""A base that rolls as it is told, walls that its lidar sees, and the guard between it and a policy."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlstack.guard import Decision
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import Lidar, load_robot

Array = NDArray[np.float64]


def turtlebot() -> WheeledBase:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    return robot


def signals(
    x: float = 0.0, y: float = 0.0, yaw: float = 0.0, speed: float = 0.0, turning: float = 0.0, tilt: float = 0.0
) -> dict[str, Array]:
    """Return odometry; ``tilt`` is about the heading's own x axis and goes with a yaw of 0 only."""
    half = 0.5 * yaw
    return {
        "position": np.array([x, y, 0.0]),
        "orientation": np.array([math.sin(0.5 * tilt), 0.0, math.sin(half), math.cos(half) * math.cos(0.5 * tilt)]),
        "linear_velocity": np.array([speed, 0.0, 0.0]),
        "angular_velocity": np.array([0.0, 0.0, turning]),
    }


def wall_scan(lidar: Lidar, x: float, y: float, yaw: float, wall_x: float) -> Array:
    """Return the scan of a robot before an endless wall at ``x = wall_x``."""
    cos, sin = math.cos(yaw), math.sin(yaw)
    place = lidar.position[:2] @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    across = np.cos(lidar.angles_rad + yaw)
    with np.errstate(divide="ignore", invalid="ignore"):
        ranges = np.where(across > 1e-9, (wall_x - place[0]) / across, np.inf)
    return np.clip(np.where(ranges >= 0.0, ranges, np.inf), lidar.range_min_m, lidar.range_max_m)


class Rolling:
    """Runs period by period: scan, odometry, policy, tick, motion.

    The base does what it is told ``delay`` periods later, with a lag, s; by default at once.
    """

    def __init__(
        self,
        guard: WheeledBaseGuard,
        wall_x: float = 1e3,
        start: tuple[float, float, float] = (0.0, 0.0, 0.0),
        *,
        delay: int = 0,
        lag_s: float = 0.0,
    ):
        self.guard, self.wall_x = guard, wall_x
        self.time_s, self.period_s = 0.0, 0.1
        self.pose = list(start)
        self.command = np.zeros(2)
        self.motion = np.zeros(2)
        self._told, self._lag_s = deque([np.zeros(2)] * (delay + 1), maxlen=delay + 1), lag_s
        self.decisions: list[Decision] = []
        self.commands: list[Array] = []
        self.mute_odometry = self.mute_scan = False

    @property
    def seen(self) -> dict[str, Array]:
        return signals(*self.pose, *self.motion.tolist())

    def take(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.command is not None:
            self.command = decision.command

    def sense(self) -> None:
        now, lidar = self.time_s, self.guard.robot.lidars["scan"]
        if not self.mute_odometry:
            self.take(self.guard.on_observation(now, now, self.seen))
        if not self.mute_scan:
            self.take(self.guard.on_scan(now, now, wall_scan(lidar, *self.pose, self.wall_x)))

    def arm(self) -> None:
        self.sense()
        assert self.guard.arm(self.time_s) == (True, "armed")

    def run(self, seconds: float, policy: Callable[[dict[str, Array]], object] | None) -> None:
        for _ in range(round(seconds / self.period_s)):
            self.sense()
            if policy is not None:
                self.take(self.guard.on_policy_command(self.time_s, self.time_s, policy(self.seen)))  # type: ignore[arg-type]
            self.take(self.guard.on_tick(self.time_s))
            self.commands.append(self.command.copy())
            self._told.append(self.command.copy())
            follows = 1.0 - math.exp(-self.period_s / self._lag_s) if self._lag_s else 1.0
            self.motion = self.motion + follows * (self._told[0] - self.motion)
            speed, turning = self.motion.tolist()
            self.pose[2] += turning * self.period_s
            self.pose[0] += speed * self.period_s * math.cos(self.pose[2])
            self.pose[1] += speed * self.period_s * math.sin(self.pose[2])
            self.time_s += self.period_s
