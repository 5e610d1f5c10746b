"""Analytic distances and ray casts in numpy: the reference for every engine's collisions and rays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.sim.obstacle import Obstacle

_AT_ONCE = 1 << 16
"""Point-obstacle pairs per block, so that their arrays fit in the processor's cache."""


class Shapes:
    """Obstacles grouped by shape, for arrays of points and rays.

    Args:
        obstacles: Obstacles in any order.
        floor: Whether the half-space below z = 0 is solid too.
    """

    def __init__(self, obstacles: Sequence[Obstacle], floor: bool = False) -> None:
        self._floor = floor
        self._kinds: list[tuple[_Kind, Array]] = []
        for name, kind in _KINDS.items():
            rows = [
                (*o.position_m, np.cos(o.yaw_rad), np.sin(o.yaw_rad), *(0.5 * np.asarray(o.size_m)))
                for o in obstacles
                if o.shape == name
            ]
            if rows:
                self._kinds.append((kind, np.array(rows, dtype=np.float64).T))

    def distance(self, points: Array, floor: bool = True) -> Array:
        """Return the signed distance (N,) in m of points (N, 3) to the nearest surface; inf without any."""
        nearest = points[:, 2].copy() if self._floor and floor else np.full(len(points), np.inf)
        for (signed_distance, _), table in self._kinds:
            for rows in _blocks(len(points), table.shape[1]):
                local, half = _into(points[rows], table), table[5:]
                np.minimum(nearest[rows], signed_distance(local, half).min(axis=1), out=nearest[rows])
        return nearest

    def cast(self, origins: Array, directions: Array) -> Array:
        """Return the lengths (R,) in m of rays from origins (R, 3) along unit directions (R, 3); inf without a hit.

        A ray that starts inside an obstacle ends where it leaves it.
        """
        reach = np.full(len(origins), np.inf)
        if self._floor:
            down = (directions[:, 2] < 0.0) & (origins[:, 2] >= 0.0)
            reach[down] = -origins[down, 2] / directions[down, 2]
        for (_, interval), table in self._kinds:
            for rows in _blocks(len(origins), table.shape[1]):
                with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                    enters, leaves = interval(_into(origins[rows], table), _turned(directions[rows], table), table[5:])
                met = np.where(enters >= 0.0, enters, leaves)
                met[~((enters <= leaves) & (leaves >= 0.0))] = np.inf  # also if either is NaN
                np.minimum(reach[rows], met.min(axis=1), out=reach[rows])
        return reach


_EDGE_M = 1e-9

Local = tuple[Array, Array, Array]
"""x, y, z in each obstacle's frame, (rows, obstacles) each."""

_Kind = tuple[Callable[[Local, Array], Array], Callable[[Local, Local, Array], tuple[Array, Array]]]
"""Functions for signed distances and for a line's entry and exit; last argument: half extents (3, obstacles)."""


def _blocks(rows: int, columns: int) -> list[slice]:
    step = max(1, _AT_ONCE // columns)
    return [slice(first, first + step) for first in range(0, rows, step)]


def _into(points: Array, table: Array) -> Local:
    x, y, z = (points[:, axis, None] - table[axis] for axis in range(3))
    return table[3] * x + table[4] * y, table[3] * y - table[4] * x, z


def _turned(directions: Array, table: Array) -> Local:
    x, y, z = (directions[:, axis, None] for axis in range(3))
    return table[3] * x + table[4] * y, table[3] * y - table[4] * x, np.broadcast_to(z, (len(z), table.shape[1]))


def _box_distance(at: Local, half: Array) -> Array:
    x, y, z = (np.abs(a) - h for a, h in zip(at, half))
    outside = np.sqrt(np.maximum(x, 0.0) ** 2 + np.maximum(y, 0.0) ** 2 + np.maximum(z, 0.0) ** 2)
    return outside + np.minimum(np.maximum(np.maximum(x, y), z), 0.0)


def _cylinder_distance(at: Local, half: Array) -> Array:
    across, along = np.hypot(at[0], at[1]) - half[0], np.abs(at[2]) - half[2]
    return np.hypot(np.maximum(across, 0.0), np.maximum(along, 0.0)) + np.minimum(np.maximum(across, along), 0.0)


def _sphere_distance(at: Local, half: Array) -> Array:
    return np.sqrt(at[0] ** 2 + at[1] ** 2 + at[2] ** 2) - half[0]


def _slab(at: Array, direction: Array, half: Array) -> tuple[Array, Array]:
    """Return the interval in which a line is between -half and half; (inf, -inf) if empty."""
    one, other = (-half - at) / direction, (half - at) / direction
    level = direction == 0.0
    # rounding must not open gaps between shapes that touch
    always = np.where(np.abs(at) <= half + _EDGE_M, np.inf, -np.inf)
    enters = np.where(level, -always, np.minimum(one, other))
    return enters, np.where(level, always, np.maximum(one, other))


def _box_interval(at: Local, direction: Local, half: Array) -> tuple[Array, Array]:
    slabs = [_slab(a, d, h) for a, d, h in zip(at, direction, half)]
    enters = np.maximum(np.maximum(slabs[0][0], slabs[1][0]), slabs[2][0])
    return enters, np.minimum(np.minimum(slabs[0][1], slabs[1][1]), slabs[2][1])


def _cylinder_interval(at: Local, direction: Local, half: Array) -> tuple[Array, Array]:
    (x, y, z), (u, v, w) = at, direction
    across = u * u + v * v
    # By the line's least distance from the axis instead of the quadratic's roots: exact even far from a thin pole.
    least = (x * v - y * u) ** 2 / across
    middle, reach = -(x * u + y * v) / across, np.sqrt((half[0] ** 2 - least) / across)
    inside = x * x + y * y <= half[0] ** 2
    level = across == 0.0
    enters = np.where(level, np.where(inside, -np.inf, np.inf), middle - reach)
    leaves = np.where(level, np.where(inside, np.inf, -np.inf), middle + reach)
    low, high = _slab(z, w, half[2])
    return np.maximum(enters, low), np.minimum(leaves, high)


def _sphere_interval(at: Local, direction: Local, half: Array) -> tuple[Array, Array]:
    middle = -(at[0] * direction[0] + at[1] * direction[1] + at[2] * direction[2])
    least = sum((a + middle * d) ** 2 for a, d in zip(at, direction))
    reach = np.sqrt(half[0] ** 2 - least)
    return middle - reach, middle + reach


_KINDS: dict[str, _Kind] = {
    "box": (_box_distance, _box_interval),
    "cylinder": (_cylinder_distance, _cylinder_interval),
    "sphere": (_sphere_distance, _sphere_interval),
}
