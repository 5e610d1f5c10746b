"""People tracking from planar lidar scans: segmentation, circle fits, a Kalman filter for each person.

A scan is split where neighbouring points are far apart. A round segment as wide as a person is a detection; walls and
furniture are too long or too straight. Each track is a constant-velocity Kalman filter; detections are assigned to
tracks by least total distance. A half occluded track follows its visible part; an occluded one is predicted for a
second.

Many robots are processed at once, each with its own people, vectorized over rays and tracks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from rlstack.arrays import Array, Mask
from rlstack.interfaces.signals import FAR_M
from rlstack.schema import value

_ARC_DEPTH = 0.78
"""Mean distance, in radii, by which rays at equal angles hit a circle in front of its centre."""
_NEVER = 1e6


@dataclass(frozen=True, kw_only=True)
class TrackerSettings:
    """Settings of detection and tracking."""

    gap_m: float = value(0.10, unit="m", above=0.0)
    """Points farther apart than this and ``gap_rays`` times their spacing belong to different segments."""
    gap_rays: float = value(2.0, at_least=0.0)
    least_points: int = value(4, at_least=3)
    width_m: tuple[float, float] = value((0.15, 0.75), unit="m", above=0.0)
    """Least and greatest width of a person's segment."""
    radius_m: tuple[float, float] = value((0.12, 0.45), unit="m", above=0.0)
    """Least and greatest radius of the circle fitted to a person's points."""
    residual_m: float = value(0.025, unit="m", above=0.0)
    """Greatest root mean square distance of a person's points from that circle."""
    reach_m: float = value(6.0, unit="m", above=0.0)
    """Greatest range of detections."""
    gate_m: float = value(0.5, unit="m", above=0.0)
    """Greatest distance of a detection from the predicted position of its track."""
    noise_m: float = value(0.04, unit="m", above=0.0)
    """Standard deviation of a detection; three times as much for a half occluded one."""
    acceleration_m_s2: float = value(1.5, unit="m/s^2", above=0.0)
    """Standard deviation of people's accelerations."""
    speed_m_s: float = value(0.7, unit="m/s", above=0.0)
    """Standard deviation of the speed of a new track."""
    confirm: int = value(3, at_least=1)
    """Detections until a track is confirmed."""
    keep_s: float = value(1.0, unit="s", at_least=0.0)
    """How long a confirmed track survives without detections."""
    slots: int = value(20, at_least=1)
    """Most tracks per robot."""


