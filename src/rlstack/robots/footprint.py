"""Footprint of a base: its convex outline seen from above, and discs that cover it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.schema import value

Disc = tuple[float, float, float]
"""x, y of the centre and the radius, m, in ``base_link``."""

MOST_DISCS = 4
WIDER = 0.3
"""Share of its width by which a base's discs may reach beyond its sides before another disc is added."""

_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class FootprintShape:
    """Footprint of a base: a disc about ``base_link``, or the convex hull of a polygon."""

    radius_m: float | None = value(None, unit="m", above=0.0)
    corners_m: tuple[tuple[float, float], ...] = value((), unit="m")
    """x, y in ``base_link``, in any order."""

    def __post_init__(self) -> None:
        if (self.radius_m is None) == (not self.corners_m):
            raise ValueError("radius_m and corners_m: give one of the two.")
        if self.corners_m and len(hull(self.corners_m)) < 3:
            raise ValueError(f"corners_m: {[list(c) for c in self.corners_m]} is not allowed: they enclose nothing.")


def hull(points: Iterable[Sequence[float]]) -> Array:
    """Return the corners (corners, 2) of the convex hull of points, counter-clockwise; fewer than 3 enclose nothing."""
    ordered = sorted({(float(p[0]), float(p[1])) for p in points})

    def half(along: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for x, y in along:
            while len(kept) > 1 and _cross(kept[-2], kept[-1], (x, y)) <= 0.0:
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return np.array(half(ordered) + half(reversed(ordered)), dtype=float).reshape(-1, 2)


def enclosing_disc(points: Array) -> Disc:
    """Return the smallest disc that encloses points (points, 2): two or three of them are on its edge."""
    corners = hull(points)
    if len(corners) < 2:
        (x, y), *_ = np.asarray(points, dtype=float).tolist()
        return x, y, 0.0
    candidates = [_on_two(*corners[list(pair)]) for pair in combinations(range(len(corners)), 2)]
    candidates += [
        disc for three in combinations(range(len(corners)), 3) if (disc := _on_three(*corners[list(three)])) is not None
    ]
    holding = [d for d in candidates if (np.hypot(*(corners - d[:2]).T) <= d[2] * (1.0 + _SLACK) + 1e-12).all()]
    return min(holding, key=lambda disc: disc[2])


def covering_discs(corners: Array, count: int) -> tuple[Disc, ...]:
    """Return ``count`` discs in a row that together cover a convex polygon (corners, 2).

    The polygon is cut across its longer side into slabs of equal length, each enclosed by its smallest disc.
    """
    spans = np.ptp(corners, axis=0)
    along = 0 if spans[0] >= spans[1] else 1
    cuts = np.linspace(corners[:, along].min(), corners[:, along].max(), count + 1)
    return tuple(enclosing_disc(_slab(corners, along, low, high)) for low, high in pairwise(cuts))


def cover(corners: Array) -> tuple[Disc, ...]:
    """Return as few discs as cover a convex polygon without being much wider than it, at most :data:`MOST_DISCS`."""
    width = float(np.ptp(corners, axis=0).min())
    for count in range(1, MOST_DISCS + 1):
        discs = covering_discs(corners, count)
        if max(disc[2] for disc in discs) - width / 2.0 <= WIDER * width:
            break
    return discs


def rectangle(centre: Sequence[float], size: Sequence[float], yaw_rad: float = 0.0) -> Array:
    """Return the four corners (4, 2) of a rectangle around ``centre``, rotated by a yaw."""
    x, y = 0.5 * size[0], 0.5 * size[1]
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    turn = np.array([[c, s], [-s, c]])
    return np.asarray(np.array([(x, y), (-x, y), (-x, -y), (x, -y)]) @ turn + np.array(centre[:2], dtype=float))


def _slab(corners: Array, along: int, low: float, high: float) -> Array:
    """Return the corners of the part between two cuts."""
    kept = [p for p in corners if low - 1e-12 <= p[along] <= high + 1e-12]
    for p, q in zip(corners, np.roll(corners, -1, axis=0)):
        for cut in (low, high):
            before, after = p[along] - cut, q[along] - cut
            if before * after < 0.0:
                kept.append(p + (q - p) * before / (before - after))
    return np.array(kept)


def _cross(o: Any, a: Any, b: Any) -> float:
    return float((a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]))


def _on_two(a: Array, b: Array) -> Disc:
    x, y = 0.5 * (a + b)
    return float(x), float(y), float(0.5 * np.hypot(*(a - b)))


def _on_three(a: Array, b: Array, c: Array) -> Disc | None:
    area = _cross(a, b, c)
    if abs(area) < 1e-15:
        return None
    p, q = b - a, c - a
    u = np.array([q[1] * (p @ p) - p[1] * (q @ q), p[0] * (q @ q) - q[0] * (p @ p)]) / (2.0 * area)
    return float(a[0] + u[0]), float(a[1] + u[1]), float(np.hypot(*u))
