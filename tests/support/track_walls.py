"""Distances from the walls of a race track, for tests."""

from __future__ import annotations

import numpy as np

from rlstack.sim.maps.tracks import Track


def wall_distance(track: Track, points: np.ndarray) -> np.ndarray:
    """Return the distance (N,) in m from points (N, 2) on the track to the nearer wall."""
    near = np.full(len(points), np.inf)
    for wall in (track.left, track.right):
        begin, edge = wall, np.roll(wall, -1, axis=0) - wall
        share = ((points[:, None] - begin) * edge).sum(axis=2) / (edge * edge).sum(axis=1)
        foot = begin + np.clip(share, 0.0, 1.0)[..., None] * edge
        near = np.minimum(near, np.linalg.norm(points[:, None] - foot, axis=2).min(axis=1))
    return near
