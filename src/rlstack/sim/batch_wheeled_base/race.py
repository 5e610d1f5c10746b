"""Race simulation: N cars, each alone on its track."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.fused import zeros
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.simulator import PlanarSimulator
from rlstack.sim.batch_wheeled_base.wall_lidar import WallLidar
from rlstack.sim.maps.tracks import CORNERS, SAMPLES, Track
from rlstack.sim.sensing.noise import noisy_ranges

BEHIND, AHEAD = 8, 36
"""Corners of each wall around a car that its lidar may hit."""

_AROUND = 4
"""Corners in either direction that its outline may touch: more than a metre."""


class TrackProgress:
    """Progress of cars along their tracks, and their clearance from the walls.

    Args:
        tracks: One track for each of N cars.
        robot: The car, for its outline.
    """

    def __init__(self, tracks: Sequence[Track], robot: WheeledBase) -> None:
        self.tracks, self._outline = tuple(tracks), outline(robot)
        self._middle = np.stack([t.middle for t in tracks])
        self._tangent = np.stack([t.tangent for t in tracks])
        self._curvature = np.stack([t.curvature for t in tracks])
        self._walls = np.stack([np.stack([t.left, t.right]) for t in tracks])
        self.length_m = np.array([t.length_m for t in tracks])
        self._cars = np.arange(len(tracks))
        self._index: NDArray[np.intp] = np.zeros(len(tracks), dtype=np.intp)
        self._laps = np.zeros(len(tracks), dtype=int)

    def start(self) -> None:
        """Reset all cars to the start of their tracks."""
        self._index[:], self._laps[:] = 0, 0

    def follow(self, position: Array) -> Array:
        """Return the progress (N,) of cars at (N, 2) along the centre line since the start, m; call it every period."""
        reach = np.arange(-16, 24)
        near = (self._index[:, None] + reach) % SAMPLES
        points = self._middle[self._cars[:, None], near]
        best = reach[((position[:, None] - points) ** 2).sum(axis=2).argmin(axis=1)]
        self._laps += (self._index + best) // SAMPLES
        self._index = (self._index + best) % SAMPLES
        offset = position - self._middle[self._cars, self._index]
        tangent, bend = self._tangent[self._cars, self._index], self._curvature[self._cars, self._index]
        ahead = (offset * tangent).sum(axis=1)
        left = offset[:, 1] * tangent[:, 0] - offset[:, 0] * tangent[:, 1]
        return self.length_m * (self._laps + self._index / SAMPLES) + ahead / (1.0 - bend * left)

    def walls(self) -> Array:
        """Return the walls (N, 2, BEHIND + AHEAD, 2) around the cars, left and right, m."""
        first = self._index // (SAMPLES // CORNERS)
        near = (first[:, None] + np.arange(-BEHIND, AHEAD)) % CORNERS
        return self._walls[self._cars[:, None, None], np.arange(2)[None, :, None], near[:, None, :]]

    def clearance(self, pose: Array) -> Array:
        """Return the least distance of cars' outlines at (N, 3), x, y, yaw, from the walls, m; negative across one."""
        c, s = np.cos(pose[:, 2:]), np.sin(pose[:, 2:])
        x, y = self._outline.T
        points = np.stack([pose[:, :1] + c * x - s * y, pose[:, 1:2] + s * x + c * y], axis=2)[:, :, None]
        least = np.full(len(pose), np.inf)
        near = self.walls()[:, :, BEHIND - _AROUND : BEHIND + _AROUND + 2]
        for side, wall in zip((1.0, -1.0), np.moveaxis(near, 1, 0)):
            begin, edge = wall[:, None, :-1], np.diff(wall, axis=1)[:, None]
            offset = points - begin
            share = np.clip((offset * edge).sum(axis=3) / (edge * edge).sum(axis=3), 0.0, 1.0)
            away = np.linalg.norm(offset - share[..., None] * edge, axis=3)
            nearest = away.argmin(axis=2)[..., None]
            # on the track's side of the nearest wall piece
            inside = side * (offset[..., 0] * edge[..., 1] - offset[..., 1] * edge[..., 0]) > 0.0
            sign = np.where(np.take_along_axis(inside, nearest, axis=2), 1.0, -1.0)
            least = np.minimum(least, (sign * np.take_along_axis(away, nearest, axis=2)).min(axis=(1, 2)))
        return least


def outline(robot: WheeledBase, spacing_m: float = 0.05) -> Array:
    """Return points (K, 2) on the outline of a base, m in base_link, at most ``spacing_m`` apart."""
    corners = robot.corners_m
    points = []
    for begin, end in zip(corners, np.roll(corners, -1, axis=0)):
        pieces = max(1, int(np.ceil(np.linalg.norm(end - begin) / spacing_m)))
        points += [begin + (end - begin) * k / pieces for k in range(pieces)]
    return np.array(points)


class RaceSimulator(PlanarSimulator):
    """N cars, each alone on its track, at rest at the start.

    Args:
        robot: The car; its lidar is called ``scan``.
        tracks: N.
        settings: ``rate_hz``, ``parameters`` and ``seed`` of :class:`.simulator.PlanarSimulator`.
    """

    def __init__(self, robot: WheeledBase, tracks: Sequence[Track], **settings: Any) -> None:
        count = len(tracks)
        super().__init__(robot, count, **settings)
        self.progress = TrackProgress(tracks, robot)
        self._lidar = lidar = robot.lidars["scan"]
        corners = BEHIND + AHEAD
        self._walls, self._ranges = zeros(4 * corners, count), zeros(lidar.rays, count)
        self._measure = WallLidar(lidar, corners).prepare(self._state, self._walls, self._ranges)
        self.progress.start()
        self.progress_m = np.zeros(count)
        """(N,) progress along the centre line since the start, m."""

    def step(self, command: Array) -> None:
        """Advance one period under ``command`` (N, 2), m/s and rad/s, which arrives now."""
        super().step(command)
        self.progress_m = self.progress.follow(self.pose()[:, :2])

    def scan(self) -> Array:
        """Return ranges (N, rays) m with the robot file's noise and dropouts, all finite, as the signal ``scan``."""
        lidar = self._lidar
        self._walls[:] = self.progress.walls().reshape(self.count, -1).T
        self._measure()
        hit = np.where(self._ranges < lidar.range_max_m, self._ranges, np.inf).T  # noise is of returns
        return finite_ranges(
            noisy_ranges(hit.astype(float), lidar, self._rng),
            increment_rad=lidar.angle_increment_rad,
            range_min_m=lidar.range_min_m,
            range_max_m=lidar.range_max_m,
            turns=lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3,
        )

    def clearance(self) -> Array:
        """Return the clearance (N,) of each outline from the walls, m; negative across one."""
        return self.progress.clearance(self.pose())
