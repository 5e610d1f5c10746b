"""Scans of a lidar that stands elsewhere on the robot than a policy's, as the policy's lidar would have measured them.

The ends of neighbouring rays bound the space that the lidar has seen to be free. Each wanted ray is as long as its way
through that space, so that what an obstacle hides from the lidar counts as blocked. Obstacles are at their places on
the plane of the wanted lidar, whatever their height above it. At the end of the range nothing is known of the distance
between the two lidars: there, nothing within the lidar's range is nothing within the wanted one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.scan_geometry import ScanGeometry
from rlstack.interfaces.transform_buffer import Placed
from rlstack.robots import frames
from rlstack.robots.sensing import rotation_from_rpy

MOST_TILT_RAD = 0.2
"""Largest angle between the planes of the two lidars."""
MOST_SHARE = 0.25
"""Largest distance between the two lidars, as a share of the wanted range."""
BLIND_SHARE = 2.0
"""Where the field of view begins within this many distances between the lidars from the wanted one, what is nearer is
not asked for: the robot itself is there."""

_TURN = 2.0 * math.pi
_SAME_M, _SAME_RAD = 0.01, 0.01
"""Tolerance within which two mounts are equal: robot files and calibrations are rounded."""
_SLACK_RAD = 1e-9


class Mount:
    """Where a lidar stands, and how it is turned, in the frame of the wanted one.

    Args:
        pose: Its pose in ``base_link``.
        wanted: The wanted scan.

    Raises:
        ValueError: It is too far away, or tilted too much.
    """

    def __init__(self, pose: Placed, wanted: ScanGeometry) -> None:
        into = rotation_from_rpy(wanted.rpy_rad)
        self.origin = (pose.position - np.asarray(wanted.position_m)) @ into
        self.axes = frames.rotate(pose.orientation, np.eye(3)) @ into
        """(3, 3): its x, y and z axes, in rows."""
        self.is_same = bool(np.abs(self.origin).max() <= _SAME_M and np.abs(self.axes - np.eye(3)).max() <= _SAME_RAD)
        """Whether it is the wanted lidar itself."""
        away, most = float(np.linalg.norm(self.origin)), MOST_SHARE * wanted.range_max_m
        if away > most:
            raise ValueError(
                f"it is {away:.2f} m from the lidar of the robot file, and at most {most:.2f} m are allowed: correct"
                " the transform, or the robot file"
            )
        tilt = math.acos(min(abs(float(self.axes[2, 2])), 1.0))
        if tilt > MOST_TILT_RAD:
            raise ValueError(
                f"it is tilted by {math.degrees(tilt):.0f} degrees against the lidar of the robot file, and at most"
                f" {math.degrees(MOST_TILT_RAD):.0f} degrees are allowed: correct the transform, or the robot file"
            )


class Reprojection:
    """Converts the ranges of a lidar to those of the wanted one.

    Args:
        mount: Where the lidar stands.
        angles_rad: (rays,) angles of its rays, evenly spaced, ascending or descending.
        wanted: The wanted scan.
        turns: Whether the last ray has the first one for a neighbour.

    Raises:
        ValueError: A wanted ray leads to where the lidar does not look; the text has its angle.
    """

    def __init__(self, mount: Mount, angles_rad: Array, wanted: ScanGeometry, *, turns: bool) -> None:
        self._wanted, self._turns = wanted, turns
        self._step = wanted.angle_increment_rad or _TURN
        along = np.stack((np.cos(angles_rad), np.sin(angles_rad), np.zeros(len(angles_rad))), axis=-1)
        self._rays: Array = (along @ mount.axes)[:, :2]
        self._origin = mount.origin[:2]
        self._away = float(np.linalg.norm(mount.origin))
        self._measured_step = float(abs(angles_rad[1] - angles_rad[0])) if len(angles_rad) > 1 else 0.0
        begin = np.arange(len(angles_rad) - (not turns))
        self._edges = begin, (begin + 1) % len(angles_rad)
        self._towards = np.stack((np.cos(wanted.angles_rad), np.sin(wanted.angles_rad)), axis=-1)
        if not turns:
            self._check_view()

    def reach_m(self, range_max_m: float) -> float:
        """Return the distance from the lidar beyond which nothing is in the wanted range, m."""
        return min(range_max_m, self._wanted.range_max_m + self._away)

    def __call__(self, ranges: Array, reach_m: float, range_max_m: float) -> Array:
        """Return the wanted ranges (rays,) m.

        Args:
            ranges: (measured rays,) m, finite; ``reach_m`` without a hit.
            reach_m: See :meth:`reach_m`.
            range_max_m: The value for nothing within range.
        """
        wanted = self._wanted
        ends = self._origin + ranges[:, None] * self._rays
        bearing, away = np.arctan2(ends[:, 1], ends[:, 0]), np.hypot(ends[:, 0], ends[:, 1])
        empty = ranges >= reach_m
        found, seen = np.full(wanted.rays, np.inf), np.zeros(wanted.rays, dtype=bool)
        begin, end = self._edges
        turn = frames.wrap_angle(bearing[end] - bearing[begin])
        low, width = bearing[begin] + np.minimum(turn, 0.0), np.abs(turn)
        no_hit = empty[begin] & empty[end]
        seen[self._within(low[no_hit], width[no_hit])[1]] = True
        edge, ray = self._within(low[~no_hit], width[~no_hit])
        one, other = begin[~no_hit][edge], end[~no_hit][edge]
        # where the wanted ray crosses the line from one end to the other
        line, towards = ends[other] - ends[one], self._towards[ray]
        across = towards[:, 0] * line[:, 1] - towards[:, 1] * line[:, 0]
        crossed = ends[one, 0] * line[:, 1] - ends[one, 1] * line[:, 0]
        along = np.abs(across) < 1e-12
        way = np.where(along, np.minimum(away[one], away[other]), crossed / np.where(along, 1.0, across))
        np.minimum.at(found, ray, np.clip(way, 0.0, np.maximum(away[one], away[other])))
        # a hit counts for all rays within half a step, as when a scan is resampled
        hit = np.flatnonzero(~empty)
        wide = self._measured_step * ranges[hit] / np.maximum(away[hit], 1e-9)
        half = np.minimum(0.5 * np.maximum(wide, wanted.angle_increment_rad), math.pi - _SLACK_RAD)
        place, ray = self._within(bearing[hit] - half, 2.0 * half)
        np.minimum.at(found, ray, away[hit[place]])
        ends_at = np.where(np.isfinite(found), found, np.where(seen, range_max_m, wanted.range_min_m))
        return np.asarray(np.clip(ends_at, wanted.range_min_m, range_max_m))

    def _within(self, low: Array, width: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which intervals, (n,) from ``low`` on, rad, and which wanted rays in them belong together."""
        start = np.mod(low - self._wanted.angle_min_rad, _TURN)
        intervals, rays = [], []
        for turned in (-_TURN, 0.0, _TURN):
            first = np.ceil((start - turned - _SLACK_RAD) / self._step).astype(np.intp)
            last = np.floor((start - turned + width + _SLACK_RAD) / self._step).astype(np.intp)
            first, last = np.maximum(first, 0), np.minimum(last, self._wanted.rays - 1)
            count = np.maximum(last - first + 1, 0)
            interval = np.repeat(np.arange(len(low)), count)
            before = np.repeat(np.cumsum(count) - count, count)
            intervals.append(interval)
            rays.append(first[interval] + np.arange(len(interval)) - before)
        return np.concatenate(intervals), np.concatenate(rays)

    def _check_view(self) -> None:
        """Refuse wanted rays that are not within the field of view over their whole length."""
        around = np.unwrap(np.arctan2(self._rays[:, 1], self._rays[:, 0]))
        slack = 0.5 * self._measured_step * (1.0 + 1e-3)
        low, high = float(around.min()) - slack, float(around.max()) + slack
        wanted = self._wanted
        near = max(BLIND_SHARE * self._away, wanted.range_min_m, 1e-6)
        places = (distance * self._towards - self._origin for distance in (near, wanted.range_max_m))
        begin, end = (np.arctan2(place[:, 1], place[:, 0]) for place in places)
        turn = frames.wrap_angle(end - begin)
        starts = np.mod(begin + np.minimum(turn, 0.0) - low, _TURN)
        outside = starts + np.abs(turn) > high - low
        if outside.any():
            lost = math.degrees(float(wanted.angles_rad[np.argmax(outside)]))
            raise ValueError(f"from there it does not look to where the policy's scan is at {lost:.4g} degrees")
