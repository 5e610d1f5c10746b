"""Where a base's lidar sits and how late and noisy it is: scans of the same walls from two places, against odometry.

A point that one scan has seen lies on the surface that another one has seen, if the lidar's pose on the base is right:
the base's motion in between is the odometry's (a hand-eye calibration by point-to-line matching; Censi, "An ICP variant
using a point-to-line metric", 2008). Turns tell where it sits, and straight drives where it looks. Arrays of points are
complex: x + iy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from rlstack.arrays import Array
from rlstack.identification.motion_model import Z90, Estimate, Parameter, Place
from rlstack.identification.recorded import Recorded, Track
from rlstack.interfaces.scan_geometry import scan_geometry
from rlstack.interfaces.scan_messages import ScanReader
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import Lidar
from rlstack.robots.frames import wrap_angle, yaw

Points = NDArray[np.complexfloating[Any, Any]]

_MOVED_M, _TURNED_RAD = 0.08, 0.15
"""Motion between scans that count."""
_APART = (2, 6)
"""How many such scans two matched ones are apart: within seconds, in which odometry hardly drifts."""
_MOST = 120
"""Scans that count, at most."""
_AROUND = 5
"""Rays to either side that make a line with a ray."""
_FLAT = 0.05
"""Variance across such a line over that along it, above which it is a corner."""
_NEAR_M = (0.5, 0.3, 0.3, 0.15, 0.15, 0.15)
"""Distance within which a point belongs to a surface, by round."""
_STEP = 1e-4
_PRIOR = np.array([0.5, 0.5, 1.0, 0.1])
_DIRECTIONS = 12
"""Headings of the lidar from which the matching begins."""
_BLOCKS = 12
_HUBER = 2.0
_FLOOR = np.array([1e-3, 1e-3, 3e-3, 1e-3])
"""Least standard deviations, m, m, rad, s."""
_NEEDED = (0.01, 0.01, 0.02, 0.02)
"""Largest half widths that count as told: 2 cm and 1 degree move a wall 3 m off by a few cm."""
_STILL_M_S, _STILL_RAD_S, _STILL_S = 0.01, 0.01, 0.5
_BANDS = 5
"""Bands of range in which noise is compared."""
_LEAST_PAIRS = 5
"""Pairs of scans at rest from which noise is told."""
_NOISE_NEEDED = (0.003, 0.005)
METHOD = "scans of the same walls matched"
NOISE_METHOD = "differences of scans at rest"


@dataclass(frozen=True)
class Match:
    """Where a lidar sits.

    Args:
        values: (4,) x m, y m and heading rad on the base, and how late its stamps are against the odometry's, s.
        deviation: (4,) standard deviations.
    """

    values: Array
    deviation: Array


def matched(robot: WheeledBase, recordings: Sequence[Recorded], lidar: Lidar) -> Match | None:
    """Match the scans of recordings with each other; None: too few overlap while the base moves."""
    chosen = [_Scans(recorded.tracks["odom"], recorded.tracks["scan"], lidar) for recorded in recordings]
    pairs = [(scans, k, k + apart) for scans in chosen for apart in _APART for k in range(len(scans) - apart)]
    if len(pairs) < 2 * _BLOCKS:
        return None
    start = np.array([*lidar.position_m[:2], lidar.rpy_rad[2], 0.0])
    few = pairs[:: max(len(pairs) // 40, 1)]
    turned = [start + np.array([0.0, 0.0, 2.0 * np.pi * k / _DIRECTIONS, 0.0]) for k in range(_DIRECTIONS)]
    values = min(turned, key=lambda those: _cost(few, those))
    for near_m in _NEAR_M:
        found = [_Pair(*pair, values, near_m) for pair in pairs]
        left = [one.left(values) for one in found]
        slopes = [
            np.stack([(one.left(values + step) - rows) / _STEP for step in _STEP * np.eye(4)], axis=-1)
            for one, rows in zip(found, left)
        ]
        every = np.concatenate(left)
        if len(every) < 100:
            return None
        scale = max(1.4826 * float(np.median(np.abs(every))), 1e-6)
        pulls, normal = [], np.diag((scale / _PRIOR) ** 2)
        for rows, slope in zip(left, slopes):
            weight = 1.0 / np.maximum(np.abs(rows) / (_HUBER * scale), 1.0)
            pulls.append(slope.T @ (weight * rows))
            normal += slope.T @ (weight[:, None] * slope)
        inverted = np.linalg.inv(normal)
        values = values - inverted @ (np.sum(pulls, axis=0) + (scale / _PRIOR) ** 2 * (values - start))
    blocks = np.array_split(np.arange(len(pulls)), _BLOCKS)
    scores = np.stack([np.sum([pulls[k] for k in block], axis=0) for block in blocks])
    spread = inverted @ (scores.T @ scores) @ inverted * _BLOCKS / (_BLOCKS - 1)
    deviation = np.sqrt(np.maximum(np.diag(spread), scale**2 * np.diag(inverted)))
    values[2] = wrap_angle(values[2])
    return Match(values, np.hypot(deviation, _FLOOR))


class _Scans:
    """The scans of one recording that count: their points and lines in the lidar's frame, and the odometry's poses."""

    def __init__(self, odom: Track, scan: Track, lidar: Lidar) -> None:
        place = odom.values["position"][:, 0] + 1j * odom.values["position"][:, 1]
        self._odom_s, self._place = odom.time_s, place
        self._heading = np.unwrap(yaw(odom.values["orientation"]))
        inside = (scan.time_s > odom.time_s[0] + 0.2) & (scan.time_s < odom.time_s[-1] - 0.2)
        at, angle = self.pose(scan.time_s, 0.0)
        chosen: list[int] = []
        for k in np.flatnonzero(inside).tolist():
            before = chosen[-1] if chosen else k
            if not chosen or abs(at[k] - at[before]) > _MOVED_M or abs(angle[k] - angle[before]) > _TURNED_RAD:
                chosen.append(k)
        chosen = chosen[:: -(-len(chosen) // _MOST)] if chosen else []
        self.time_s = scan.time_s[chosen]
        seen = [_surface(scan.values["scan"][k], lidar) for k in chosen]
        self.points = [points for points, _, _ in seen]
        self.lines = [(middle, normal) for _, middle, normal in seen]
        self.trees = [cKDTree(np.column_stack([middle.real, middle.imag])) for middle, _ in self.lines]

    def __len__(self) -> int:
        return len(self.time_s)

    def pose(self, at_s: Array, late_s: float) -> tuple[Points, Array]:
        """Return the base's places and headings when scans with stamps ``at_s`` were measured."""
        at_s = at_s - late_s
        x, y = (np.interp(at_s, self._odom_s, part) for part in (self._place.real, self._place.imag))
        return x + 1j * y, np.interp(at_s, self._odom_s, self._heading)


