"""Protective stop: checks with the newest scan whether a motion would hit something before the robot could stop."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.guard.observation import Observation
from rlstack.guard.pose_history import PoseHistory
from rlstack.kinds.wheeled_base.guard_config import SCAN, WheeledBaseGuardConfig
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import Lidar
from rlstack.robots.footprint import hull

_STEP_M = 0.02
"""Largest step of any part of the robot between two checked poses; under half of the usual clearance."""
_MOST_STEPS = 50
_OWN_M = 0.02
"""Points deeper inside the outline than this are the robot itself; shallower ones may be touching obstacles."""
_CLOSER_M = 1e-6


class ProtectiveStop:
    """Checks motions against the newest scan.

    A motion is simulated for ``reaction_s`` and then braking on the same curve. It is blocked if a scan point would
    come within ``clearance_m`` of the outline, and closer than now: so turning away, backing off and sliding along are
    never blocked. Ahead, the outline is as long as the robot needs to turn on the spot.

    Args:
        robot: Its outline, its axle and its lidar called ``scan``; without that lidar nothing is ever blocked.
        config: Reaction, braking and clearance.
    """

    def __init__(self, robot: WheeledBase, config: WheeledBaseGuardConfig) -> None:
        self.config = config
        """Reaction, braking and clearance."""
        self.lidar: Lidar | None = robot.lidars.get(SCAN) if config.protective_stop else None
        self._axle = np.array([robot.axle_m, 0.0])  # a twist rotates the robot about it
        corners = np.asarray(robot.corners_m, dtype=float) - self._axle
        radius, sides = float(np.linalg.norm(corners, axis=1).max()), (corners[:, 1].min(), corners[:, 1].max())
        self._radius_m, self._body = radius, _edges(corners)
        # a robot that drives ahead must keep room to turn on the spot: its policy may not be able to back off
        room = [[(end, side) for side in sides] for end in (radius, -radius)]
        self._ahead, self._behind = (_edges(hull([*corners, *more])) for more in room)
        if self.lidar is not None:
            self._rays = self.lidar.directions[0] @ self.lidar.rotation.T[:, :2]
            self._origin = self.lidar.position[:2]
        self._poses = PoseHistory()
        self.forget()

    def forget(self) -> None:
        """Clear the scan and the poses, after a jump of time or place."""
        self._poses.forget()
        self._hits, self._placed = np.empty((0, 2)), True  # base_link
        self._hits_in_odom = np.empty((0, 2))  # odom
        self.stamp_s = -math.inf
        """Stamp of the newest scan."""

    def add_pose(self, seen: Observation) -> None:
        """Add the robot's pose."""
        if self.lidar is not None:
            self._poses.add(seen)

    def process_scan(self, stamp_s: float, ranges: ArrayLike) -> str:
        """Process a scan; return why it was refused, or an empty string.

        Args:
            stamp_s: Time of the scan, s.
            ranges: (rays,) m, as the signal ``scan``: finite, ``range_max_m`` without a hit.
        """
        lidar = self.lidar
        if lidar is None:
            return ""
        try:
            measured = np.asarray(ranges, dtype=float)
        except (TypeError, ValueError):
            return "the scan is not numbers"
        if measured.shape != (lidar.rays,):
            return f"the scan has {measured.shape} ranges, and the robot file's lidar has {lidar.rays}"
        if not np.isfinite(measured).all():
            return "the scan is not finite"
        if not self._poses:
            return "no odometry has arrived yet to locate the scan"
        hit = measured < lidar.range_max_m * (1.0 - 1e-3)
        self._hits, self._placed = self._origin + measured[hit, None] * self._rays[hit], False
        self.stamp_s = stamp_s
        return ""

    def _place(self) -> None:
        """Place the hits in ``odom``; finally once odometry is as new as the scan."""
        if not self._placed and self._poses:
            pose = self._poses.nearest(self.stamp_s)
            self._hits_in_odom = self._hits @ _turn(pose.yaw_rad).T + pose.position[:2]
            self._placed = self._poses.newest_s >= self.stamp_s

    def hits(self, seen: Observation) -> Array:
        """Return the scan's hits, (points, 2) m from the axle along the robot's present axes."""
        self._place()
        points = (self._hits_in_odom - seen.position[:2]) @ _turn(seen.yaw_rad) - self._axle
        return np.asarray(points)

    def obstacle_on_path(self, around: Array, speed: float, turning: float) -> str:
        """Return the obstacle that the robot would hit with this motion and then braking, or an empty string.

        Args:
            around: Hits from :meth:`hits`.
            speed: m/s, negative backwards.
            turning: rad/s.
        """
        config = self.config
        braking_s = 0.5 * max(
            abs(speed) / config.linear_acceleration_m_s2, abs(turning) / config.angular_acceleration_rad_s2
        )
        lasts_s = config.reaction_s + braking_s
        reach = self._radius_m + config.clearance_m + abs(speed) * lasts_s
        near = around[np.einsum("ij,ij->i", around, around) < reach * reach]
        if not len(near):
            return ""
        near = near[_distances(self._body, near) > -_OWN_M]
        way_m = (abs(speed) + self._radius_m * abs(turning)) * lasts_s
        if not len(near) or way_m < 1e-9:
            return ""
        outline = self._ahead if speed > 0.0 else self._behind if speed < 0.0 else self._body
        now = _distances(outline, near)
        steps = min(max(math.ceil(way_m / _STEP_M), 1), _MOST_STEPS)
        times = lasts_s * np.arange(1, steps + 1) / steps
        angles = turning * times
        along = times * np.sinc(angles / math.pi)
        aside = times * np.sinc(0.5 * angles / math.pi) * np.sin(0.5 * angles)
        places = speed * np.stack((along, aside), axis=-1)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        off = near[None] - places[:, None]
        seen = np.stack((cos * off[..., 0] + sin * off[..., 1], cos * off[..., 1] - sin * off[..., 0]), axis=-1)
        then = _distances(outline, seen).min(axis=0)
        met = (then < config.clearance_m) & (then < now - _CLOSER_M)
        if not met.any():
            return ""
        away = np.where(met, _distances(self._body, near), np.inf)
        closest = int(np.argmin(away))
        angle = math.degrees(math.atan2(near[closest, 1], near[closest, 0]))
        return f"something is {max(0.0, float(away[closest])):.2f} m away at {angle:+.0f} degrees"


Edges = tuple[Array, Array]
"""Outward normals (edges, 2) of a convex outline, and the edges' distances from the origin along them (edges,)."""


def _edges(corners: Array) -> Edges:
    """Return the edges of a convex outline with counter-clockwise corners."""
    along = np.roll(corners, -1, axis=0) - corners
    normals = np.stack((along[:, 1], -along[:, 0]), axis=-1) / np.linalg.norm(along, axis=1, keepdims=True)
    return normals, np.sum(normals * corners, axis=1)


def _distances(outline: Edges, points: Array) -> Array:
    """Return how far points (..., 2) are outside an outline, m; beyond a corner this is a lower bound."""
    normals, offsets = outline
    return np.asarray((points @ normals.T - offsets).max(axis=-1))


def _turn(angle: float) -> Array:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin], [sin, cos]])
