"""Scans: ``sensor_msgs/LaserScan`` to and from arrays."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.messages import set_stamp
from rlstack.robots import Lidar


class ScanMessage:
    """One LaserScan that is filled again for every turn; ranges follow REP-117, intensities are not given.

    Args:
        message: An empty ``sensor_msgs/LaserScan``.
        frame: ``header.frame_id``: the lidar's own, whose x axis is at angle 0.
        lidar: With one ring.
    """

    def __init__(self, message: Any, frame: str, lidar: Lidar) -> None:
        self.message = message
        self._rays = lidar.rays
        message.header.frame_id = frame
        angles = lidar.angles_rad
        message.angle_min, message.angle_max = float(angles[0]), float(angles[-1])
        message.angle_increment = lidar.angle_increment_rad
        message.time_increment, message.scan_time = 0.0, 1.0 / lidar.rate_hz
        message.range_min, message.range_max = lidar.range_min_m, lidar.range_max_m

    def fill(self, stamp_ns: int, ranges: NDArray[Any]) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: When the scan was taken.
            ranges: (rays,) m.

        Raises:
            ValueError: There are more or fewer than the lidar has.
        """
        if np.shape(ranges) != (self._rays,):
            raise ValueError(f"a scan of {np.shape(ranges)} is none of {self._rays} rays")
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.ranges = array.array("f", np.asarray(ranges, dtype=np.float32).tobytes())
        return self.message


def scan_ranges(message: Any) -> NDArray[np.float32]:
    """Return a LaserScan's ranges (rays,) m, a view of its data; what is outside its limits becomes infinite (REP-117).

    Drivers older than that convention send 0 or ``range_max`` where nothing came back.
    """
    ranges: NDArray[np.float32] = np.frombuffer(message.ranges, dtype=np.float32)
    far, near = ranges > message.range_max, ranges < message.range_min
    if far.any() or near.any():
        ranges = np.where(far, np.float32(np.inf), np.where(near, np.float32(-np.inf), ranges))
    return ranges


def scan_angles(message: Any) -> Array:
    """Return the angle of each ray of a LaserScan (rays,), rad from straight ahead towards the left."""
    return message.angle_min + message.angle_increment * np.arange(len(message.ranges), dtype=float)


def scan_points(message: Any) -> Array:
    """Return what a LaserScan hit, (points, 3) m in its frame; rays that hit nothing are left out."""
    ranges = scan_ranges(message).astype(float)
    hit = np.isfinite(ranges)
    angles, ranges = scan_angles(message)[hit], ranges[hit]
    return np.stack((ranges * np.cos(angles), ranges * np.sin(angles), np.zeros_like(ranges)), axis=-1)
