"""Capsules around solids, and distances between capsules: pure functions."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rlstack.arrays import Array

_WIDER = (1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
"""Ratio of a capsule's radius to the smallest possible one, which makes it shorter."""


class Capsule(NamedTuple):
    """All points within a radius of a line segment."""

    ends: Array
    """(2, 3) m."""
    radius: float
    """m"""


def fit(edges: Array, pieces: int = 1) -> list[Capsule]:
    """Return capsules that enclose solids, which are cut into slabs along their longest extent.

    Each capsule lies along the principal axis of its slab's points, or the frame axis, that makes it smallest.

    Args:
        edges: (E, 2, 3) m, edges of the solids' flat faces.
        pieces: Number of slabs.
    """
    points = edges.reshape(-1, 3)
    axes = _axes(points)
    axis = axes[int(np.argmax(np.ptp(points @ axes.T, axis=0)))]
    along = points @ axis
    cuts = np.linspace(along.min(), along.max(), pieces + 1)
    # a solid's part in a slab lies in the hull of its corners there and of its edges' intersections with the planes
    crossings = [_crossings(edges, axis, cut) for cut in cuts[1:-1]]
    points = np.unique(np.concatenate([points, *crossings]), axis=0)
    along = points @ axis
    slabs = [points[(along >= low - 1e-9) & (along <= high + 1e-9)] for low, high in pairwise(cuts)]
    return [
        min((_about(slab, axis, wider) for axis in _axes(slab) for wider in _WIDER), key=_volume)
        for slab in slabs
        if len(slab)
    ]


def _crossings(edges: Array, axis: Array, cut: float) -> Array:
    """Return where edges (E, 2, 3) cross the plane of points p with p @ axis = cut: (P, 3)."""
    off = edges @ axis - cut
    crosses = off[:, 0] * off[:, 1] < 0.0
    crossing, off = edges[crosses], off[crosses]
    share = off[:, :1] / (off[:, :1] - off[:, 1:])
    return np.asarray(crossing[:, 0] + share * (crossing[:, 1] - crossing[:, 0]))


def _axes(points: Array) -> Array:
    _, _, principal = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    return np.concatenate([principal, np.eye(3)])


def _about(points: Array, axis: Array, wider: float) -> Capsule:
    """Return a capsule along an axis that encloses points, this many times as wide as necessary; its line passes
    through the middle of their extent."""
    aside = np.linalg.svd(axis[None])[2][1:]
    across = points @ aside.T
    middle = 0.5 * (across.min(axis=0) + across.max(axis=0))
    away = np.linalg.norm(across - middle, axis=1)
    radius = wider * float(away.max())
    along, reach = points @ axis, np.sqrt(np.maximum(radius**2 - away**2, 0.0))
    low, high = float((along + reach).min()), float((along - reach).max())
    if low > high:
        low = high = 0.5 * (low + high)
    centre = middle @ aside
    return Capsule(np.stack([centre + low * axis, centre + high * axis]), radius)


def _volume(capsule: Capsule) -> float:
    length = float(np.linalg.norm(capsule.ends[1] - capsule.ends[0]))
    return float(np.pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius))


def segment_distance(first: Array, second: Array) -> Array:
    """Return the distance (...) between segments (..., 2, 3) and (..., 2, 3), m (Ericson 2005, Real-Time Collision
    Detection, 5.1.9)."""
    p, q = first[..., 0, :], second[..., 0, :]
    u, v, w = first[..., 1, :] - p, second[..., 1, :] - q, p - q
    a, e, b = (u * u).sum(-1), (v * v).sum(-1), (u * v).sum(-1)
    c, f = (u * w).sum(-1), (v * w).sum(-1)
    tiny = 1e-12
    both = a * e - b * b
    s = np.where(both > tiny, np.clip((b * f - c * e) / np.maximum(both, tiny), 0.0, 1.0), 0.0)
    t = np.where(e > tiny, (b * s + f) / np.maximum(e, tiny), 0.0)
    t = np.clip(t, 0.0, 1.0)
    s = np.where(a > tiny, np.clip((b * t - c) / np.maximum(a, tiny), 0.0, 1.0), 0.0)
    between = w + s[..., None] * u - t[..., None] * v
    return np.asarray(np.sqrt((between * between).sum(-1)))
