"""Geodesic distance and direction to a goal around obstacles: fields over the cells of many maps.

The distance solves the eikonal equation |grad d| = 1 on the cells where a robot fits, so its gradient can have any
direction, not only the grid's eight. The direction comes from a second solution with slower ground near obstacles,
which keeps a clearance where there is room. Both use Godunov's upwind scheme (Rouy and Tourin, 1992), the distance
also along the diagonals (multistencils, Hassouna and Farag, 2007), iterated to convergence for all cells of several
maps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32, Mask
from rlstack.fused import Kernel, maximum, minimum, where
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.occupancy_grid import GridFrame

Rows = NDArray[Any]

NEVER_M = 1e6
"""Distance of cells in obstacles, m; greater distances count as unreachable."""

WIDE = 2.5
"""Width of the slow zone beyond the robot's clearance, in radii."""
SLOWER = 2.0
"""Additional slowness beside an obstacle: the factor is 1 + SLOWER."""

_AT_ONCE = 16
"""Maps solved together, so that their arrays fit in the processor's cache."""
_CHECK = 16
"""Iterations between two convergence checks."""
_EXACT = 1e-4
"""Change between two checks, in cells, at which the fields count as converged."""


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields of M maps on the same frame, as numpy arrays, or torch tensors after :meth:`mapped`."""

    frame: GridFrame
    distance: Any
    """(M, rows, columns) float32: distance to the goal, m. In obstacles, that of the nearest cell where the robot fits,
    plus the path there."""
    direction: Any
    """(M, rows, columns, 2) float16: unit vectors along x and y towards the goal. In obstacles, they point outwards."""

    def mapped(self, convert: Callable[[NDArray[Any]], Any]) -> Fields:
        """Return the fields with converted arrays, such as ``fields.mapped(torch.as_tensor)``."""
        return Fields(self.frame, convert(self.distance), convert(self.direction))

    def look_up(self, index: Any, xy: Any) -> tuple[Any, Any]:
        """Return distances (N,), m, and directions (N, 2) at points, bilinear between four cell centres.

        Args:
            index: (N,) map index, whole numbers.
            xy: (N, 2) points, m, clamped to the map; of the same library as the fields' arrays.
        """
        rows, columns = self.frame.shape
        (x0, y0), size = self.frame.origin_m, self.frame.resolution_m
        u = ((xy[:, 0] - x0) / size - 0.5).clip(0.0, columns - 1.001)
        v = ((xy[:, 1] - y0) / size - 0.5).clip(0.0, rows - 1.001)
        column, row = _whole(u), _whole(v)
        u, v = u - column, v - row
        first = (index * rows + row) * columns + column
        distances, directions = self.distance.reshape(-1), self.direction.reshape(-1, 2)
        distance: Any = 0.0
        direction: Any = 0.0
        for cell, weight in (
            (first, (1.0 - u) * (1.0 - v)),
            (first + 1, u * (1.0 - v)),
            (first + columns, (1.0 - u) * v),
            (first + columns + 1, u * v),
        ):
            distance = distance + weight * distances[cell]
            direction = direction + weight[:, None] * directions[cell]
        length = (direction**2).sum(-1, keepdims=True) ** 0.5
        return distance, direction / (length + 1e-6)


def _whole(numbers: Any) -> Any:
    return numbers.long() if hasattr(numbers, "long") else numbers.astype(np.intp)


def solve_fields(maps: Sequence[FloorMap], frame: GridFrame, safe_m: float) -> Fields:
    """Return the fields of maps with the same robot radius.

    Args:
        maps: Maps; the distance is 0 at their goals.
        frame: Grid frame that covers each of them.
        safe_m: Clearance of cell centres where the robot fits.

    Raises:
        UserError: llvmlite, which compiles the kernel, is not installed.
    """
    distance = np.empty((len(maps), *frame.shape), dtype=np.float32)
    direction = np.empty((len(maps), *frame.shape, 2), dtype=np.float16)
    for first in range(0, len(maps), _AT_ONCE):
        some = maps[first : first + _AT_ONCE]
        away = np.stack([frame.distance(m.boxes, m.circles) for m in some]).astype(np.float32)
        free = away >= safe_m
        begin = np.stack([_begin(m, frame) for m in some])
        plain = _solved(begin, free, np.ones_like(away), frame.resolution_m, diagonals=True)
        radius = np.array([m.radius_m for m in some], dtype=np.float32)[:, None, None]
        near = np.clip(1.0 - (away - safe_m) / (WIDE * radius), 0.0, 1.0)
        slow = _solved(begin, free, (1.0 + SLOWER * near**2).astype(np.float32), frame.resolution_m, diagonals=False)
        for k in range(len(some)):
            distance[first + k], direction[first + k] = _filled(plain[k], _downhill(slow[k]), free[k], frame)
    return Fields(frame, distance, direction)


def _begin(drawn: FloorMap, frame: GridFrame) -> Array32:
    """Return the straight-line distance near the goal, up to its nearest obstacle."""
    away = np.hypot(frame.x[None, :] - drawn.goal[0], frame.y[:, None] - drawn.goal[1])
    room = max(float(drawn.distance(drawn.goal[None, :2])[0]) - drawn.radius_m, frame.resolution_m)
    return np.where(away <= room, away, 2.0 * NEVER_M).astype(np.float32)


_STEPS = {"here": (0, 0), "w": (0, -1), "e": (0, 1), "s": (-1, 0), "n": (1, 0)}
_STEPS |= {"sw": (-1, -1), "se": (-1, 1), "nw": (1, -1), "ne": (1, 1)}
"""Row and column offsets of a cell and its eight neighbours."""


@lru_cache(maxsize=2)
def _kernel(diagonals: bool) -> Kernel:
    def arrival(a: Any, b: Any, cost: Any) -> Any:
        """Return the arrival time of a front at a cell, from neighbours along two axes at ``cost``."""
        both = 0.5 * (a + b + maximum(2.0 * cost * cost - (a - b) * (a - b), 0.0) ** 0.5)
        return where((a - b) * (a - b) < cost * cost, both, minimum(a, b) + cost)

    def step(cost: Rows, **around: Rows) -> dict[str, Rows]:
        at = {name: row[0] for name, row in around.items()}

        def diagonal(name: str) -> Any:
            # no corner cutting: both cells beside the step must have been reached
            return where(maximum(at[name[0]], at[name[1]]) < NEVER_M, at[name], 2.0 * NEVER_M)

        found = arrival(minimum(at["w"], at["e"]), minimum(at["s"], at["n"]), cost[0])
        if diagonals:
            one, other = minimum(diagonal("sw"), diagonal("ne")), minimum(diagonal("se"), diagonal("nw"))
            found = minimum(found, arrival(one, other, math.sqrt(2.0) * cost[0]))
        return {"next": np.array([minimum(at["here"], found)], dtype=object)}

    return Kernel(step, {"cost": 1, **dict.fromkeys(_STEPS, 1)})


def _solved(begin: Array32, free: Mask, slowness: Array32, cell_m: float, *, diagonals: bool) -> Array32:
    """Return the arrival times (M, rows, columns) from cells with an initial time.

    With diagonals their error is half as large; without, the direction of upwind differences errs by at most 2 degrees
    instead of 5.
    """
    count, rows, columns = begin.shape
    width = columns + 2
    padded = (count, rows + 2, width)
    middle = (slice(None), slice(1, -1), slice(1, -1))
    cost = np.full(padded, NEVER_M, dtype=np.float32)
    cost[middle] = np.where(free, slowness * cell_m, NEVER_M)
    times = np.full(padded, 2.0 * NEVER_M, dtype=np.float32)
    times[middle] = begin
    one, other = times.reshape(1, -1), times.reshape(1, -1).copy()
    size, kernel = one.shape[1], _kernel(diagonals)

    edge = width + 1
    inner = slice(edge, size - edge)

    def neighbours(array: Array32) -> dict[str, Array32]:
        shifts = {name: row * width + column for name, (row, column) in _STEPS.items()}
        return {name: array[:, edge + by : size - edge + by] for name, by in shifts.items()}

    costs = cost.reshape(1, -1)[:, inner]
    there = kernel.prepare({**neighbours(one), "cost": costs, "next": other[:, inner]})
    back = kernel.prepare({**neighbours(other), "cost": costs, "next": one[:, inner]})
    for _ in range(math.ceil(rows * columns / _CHECK)):
        for _ in range(_CHECK // 2):
            there()
            back()
        if np.abs(one - other).max(where=one < NEVER_M, initial=0.0) <= _EXACT * cell_m:
            break
    return one.reshape(padded)[middle]


def _downhill(times: Array32) -> Array32:
    """Return unit vectors (rows, columns, 2) along x and y towards lower times, by upwind differences."""
    padded = np.pad(times, 1, constant_values=np.float32(2.0 * NEVER_M))
    here = padded[1:-1, 1:-1]
    west, east, south, north = padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1]
    ways = []
    for back, ahead in ((west, east), (south, north)):
        gain = np.maximum(here - np.minimum(back, ahead), 0.0)
        ways.append(np.where(ahead < back, gain, -gain))
    found = np.stack(ways, axis=-1)
    length = np.linalg.norm(found, axis=-1, keepdims=True)
    return np.where(length > 0.0, found / np.maximum(length, 1e-9), 0.0).astype(np.float32)


def _filled(distance: Array32, direction: Array32, free: Mask, frame: GridFrame) -> tuple[Array32, Array32]:
    """Return both fields extended into obstacles: the value of the nearest reached cell and the path there."""
    from scipy.ndimage import distance_transform_edt

    reached = free & (distance < NEVER_M)
    away, (row, column) = distance_transform_edt(~reached, sampling=frame.resolution_m, return_indices=True)
    step = np.stack([frame.x[column] - frame.x[None, :], frame.y[row] - frame.y[:, None]], axis=-1)
    out = step / np.maximum(away, 1e-9)[..., None]
    turned = direction[row, column] + out
    turned /= np.maximum(np.linalg.norm(turned, axis=-1, keepdims=True), 1e-9)
    kept = reached[..., None]
    return (distance[row, column] + away).astype(np.float32), np.where(kept, direction, turned).astype(np.float32)
