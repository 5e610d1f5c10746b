"""The interface of all planners, and the signals that they read: motion, scans, people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import Lidar, frames

POSE = ("position", "orientation")
MOTION = ("linear_velocity", "angular_velocity")
PEOPLE = ("people_position", "people_velocity", "people_radius")

JUMP_M = 1.0
"""Odometry that goes further than this from one step to the next has jumped, m: what was mapped is void."""

_BLIND_M = 0.1
"""A lidar that measures only from so far beyond the footprint on is blind near it; less is covered by margins."""


class Status(IntEnum):
    """Progress of one robot; reported by its name in lower case."""

    DRIVING = 0
    ARRIVED = 1
    UNREACHABLE = 2
    """No way leads to the goal."""
    STUCK = 3
    """There may be a way, but no progress for as long as the planner's settings say."""


class Driver(Protocol):
    """Drives bases: a planner, or a policy file with the same methods.

    ``inputs`` and ``outputs`` are names of signals; ``status`` (N,) holds a :class:`Status` for each robot.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    status: NDArray[np.int8]

    def reset(self, batch: int = 1) -> None:
        """Forget everything; from now on there are ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands by name, (N, 2) m/s and rad/s for ``twist``, for signals with a leading batch axis."""


@dataclass(frozen=True)
class Motion:
    """Poses and velocities of N robots.

    Args:
        position: (N, 2) m, odom.
        heading: (N,) rad.
        speed: (N,) m/s, along the base's x.
        turning: (N,) rad/s.
    """

    position: Array
    heading: Array
    speed: Array
    turning: Array

    def to_base(self, points: Array) -> Array:
        """Return points (N, ..., 2) of the odom frame in the base's."""
        return turned(points - spread(self.position, points), -self.heading)


@dataclass(frozen=True)
class ScanPoints:
    """Points that N scans hit.

    Args:
        points: (N, rays, 2) m, ``base_link``, at the end of each ray.
        hit: (N, rays) whether something was met there.
        ranges: (N, rays) m, from the lidar.
    """

    points: Array
    hit: NDArray[np.bool_]
    ranges: Array

    @staticmethod
    def none(count: int) -> ScanPoints:
        """Return those of ``count`` robots without a lidar."""
        return ScanPoints(np.zeros((count, 0, 2)), np.zeros((count, 0), dtype=bool), np.zeros((count, 0)))


@dataclass(frozen=True)
class People:
    """People around N robots, in odom; those who are not there are far away.

    Args:
        position: (N, people, 2) m.
        velocity: (N, people, 2) m/s.
        radius: (N, people) m.
    """

    position: Array
    velocity: Array
    radius: Array


class Scanner:
    """Turns scans into points.

    Args:
        lidar: Of the robot; its scans as the signal ``scan`` has them: finite, ``range_max_m`` where nothing was met.
        discs: Of the base's footprint: where ``range_min_m`` reaches far beyond them, what is too near to be measured
            is taken to be close outside of them. Elsewhere, and without them, it is taken to be at ``range_min_m``.

    ``misses`` is whether the lidar is blind somewhere around the base: so near to it, or where no ray goes.
    """

    def __init__(self, lidar: Lidar, discs: tuple[tuple[float, float, float], ...] = ()) -> None:
        self.lidar = lidar
        forward = lidar.rotation[:2, 0]
        angles = lidar.angles_rad + np.arctan2(forward[1], forward[0])
        self.origin = lidar.position[:2]
        self._forward = float(np.arctan2(forward[1], forward[0]))
        self.rays = np.column_stack((np.cos(angles), np.sin(angles)))
        leaves = np.zeros(lidar.rays)
        for x, y, radius in discs:
            along = self.rays @ (np.array([x, y]) - self.origin)
            across = np.hypot(*(self.origin - (x, y))) ** 2 - along * along
            far = along + np.sqrt(np.maximum(radius * radius - across, 0.0))
            leaves = np.where(across < radius * radius, np.maximum(leaves, far), leaves)
        least = lidar.range_min_m
        self._outside = leaves < least  # where it is not, the base itself was met
        seen_late = self._outside & (leaves > 0.0) & (least - leaves > _BLIND_M)
        self._nearest = np.where(seen_late, leaves + 0.25 * (least - leaves), least)
        all_around = lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3
        self.misses = bool(seen_late.any()) or not all_around

    def read(self, scan: Array) -> ScanPoints:
        """Return what scans (N, rays) met.

        Raises:
            UserError: They have another number of rays than the lidar.
        """
        ranges = np.asarray(scan, dtype=float)
        if ranges.ndim != 2 or ranges.shape[1] != self.lidar.rays:
            raise UserError(
                f"A scan of {ranges.shape[-1]} rays was given, but the robot file's lidar has {self.lidar.rays}:"
                " resample the scan, or drive with the robot file of this lidar."
            )
        measured = ranges > self.lidar.range_min_m * 1.001
        hit = (ranges < self.lidar.range_max_m * (1.0 - 1e-3)) & (measured | self._outside)
        ranges = np.where(measured, ranges, self._nearest)
        return ScanPoints(self.origin + ranges[..., None] * self.rays, hit, ranges)

    def blind(self, points: Array, slack_m: float) -> NDArray[np.bool_]:
        """Return which points (points, 2) m, ``base_link``, are too near for the lidar or where no ray goes.

        Those that are too near are so even if they are ``slack_m`` farther away.
        """
        lidar, away = self.lidar, points - self.origin
        first = lidar.angle_min_rad + self._forward
        turn = (np.arctan2(away[:, 1], away[:, 0]) - first) % (2.0 * np.pi)
        beyond = turn > lidar.angle_increment_rad * lidar.rays
        return np.asarray((np.linalg.norm(away, axis=1) + slack_m < lidar.range_min_m) | beyond)


def motion(inputs: Mapping[str, Array]) -> Motion:
    """Return where the robots are; velocities that are not among the signals count as zero."""
    position = np.asarray(inputs["position"], dtype=float)
    still = np.zeros((len(position), 3))
    return Motion(
        position[:, :2],
        frames.yaw(inputs["orientation"]),
        np.asarray(inputs.get("linear_velocity", still), dtype=float)[:, 0],
        np.asarray(inputs.get("angular_velocity", still), dtype=float)[:, 2],
    )


def people(inputs: Mapping[str, Array]) -> People | None:
    """Return the people among the signals, or None."""
    if "people_position" not in inputs or inputs["people_position"].shape[1] == 0:
        return None
    position, velocity = (np.asarray(inputs[name], dtype=float)[..., :2] for name in PEOPLE[:2])
    return People(position, velocity, np.asarray(inputs["people_radius"], dtype=float))


def turned(points: Array, angle: Array) -> Array:
    """Return points (N, ..., 2) turned about the origin by angles (N,)."""
    shape = (-1,) + (1,) * (points.ndim - 2)
    cos, sin = np.cos(angle).reshape(shape), np.sin(angle).reshape(shape)
    x, y = points[..., 0], points[..., 1]
    return np.stack((cos * x - sin * y, sin * x + cos * y), axis=-1)


def spread(vectors: Array, like: Array) -> Array:
    """Return vectors (N, 2) with axes of length 1 put in, to go with an array (N, ..., 2)."""
    return vectors.reshape(len(vectors), *(1,) * (like.ndim - 2), 2)
