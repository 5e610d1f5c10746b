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
"""A larger step of odometry between two control periods is a jump, m, which voids the map."""

_BLIND_M = 0.1
"""A lidar whose minimum range ends this far beyond the footprint is blind near the base, m; margins cover less."""


class Status(IntEnum):
    """Progress of one robot; reported by its name in lower case."""

    DRIVING = 0
    ARRIVED = 1
    UNREACHABLE = 2
    """No path leads to the goal."""
    STUCK = 3
    """No progress for the time in the planner's settings, although there may be a path."""


class Planner(Protocol):
    """Drives bases: a planner, or a policy file with the same methods.

    ``inputs`` and ``outputs`` are names of signals; ``status`` (N,) holds a :class:`Status` for each robot.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    status: NDArray[np.int8]

    def reset(self, batch: int = 1) -> None:
        """Reset the state, for ``batch`` robots."""

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
        hit: (N, rays) whether something was hit there.
        ranges: (N, rays) m, from the lidar.
    """

    points: Array
    hit: NDArray[np.bool_]
    ranges: Array

    @staticmethod
    def none(count: int) -> ScanPoints:
        """Return no points, for ``count`` robots without a lidar."""
        return ScanPoints(np.zeros((count, 0, 2)), np.zeros((count, 0), dtype=bool), np.zeros((count, 0)))


@dataclass(frozen=True)
class People:
    """People around N robots, in odom or in the frames of the robots; absent people are far away.

    Args:
        position: (N, people, 2) m.
        velocity: (N, people, 2) m/s.
        radius: (N, people) m.
    """

    position: Array
    velocity: Array
    radius: Array

    def in_base(self, motion: Motion) -> People:
        """Return people in odom as seen from their robots."""
        return People(motion.to_base(self.position), turned(self.velocity, -motion.heading), self.radius)


class Scanner:
    """Turns scans into points.

    Args:
        lidar: The robot's lidar; scans are as in the signal ``scan``: finite, ``range_max_m`` without a return.
        discs: Discs of the base's footprint. Where ``range_min_m`` ends far beyond them, returns that are too close to
            measure count as just outside the footprint; elsewhere, and without discs, as at ``range_min_m``.

    ``misses`` tells whether the lidar is blind somewhere around the base: close to it, or in directions without rays.
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
        """Return the points of scans (N, rays).

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
        """Return which points (points, 2) m, ``base_link``, the lidar cannot measure.

        They are closer than its minimum range, by ``slack_m`` at least, or in directions without rays.
        """
        lidar, away = self.lidar, points - self.origin
        first = lidar.angle_min_rad + self._forward
        turn = (np.arctan2(away[:, 1], away[:, 0]) - first) % (2.0 * np.pi)
        beyond = turn > lidar.angle_increment_rad * lidar.rays
        return np.asarray((np.linalg.norm(away, axis=1) + slack_m < lidar.range_min_m) | beyond)


def motion(inputs: Mapping[str, Array]) -> Motion:
    """Return poses and velocities from signals; missing velocities are zero."""
    position = np.asarray(inputs["position"], dtype=float)
    still = np.zeros((len(position), 3))
    return Motion(
        position[:, :2],
        frames.yaw(inputs["orientation"]),
        np.asarray(inputs.get("linear_velocity", still), dtype=float)[:, 0],
        np.asarray(inputs.get("angular_velocity", still), dtype=float)[:, 2],
    )


def people(inputs: Mapping[str, Array]) -> People | None:
    """Return the people from signals; None if there are none."""
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
    """Return vectors (N, 2) reshaped to broadcast with an array (N, ..., 2)."""
    return vectors.reshape(len(vectors), *(1,) * (like.ndim - 2), 2)
