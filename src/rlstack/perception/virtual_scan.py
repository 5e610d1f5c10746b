"""Virtual laser scan from a depth camera, for objects between two heights.

Ranges follow REP-117: the nearest object between the heights; +inf if the camera saw free space up to the lidar's
range; the visible distance if the camera saw less far, since unknown space counts as blocked; NaN outside of the
camera's view.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots import Camera, Lidar

STEP_RAD = math.radians(1.0)
"""Angle between the rays of a scan without a corresponding lidar."""

_TURN = 2.0 * math.pi


def camera_lidar(camera: Camera, near_m: float, far_m: float) -> Lidar:
    """Return a virtual lidar at base_link with a camera's direction and field of view, for a robot without a lidar.

    Args:
        camera: The robot's camera.
        near_m: Least range of the lidar.
        far_m: Greatest range of the lidar.
    """
    ahead = camera.rotation[:, 0]
    yaw = math.atan2(ahead[1], ahead[0])
    sight = np.concatenate([camera.border(), np.ones((len(camera.border()), 1))], axis=1) @ camera.optical_rotation.T
    around = np.mod(np.arctan2(sight[:, 1], sight[:, 0]) - yaw + math.pi, _TURN) - math.pi
    half = min(math.ceil(float(np.abs(around).max()) / STEP_RAD) * STEP_RAD, math.pi)
    return Lidar(
        rays=round(2.0 * half / STEP_RAD) + (half < math.pi),
        rate_hz=camera.rate_hz,
        angle_min_rad=yaw - half,
        angle_max_rad=yaw + half,
        range_min_m=near_m,
        range_max_m=far_m,
    )


class VirtualScan:
    """Computes lidar ranges from a camera's points.

    Args:
        lidar: The lidar to emulate; it must be level and have one ring.
        camera: The camera of the points; only its pose matters.
        low_m: Least height above base_link of obstacles.
        high_m: Greatest height above base_link of obstacles.
        size_m: Voxel edge of a downsampled cloud; 0 for single points.

    Raises:
        ValueError: The lidar is tilted or has several rings, or the heights are not in ascending order.
    """

    def __init__(self, lidar: Lidar, camera: Camera, low_m: float, high_m: float, size_m: float = 0.0) -> None:
        if lidar.rings != 1 or lidar.rotation[2, 2] < math.cos(0.01):
            raise ValueError("a virtual scan needs a level lidar with one ring")
        if not low_m < high_m:
            raise ValueError(f"heights of {low_m} to {high_m} m are not allowed: the lower comes first")
        self.lidar = lidar
        self._eye, self._axes = camera.position, camera.optical_rotation
        self._low, self._high, self._size = low_m, high_m, size_m
        self._step = lidar.angle_increment_rad or STEP_RAD
        self._around = max(lidar.rays, math.ceil(_TURN / self._step - 1e-6))

    def ranges(self, points: Array, ends: Array) -> NDArray[np.float32]:
        """Return the ranges (rays,) m.

        Args:
            points: (points, 3) obstacles, m, in the camera's optical frame; those between the heights block rays.
            ends: (pixels, 3) end points of the camera's lines of sight in the same frame; see
                :meth:`rlstack.perception.clouds.DepthToCloud.lines_of_sight`.
        """
        blocked = np.full(self.lidar.rays, np.inf)
        there = self._eye + points @ self._axes.T
        there = there[(there[:, 2] >= self._low) & (there[:, 2] <= self._high)]
        ray, reach = self._rays(there)
        half = np.arcsin(np.clip(0.5 * self._size / np.maximum(reach, 1e-9), 0.0, 1.0)) / self._step
        for beside in range(-math.ceil(half.max(initial=0.0)), math.ceil(half.max(initial=0.0)) + 1):
            wide = abs(beside) <= np.ceil(half)
            np.minimum.at(blocked, *self._within(ray[wide] + beside, reach[wide]))
        free = np.full(self.lidar.rays, -np.inf)
        leaving = self._leaving(self._eye + ends @ self._axes.T)
        np.maximum.at(free, *self._within(*self._rays(leaving)))
        found = np.where(np.isfinite(blocked), blocked, np.where(free >= 0.0, free, np.nan))
        with np.errstate(invalid="ignore"):
            found[found > self.lidar.range_max_m - 1e-6] = np.inf
            found[found < self.lidar.range_min_m] = -np.inf
        return found.astype(np.float32)

    def _leaving(self, ends: Array) -> Array:
        """Return the last points between the heights on the lines of sight to ``ends``, if there are any."""
        height, change = self._eye[2], ends[:, 2] - self._eye[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (self._low - height) / change, (self._high - height) / change
        level = change == 0.0
        inside = self._low <= height <= self._high
        enters = np.where(level, 0.0 if inside else np.inf, np.minimum(low, high))
        leaves = np.where(level, 1.0, np.maximum(low, high))
        enters, leaves = np.maximum(enters, 0.0), np.minimum(leaves, 1.0)
        seen = enters <= leaves
        return np.asarray(self._eye + leaves[seen, None] * (ends[seen] - self._eye))

    def _rays(self, places: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the index of the ray nearest to each point in base_link, and the point's distance."""
        lidar = self.lidar
        x, y = (places - lidar.position)[:, :2].T
        ahead = np.arctan2(y, x) - math.atan2(lidar.rotation[1, 0], lidar.rotation[0, 0]) - lidar.angle_min_rad
        ray = np.floor(np.mod(ahead + 0.5 * self._step, _TURN) / self._step)
        return ray.astype(np.intp), np.hypot(x, y)

    def _within(self, ray: NDArray[np.intp], reach: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the ray indices inside of the scan, with their ranges."""
        ray = np.mod(ray, self._around)
        kept = ray < self.lidar.rays
        return ray[kept], reach[kept]
