"""Obstacles around a quadrotor, from its lidar ``scan`` and depth cameras: stopping distance, time to collision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.guard.observation import Observation
from rlstack.guard.pose_history import PoseHistory
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.guard_limits import STILL, stopping_m
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import Camera, Lidar, frames

SCAN = "scan"
"""Name of the lidar in the robot file."""

_BLOCK = 8
"""Pixels of a depth image that are taken together, in each direction: the nearest of them counts."""
_PERIODS = 2.5
"""Age of a measurement, in periods of its sensor, at which it expires."""
_FLOOR_M = 0.15
"""Points lower than this above the floor are the floor: low flight and landing must remain possible."""
_SLOWEST_M_S = 0.05
"""Slower than this a quadrotor hovers; the direction of its velocity is noise."""


@dataclass
class _Measured:
    """The newest measurement of one sensor."""

    timeout_s: float
    stamp_s: float = -math.inf
    points: Array | None = None  # (points, 3) m in base_link at the stamp
    placed: Array | None = None  # the same in odom


class ObstacleMonitor:
    """Knows what the newest scan and depth images have measured, in ``odom``.

    An obstacle counts as in the way if it is within the robot's radius and a clearance of the straight line along the
    velocity. What a scan hits counts at any height, because a lidar tilts with the robot and then sees a wall above or
    below where the robot flies into it. Directions that no sensor covers, and pixels without a measurement, count as
    free: it sees only what its sensors see.

    Args:
        robot: Its radius, its lidar called ``scan`` with one ring, and its depth cameras.
        config: Clearance, reaction time and braking; no sensor is used if ``protective_stop`` is off.
    """

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig) -> None:
        self.config = config
        """Clearance, reaction time and braking."""
        self._radius_m = robot.body.collision_radius_m
        lidar = robot.lidars.get(SCAN)
        used = config.protective_stop
        self.lidar: Lidar | None = lidar if used and lidar is not None and lidar.rings == 1 else None
        self.cameras: dict[str, Camera] = {n: c for n, c in robot.cameras.items() if used and c.depth and not c.link}
        rates = {name: camera.rate_hz for name, camera in self.cameras.items()}
        latencies = {name: camera.latency_s for name, camera in self.cameras.items()}
        if self.lidar is not None:
            rates[SCAN], latencies[SCAN] = self.lidar.rate_hz, self.lidar.latency_s
            self._rays = self.lidar.directions[0] @ self.lidar.rotation.T
        self._measured = {name: _Measured(_PERIODS / rate + latencies[name]) for name, rate in rates.items()}
        self._poses = PoseHistory()

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the sensors that it uses."""
        return tuple(self._measured)

    @property
    def missing(self) -> str:
        """Which sensors have measured nothing for too long, as a sentence; empty if none."""
        now = self._poses.newest_s if self._poses else math.inf
        late = [name for name, m in self._measured.items() if now - m.stamp_s > m.timeout_s]
        return f"nothing new from {' and '.join(late)}, so obstacles are not seen there" if late else ""

    def forget(self) -> None:
        """Clear measurements and poses, after a jump of time or place."""
        self._poses.forget()
        for measured in self._measured.values():
            measured.stamp_s = -math.inf
            measured.points = measured.placed = None

    def add_pose(self, seen: Observation) -> None:
        """Add the robot's pose."""
        if self._measured:
            self._poses.add(seen)

    def receive_scan(self, stamp_s: float, ranges: ArrayLike) -> str:
        """Process a scan; return why it was refused, or an empty string.

        Args:
            stamp_s: Time of the scan, s.
            ranges: (rays,) m, as the signal ``scan``: finite, ``range_max_m`` without a hit.
        """
        lidar = self.lidar
        if lidar is None:
            return "the guard uses no lidar called scan"
        measured = np.asarray(ranges, dtype=float)
        if measured.shape != (lidar.rays,) or not np.isfinite(measured).all():
            return f"the scan is not {lidar.rays} finite ranges"
        hit = measured < lidar.range_max_m * (1.0 - 1e-3)
        return self._take(SCAN, stamp_s, lidar.position + measured[hit, None] * self._rays[hit])

    def receive_depth(self, stamp_s: float, name: str, depth: NDArray[np.floating]) -> str:
        """Process a depth image; return why it was refused, or an empty string.

        Args:
            stamp_s: Time of the image, s.
            name: The camera.
            depth: (height, width) m along the optical axis; what is not finite, or not in the camera's range, is free.
        """
        camera = self.cameras.get(name)
        if camera is None:
            return f"the guard uses no depth camera called {name}"
        if depth.shape != (camera.height, camera.width):
            return f"a depth image of {depth.shape} is not of the camera's size {(camera.height, camera.width)}"
        with np.errstate(invalid="ignore"):
            z = np.where((depth >= camera.near_m) & (depth <= camera.far_m), depth, np.inf)
        rows, columns = -(-camera.height // _BLOCK), -(-camera.width // _BLOCK)
        z = np.pad(
            z, ((0, rows * _BLOCK - camera.height), (0, columns * _BLOCK - camera.width)), constant_values=np.inf
        )
        blocks = z.reshape(rows, _BLOCK, columns, _BLOCK).swapaxes(1, 2).reshape(rows, columns, -1)
        nearest = blocks.argmin(axis=-1)
        found = np.take_along_axis(blocks, nearest[..., None], axis=-1)[..., 0]
        down, across = np.divmod(nearest, _BLOCK)
        v, u = down + _BLOCK * np.arange(rows)[:, None], across + _BLOCK * np.arange(columns)
        (fx, _, cx), (_, fy, cy), _ = camera.intrinsics
        seen = np.isfinite(found)
        rays = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(found.shape)), axis=-1)[seen]
        return self._take(name, stamp_s, camera.position + found[seen, None] * rays @ camera.optical_rotation.T)

    def nearest_obstacle_m(self, seen: Observation, direction: ArrayLike) -> float:
        """Return how far the robot can move in a direction (3,) of ``odom`` until an obstacle is too close, m.

        That is within its radius and the clearance; 0 if one already is, and ahead. Infinite if none is measured there.
        """
        towards = np.asarray(direction, dtype=float)
        length = float(np.linalg.norm(towards))
        points = self._points(seen)
        if not length or not len(points):
            return math.inf
        towards = towards / length
        off = points - seen.position
        off = off[np.linalg.norm(off, axis=1) > self._radius_m]
        along = off @ towards
        aside = np.linalg.norm(off - along[:, None] * towards, axis=1)
        reach = self._radius_m + self.config.clearance_m
        met = (along > 0.0) & (aside < reach)
        if not met.any():
            return math.inf
        way = along[met] - np.sqrt(reach * reach - aside[met] ** 2)
        return max(0.0, float(way.min()))

    def too_close(self, seen: Observation, share: float = 1.0, acceleration: Sequence[float] = STILL) -> str:
        """Return what the robot would hit if it did not brake now, with the time to it, or an empty string.

        Args:
            seen: The robot's state.
            share: Share of the way to the obstacle in which it must be able to stop.
            acceleration: (3,) m/s^2, ``odom``: present until braking begins.
        """
        speed = math.hypot(*seen.linear_velocity)
        if not self._measured or speed < _SLOWEST_M_S:
            return ""
        along = sum(v * a for v, a in zip(seen.linear_velocity, acceleration)) / speed
        needed_m = stopping_m(speed, along, self.config)
        way_m = self.nearest_obstacle_m(seen, seen.linear_velocity)
        if share * way_m > needed_m:
            return ""
        return (
            f"an obstacle is {way_m:.2f} m ahead, {way_m / speed:.1f} s at {speed:.2f} m/s; stopping takes"
            f" {needed_m:.2f} m"
        )

    def _take(self, name: str, stamp_s: float, points: Array) -> str:
        measured = self._measured[name]
        if not self._poses:
            return "no odometry has arrived yet to locate it"
        if stamp_s < measured.stamp_s:
            return f"its stamp goes back ({stamp_s:.3f} after {measured.stamp_s:.3f} s)"
        if abs(self._poses.newest_s - stamp_s) > measured.timeout_s:
            return f"its stamp is {self._poses.newest_s - stamp_s:.3f} s older than that of odometry"
        measured.stamp_s, measured.points, measured.placed = stamp_s, points, None
        return ""

    def _points(self, seen: Observation) -> Array:
        """Return the points of all measurements that have not expired and are not the floor, (points, 3) m."""
        found = [np.empty((0, 3))]
        for name, measured in self._measured.items():
            if measured.points is None or not self._poses or seen.stamp_s - measured.stamp_s > measured.timeout_s:
                continue
            placed = measured.placed
            if placed is None:
                pose = self._poses.nearest(measured.stamp_s)
                placed = np.asarray(pose.position) + frames.rotate(np.asarray(pose.orientation), measured.points)
                placed = placed[placed[:, 2] > self.config.floor_m + _FLOOR_M]
                if self._poses.newest_s >= measured.stamp_s:  # otherwise a newer pose may still fit better
                    measured.placed = placed
            if name == SCAN:
                placed = np.column_stack((placed[:, :2], np.full(len(placed), seen.position[2])))
            found.append(placed)
        return np.concatenate(found)
