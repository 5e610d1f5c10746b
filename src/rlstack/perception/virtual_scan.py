"""A level scan of what a depth camera sees between two heights, as if a lidar had measured it.

What a ray reads, by REP-117: the nearest thing between the heights; +inf if the camera saw that nothing is there as far
as the lidar would reach; where it saw less far, how far it saw, since what is not known counts as blocked; NaN where
the camera did not look.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots import Camera, Lidar

STEP_RAD = math.radians(1.0)
"""Between the rays of a scan that stands for no lidar of the robot's."""

_TURN = 2.0 * math.pi


def camera_lidar(camera: Camera, near_m: float, far_m: float) -> Lidar:
    """Return a lidar at base_link that looks where a camera does, as wide as it does, for a robot that has none.

    Args:
        camera: Of the robot.
        near_m: Its least range.
        far_m: Its greatest range.
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
    """Makes the ranges that a lidar would measure of a camera's points.

    Args:
        lidar: That the scan stands for: of one ring and level.
        camera: Whose points they are; where it sits is what counts.
        low_m: Height above base_link below which nothing is in the way.
        high_m: Height above base_link above which nothing is in the way.
        size_m: Of the cube that each point stands for, where a cloud was thinned; 0: of a point alone.

    Raises:
        ValueError: The lidar is tilted or has several rings, or the heights leave nothing between them.
    """

    def __init__(self, lidar: Lidar, camera: Camera, low_m: float, high_m: float, size_m: float = 0.0) -> None:
        if lidar.rings != 1 or lidar.rotation[2, 2] < math.cos(0.01):
            raise ValueError("a virtual scan stands for a lidar that has one ring and sits level")
        if not low_m < high_m:
            raise ValueError(f"nothing is above {low_m} m and below {high_m} m: the lower height comes first")
        self.lidar = lidar
        self._eye, self._axes = camera.position, camera.optical_rotation
        self._low, self._high, self._size = low_m, high_m, size_m
        self._step = lidar.angle_increment_rad or STEP_RAD
        self._around = max(lidar.rays, math.ceil(_TURN / self._step - 1e-6))

    def ranges(self, points: Array, ends: Array) -> NDArray[np.float32]:
        """Return the ranges (rays,) m.

        Args:
            points: What is there (points, 3), m in the camera's optical frame; those between the heights block rays.
            ends: Where the camera's sights end (pixels, 3), likewise; see
                :meth:`rlstack.perception.clouds.DepthToCloud.sights`.
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
        """Return where sights from the eye to ``ends`` were last between the heights; those that never were go."""
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
        """Return the number of the ray next to each place in base_link, and how far the place is."""
        lidar = self.lidar
        x, y = (places - lidar.position)[:, :2].T
        ahead = np.arctan2(y, x) - math.atan2(lidar.rotation[1, 0], lidar.rotation[0, 0]) - lidar.angle_min_rad
        ray = np.floor(np.mod(ahead + 0.5 * self._step, _TURN) / self._step)
        return ray.astype(np.intp), np.hypot(x, y)

    def _within(self, ray: NDArray[np.intp], reach: Array) -> tuple[NDArray[np.intp], Array]:
        """Return numbers of rays that there are, with their ranges; others are beside the scan."""
        ray = np.mod(ray, self._around)
        kept = ray < self.lidar.rays
        return ray[kept], reach[kept]