class _Pair:
    """Two scans, and which points of the second one lie on which lines of the first."""

    def __init__(self, scans: _Scans, one: int, other: int, values: Array, near_m: float) -> None:
        self._scans, self._which = scans, [one, other]
        self._points = scans.points[other]
        if not len(self._points) or not len(scans.lines[one][0]):
            self._points, self._middle, self._normal = (np.empty(0, dtype=complex),) * 3
            return
        seen = self._seen(values)
        apart, nearest = scans.trees[one].query(np.column_stack([seen.real, seen.imag]))
        good = apart < near_m
        middle, normal = scans.lines[one]
        self._points = self._points[good]
        self._middle, self._normal = middle[nearest[good]], normal[nearest[good]]

    def left(self, values: Array) -> Array:
        """Return how far the points are off their lines, m."""
        return np.real(np.conj(self._normal) * (self._seen(values) - self._middle))

    def _seen(self, values: Array) -> Points:
        """Return the second scan's points as the first one's lidar would see them."""
        sits, looks = values[0] + 1j * values[1], np.exp(1j * values[2])
        (first, second), heading = self._scans.pose(self._scans.time_s[self._which], float(values[3]))
        turn = np.exp(1j * heading)
        there = second + turn[1] * (sits + looks * self._points)
        return np.asarray(np.conj(looks) * (np.conj(turn[0]) * (there - first) - sits))


def _cost(pairs: Sequence[tuple[_Scans, int, int]], values: Array) -> float:
    """Return the share of points that belong to no line."""
    total = sum(len(scans.points[other]) for scans, _, other in pairs)
    found = sum(len(_Pair(*pair, values, 0.2).left(values)) for pair in pairs)
    return 1.0 - found / max(total, 1)


def _surface(ranges: Array, lidar: Lidar) -> tuple[Points, Points, Points]:
    """Return the points that a scan saw, and of those on lines, by their neighbours, the lines' middles and normals."""
    slack = 0.01 * (lidar.range_max_m - lidar.range_min_m)
    seen = np.isfinite(ranges) & (ranges > lidar.range_min_m + slack) & (ranges < lidar.range_max_m - slack)
    points = np.where(seen, ranges, 0.0) * np.exp(1j * lidar.angles_rad)
    width = 2 * _AROUND + 1
    index = np.arange(len(ranges))[:, None] + np.arange(-_AROUND, _AROUND + 1)
    turns = lidar.angle_increment_rad * len(ranges) > 2.0 * math.pi - 0.1
    inside = np.ones(index.shape, dtype=bool) if turns else (index >= 0) & (index < len(ranges))
    index %= len(ranges)
    whole = (seen[index] & inside).sum(axis=1) == width
    near = points[index]
    middle = near.mean(axis=1)
    off = near - middle[:, None]
    xx, yy, xy = (np.mean(a * b, axis=1) for a, b in ((off.real,) * 2, (off.imag,) * 2, (off.real, off.imag)))
    along = 0.5 * np.arctan2(2.0 * xy, xx - yy)
    half = np.hypot(0.5 * (xx - yy), xy)
    low, high = 0.5 * (xx + yy) - half, 0.5 * (xx + yy) + half
    line = whole & (low < _FLAT * high)
    return points[seen], middle[line], 1j * np.exp(1j * along[line])