class PeopleTracker:
    """Tracks the people around N robots.

    Args:
        angles_rad: (rays,) ray angles in the lidar's frame, ascending.
        range_max_m: Ranges of this or more are misses.
        count: N.
        mount: x, y, yaw of the lidar in base_link, m and rad.
        settings: Settings of detection and tracking.
    """

    def __init__(
        self,
        angles_rad: Array,
        range_max_m: float,
        count: int = 1,
        mount: tuple[float, float, float] = (0.0, 0.0, 0.0),
        settings: TrackerSettings | None = None,
    ) -> None:
        self.settings = settings or TrackerSettings()
        self._angles, self._max, self._mount = np.asarray(angles_rad, dtype=float), range_max_m, mount
        step = float(np.diff(self._angles).mean())
        self._step = step
        self._around = abs(self._angles[-1] - self._angles[0] + step - 2.0 * np.pi) < 0.5 * step
        self._next_id = 0
        self.reset(count)

    def reset(self, count: int) -> None:
        """Drop all tracks, for N robots."""
        slots = self.settings.slots
        self.position = np.full((count, slots, 2), FAR_M)
        """(N, slots, 2) m, odom."""
        self.velocity = np.zeros((count, slots, 2))
        """(N, slots, 2) m/s, odom."""
        self.radius = np.full((count, slots), 0.25)
        """(N, slots) m."""
        self.identity = np.zeros((count, slots), dtype=np.int64)
        """(N, slots): a number that identifies a person over time."""
        # variances of position and velocity and their covariance, the same along both axes
        self._spread = np.zeros((count, slots, 3))
        self._alive: Mask = np.zeros((count, slots), dtype=bool)
        self._hits = np.zeros((count, slots), dtype=np.int64)
        self._unseen_s = np.zeros((count, slots))

    @property
    def confirmed(self) -> Mask:
        """(N, slots): which tracks are confirmed."""
        return self._alive & (self._hits >= self.settings.confirm)

    def signals(self) -> dict[str, Array]:
        """Return ``people_position``, ``people_velocity`` (N, slots, 3) and ``people_radius`` (N, slots)."""
        there = self.confirmed
        level = np.zeros((*there.shape, 1))
        place = np.where(there[..., None], self.position, [FAR_M, 0.0])
        velocity = np.where(there[..., None], self.velocity, 0.0)
        return {
            "people_position": np.concatenate([place, level], axis=-1),
            "people_velocity": np.concatenate([velocity, level], axis=-1),
            "people_radius": np.where(there, self.radius, 0.01),
        }

    def update(self, ranges: Array, pose: Array, period_s: float) -> None:
        """Update the tracks with a scan.

        Args:
            ranges: (N, rays) m, all finite, as the signal ``scan``.
            pose: (N, 3): x, y, yaw of base_link in odom at the time of the scan, m and rad.
            period_s: Time since the previous scan.
        """
        self._predict(period_s)
        robot, centre, radius, sure = self._detect(np.asarray(ranges, dtype=float), np.asarray(pose, dtype=float))
        for which in (True, False):
            chosen = np.flatnonzero(sure == which)
            taken = self._assign(robot[chosen], centre[chosen], radius[chosen], which)
            if which:
                new = chosen[~taken]
                self._begin(robot[new], centre[new], radius[new])
        self._forget()

    def _predict(self, period_s: float) -> None:
        h, place, velocity, both = period_s, *np.moveaxis(self._spread, -1, 0)
        jolt = self.settings.acceleration_m_s2**2
        self.position += np.where(self._alive[..., None], h * self.velocity, 0.0)
        self._spread = np.stack(
            [
                place + 2.0 * h * both + h * h * velocity + 0.25 * h**4 * jolt,
                velocity + h * h * jolt,
                both + h * velocity + 0.5 * h**3 * jolt,
            ],
            axis=-1,
        )
        self._unseen_s += h

    def _detect(self, ranges: Array, pose: Array) -> tuple[NDArray[np.int64], Array, Array, Mask]:
        """Return the candidates' robots, centres (n, 2) in odom, radii, and whether each is a certain detection."""
        s = self.settings
        count, rays = ranges.shape
        cos, sin = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        x0 = pose[:, 0] + cos * self._mount[0] - sin * self._mount[1]
        y0 = pose[:, 1] + sin * self._mount[0] + cos * self._mount[1]
        turned = self._angles + (pose[:, 2:] + self._mount[2])
        dx, dy = ranges * np.cos(turned), ranges * np.sin(turned)
        seen = ranges < min(self._max - 1e-3, s.reach_m + 1.0)
        jump = np.hypot(np.diff(dx, axis=1), np.diff(dy, axis=1))
        least = np.minimum(ranges[:, 1:], ranges[:, :-1])
        cut = np.ones((count, rays), dtype=bool)
        cut[:, 1:] = (jump > s.gap_m + s.gap_rays * self._step * least) | ~seen[:, 1:] | ~seen[:, :-1]
        if self._around:
            # a segment may lie across the scan's ends: begin each robot's rays at its first cut
            joined = np.hypot(dx[:, 0] - dx[:, -1], dy[:, 0] - dy[:, -1])
            near = np.minimum(ranges[:, 0], ranges[:, -1])
            cut[:, 0] = (joined > s.gap_m + s.gap_rays * self._step * near) | ~seen[:, 0] | ~seen[:, -1]
            first = np.argmax(cut, axis=1)
            order = (first[:, None] + np.arange(rays)) % rays
            dx, dy, seen, cut = (np.take_along_axis(a, order, axis=1) for a in (dx, dy, seen, cut))
            cut[:, 0] = True
        flat = np.flatnonzero(seen.ravel())
        if not len(flat):
            return np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=bool)
        piece = np.cumsum(cut.ravel())[flat]
        begin = np.flatnonzero(np.concatenate([[True], np.diff(piece) > 0]))
        points = np.diff(np.append(begin, len(flat)))
        robot = flat[begin] // rays
        px, py = dx.ravel()[flat], dy.ravel()[flat]
        width = np.hypot(px[begin + points - 1] - px[begin], py[begin + points - 1] - py[begin])
        kept = (points >= s.least_points) & (width <= s.width_m[1] + 0.2)
        begin, points, robot, width = begin[kept], points[kept], robot[kept], width[kept]
        if not len(begin):
            return robot, np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=bool)
        # the points of the remaining segments, side by side
        index = np.repeat(begin - np.concatenate([[0], np.cumsum(points)[:-1]]), points) + np.arange(points.sum())
        px, py, starts = px[index], py[index], np.concatenate([[0], np.cumsum(points)[:-1]])
        mx, my = np.add.reduceat(px, starts) / points, np.add.reduceat(py, starts) / points
        fit_x, fit_y, fit, residual = _circles(px, py, mx, my, starts, points)
        away = np.hypot(mx, my)
        outward = fit_x * mx + fit_y * my > 0.0  # the circle's centre lies behind its points
        round_ = outward & (fit >= s.radius_m[0]) & (fit <= s.radius_m[1]) & (residual <= s.residual_m)
        sure = round_ & (width >= s.width_m[0]) & (width <= s.width_m[1]) & (points > 4) & (away <= s.reach_m)
        radius = np.clip(np.where(sure, 0.5 * width, 0.25), *s.radius_m)
        depth = 1.0 + _ARC_DEPTH * radius / np.maximum(away, 1e-6)
        centre = np.stack([x0[robot] + mx * depth, y0[robot] + my * depth], axis=1)
        return robot, centre, radius, sure

    def _assign(self, robot: NDArray[np.int64], centre: Array, radius: Array, sure: bool) -> Mask:
        """Correct the tracks not yet corrected; return which detections were used."""
        s = self.settings
        taken = np.zeros(len(robot), dtype=bool)
        if not len(robot):
            return taken
        open_ = self._alive & (self._unseen_s > 0.0)
        # uncertain detections only update confirmed tracks
        open_ = open_ if sure else open_ & (self._hits >= s.confirm)
        away = np.linalg.norm(self.position[robot] - centre[:, None], axis=2)
        gate = s.gate_m if sure else 0.7 * s.gate_m
        cost = np.where(open_[robot] & (away < gate), away, _NEVER)
        hopeful = np.flatnonzero(cost.min(axis=1) < _NEVER)
        if not len(hopeful):
            return taken
        bounds = np.flatnonzero(np.diff(robot[hopeful])) + 1
        pairs: list[tuple[int, int]] = []
        for group in np.split(hopeful, bounds):
            if len(group) == 1:
                pairs.append((int(group[0]), int(np.argmin(cost[group[0]]))))
                continue
            rows, columns = linear_sum_assignment(cost[group])
            pairs += [(int(group[r]), int(c)) for r, c in zip(rows, columns) if cost[group[r], c] < _NEVER]
        chosen, slot = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        taken[chosen] = True
        self._correct(robot[chosen], slot, centre[chosen], radius[chosen], sure)
        return taken

    def _correct(
        self, robot: NDArray[np.int64], slot: NDArray[np.int64], centre: Array, radius: Array, sure: bool
    ) -> None:
        at = robot, slot
        place, velocity, both = self._spread[at].T
        noise = (self.settings.noise_m * (1.0 if sure else 3.0)) ** 2
        gain, pull = place / (place + noise), both / (place + noise)
        error = centre - self.position[at]
        self.position[at] += gain[:, None] * error
        self.velocity[at] += pull[:, None] * error
        self._spread[at] = np.stack([place * (1.0 - gain), velocity - pull * both, both * (1.0 - gain)], axis=1)
        self._unseen_s[at] = 0.0
        if sure:
            self._hits[at] += 1
            self.radius[at] += 0.2 * (radius - self.radius[at])

    def _begin(self, robot: NDArray[np.int64], centre: Array, radius: Array) -> None:
        """Start tracks at unassigned detections."""
        for k, where, size in zip(robot, centre, radius):
            free = np.flatnonzero(~self._alive[k])
            if not len(free):
                continue
            at = k, free[0]
            self.position[at], self.velocity[at], self.radius[at] = where, 0.0, size
            self._spread[at] = self.settings.noise_m**2, self.settings.speed_m_s**2, 0.0
            self._alive[at], self._hits[at], self._unseen_s[at] = True, 1, 0.0
            self.identity[at] = self._next_id
            self._next_id += 1

    def _forget(self) -> None:
        """Delete tracks that were unseen for too long or never confirmed."""
        known = self._hits >= self.settings.confirm
        keep = np.where(known, self.settings.keep_s, 0.15)
        self._alive &= self._unseen_s <= keep + 1e-9


def _circles(
    x: Array, y: Array, mean_x: Array, mean_y: Array, starts: NDArray[np.int64], points: NDArray[np.int64]
) -> tuple[Array, Array, Array, Array]:
    """Fit a circle to each segment by least squares (Kasa, 1976): centre from the mean, radius, residual, m."""
    u, v = x - np.repeat(mean_x, points), y - np.repeat(mean_y, points)

    def total(values: Array) -> Array:
        return np.asarray(np.add.reduceat(values, starts))

    square = u * u + v * v
    uu, vv, uv = total(u * u), total(v * v), total(u * v)
    a, b = 0.5 * total(u * square), 0.5 * total(v * square)
    determinant = uu * vv - uv * uv
    straight = determinant < 1e-9
    determinant = np.where(straight, 1.0, determinant)
    cx, cy = (a * vv - b * uv) / determinant, (b * uu - a * uv) / determinant
    radius = np.sqrt(cx * cx + cy * cy + (uu + vv) / points)
    off = np.hypot(u - np.repeat(cx, points), v - np.repeat(cy, points)) - np.repeat(radius, points)
    residual = np.sqrt(total(off * off) / points)
    return cx, cy, np.where(straight, np.inf, radius), np.where(straight, np.inf, residual)