def range_noise(recordings: Sequence[Recorded]) -> tuple[Array, Array] | None:
    """Return ``noise_m`` and ``noise_share`` of scans at rest, and their standard deviations; None: too few are."""
    steps, middles = [], []
    for recorded in recordings:
        scan, odom = recorded.tracks["scan"], recorded.tracks["odom"]
        speed, turn = odom.values["linear_velocity"][:, 0], odom.values["angular_velocity"][:, 2]
        for k in range(len(scan) - 1):
            inside = slice(*np.searchsorted(odom.time_s, [scan.time_s[k] - _STILL_S, scan.time_s[k + 1]]))
            if inside.stop - inside.start < 2:
                continue
            if abs(speed[inside].mean()) < _STILL_M_S and abs(turn[inside].mean()) < _STILL_RAD_S:
                one, other = scan.values["scan"][k : k + 2]
                steps.append((other - one) / math.sqrt(2.0))
                middles.append(0.5 * (one + other))
    if len(steps) < _LEAST_PAIRS:
        return None
    off, at = np.concatenate(steps), np.concatenate(middles)
    good = np.isfinite(off) & (off != 0.0)
    off, at = off[good], at[good]
    if len(off) < 100:
        return None
    bands = np.array_split(np.argsort(at), _BANDS)
    power = np.array([(1.4826 * np.median(np.abs(off[band]))) ** 2 for band in bands])
    rows = np.stack([np.ones(_BANDS), [float(np.mean(at[band] ** 2)) for band in bands]], axis=1)
    deviation = 2.0 * 1.166 * power / np.sqrt([len(band) for band in bands]) + 0.02 * power
    scaled = rows / deviation[:, None]
    spread = np.linalg.inv(scaled.T @ scaled)
    found = np.maximum(spread @ scaled.T @ (power / deviation), 0.0)
    values = np.sqrt(found)
    # of a square root; near 0 that of the square itself
    own = np.sqrt(np.diag(spread))
    return values, np.minimum(0.5 * own / np.maximum(values, 1e-9), np.sqrt(own))


class ScanRanges:
    """Reads ``LaserScan`` messages as the ranges of a lidar's rays; NaN for one that this lidar cannot have made."""

    def __init__(self, lidar: Lidar) -> None:
        geometry = scan_geometry(lidar)
        self._reader, self._frame, self._rays = ScanReader(geometry), geometry.frames[0], lidar.rays

    def __call__(self, message: Any) -> Array:
        """Return the ranges (rays,), m, wherever the message says that the lidar sits."""
        angles = message.angle_min, message.angle_increment
        try:
            return self._reader.signal(0, self._frame, *angles, message.range_min, message.range_max, message.ranges)
        except ValueError:
            return np.full(self._rays, np.nan)


def lidar_estimates(robot: WheeledBase, recordings: Sequence[Recorded]) -> list[Estimate]:
    """Return what recordings tell of the lidar ``scan``: pose, delay and noise."""
    lidar = robot.lidars.get("scan")
    if lidar is None or lidar.rings != 1:
        return []
    start = (*lidar.position_m[:2], lidar.rpy_rad[2], 0.0)
    places: tuple[Place, ...] = (("position_m", 0), ("position_m", 1), ("rpy_rad", 2), ())
    names = (("scan_x", "m"), ("scan_y", "m"), ("scan_yaw", "rad"), ("scan_delay", "s"))
    poses = [
        Parameter(name, unit, value, ("lidars", "scan", *place) if place else (), False, 1.0, needed, "")
        for (name, unit), value, place, needed in zip(names, start, places, _NEEDED)
    ]
    noises = [
        Parameter(f"scan_{key}", unit, getattr(lidar, key), ("lidars", "scan", key), False, 1.0, needed, "")
        for key, unit, needed in zip(("noise_m", "noise_share"), ("m", ""), _NOISE_NEEDED)
    ]
    if any("scan" not in recorded.tracks for recorded in recordings):
        return [_kept(one, "the recording has no scan") for one in (*poses, *noises)]
    found = matched(robot, recordings, lidar)
    walls = "record turns and straight drives, forwards and back, where walls stand in all directions"
    estimates = _estimates(poses, None if found is None else (found.values, found.deviation), walls, METHOD)
    still = "record some seconds at rest, with walls near and far"
    return estimates + _estimates(noises, range_noise(recordings), still, NOISE_METHOD)


def _kept(parameter: Parameter, why: str) -> Estimate:
    return Estimate(parameter, parameter.value, None, "kept", why)


def _estimates(
    parameters: Sequence[Parameter], found: tuple[Array, Array] | None, advice: str, method: str
) -> list[Estimate]:
    if found is None:
        return [_kept(one, f"too few scans tell it: {advice}") for one in parameters]
    estimates = []
    for one, value, half in zip(parameters, found[0], Z90 * found[1]):
        if not half <= one.needed:
            unit = f" {one.unit}" if one.unit else ""
            only = f"the recording tells it to {half:.2g}{unit} only (at most {one.needed:.2g}{unit} are wanted)"
            estimates.append(_kept(one, f"{only}: {advice}"))
        else:
            low, high = float(value - half), float(value + half)
            estimates.append(Estimate(one, float(value), (low, high), "told", "", method))
    return estimates
