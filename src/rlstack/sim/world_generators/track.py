"""A race track between two walls; it begins at the origin, along x."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlstack.schema import value
from rlstack.sim.colours import WALL
from rlstack.sim.free_space import Rectangle
from rlstack.sim.maps.tracks import track_of
from rlstack.sim.world_builder import WorldBuilder, around, box
from rlstack.sim.world_generators import WorldGenerator, WorldLayout

_CELL_M = 0.35
"""Half the side of the squares along the centre line that make up the usable floor, m."""

_STRAIGHT_RAD = 0.005
"""Bends below this in total are no corner of a wall."""


@dataclass(frozen=True, kw_only=True)
class TrackSettings:
    """Settings of a track."""

    height_m: float = value(0.6, unit="m", at_least=0.2, at_most=10.0)
    """Height of the walls."""
    wall_thickness_m: float = value(0.05, unit="m", at_least=0.01, at_most=0.1)


def draw(settings: TrackSettings, rng: np.random.Generator) -> WorldLayout:
    """Return the walls of the track that :func:`rlstack.sim.maps.tracks.draw_track` draws from the same seed."""
    track, scene = track_of(rng), WorldBuilder()
    for side, wall in ((1.0, track.left), (-1.0, track.right)):
        _add_wall(scene, wall, side, settings)
    inside: list[Rectangle] = [
        (x - _CELL_M, y - _CELL_M, x + _CELL_M, y + _CELL_M) for x, y in track.middle[:: len(track.middle) // 128]
    ]
    thick = settings.wall_thickness_m
    corners = [(x, y, x, y) for wall in (track.left, track.right) for x, y in wall.tolist()]
    bounds = around(corners, 2.0 * thick, settings.height_m)
    return WorldLayout(tuple(scene.obstacles), bounds, tuple(inside))


def _add_wall(scene: WorldBuilder, wall: np.ndarray, side: float, settings: TrackSettings) -> None:
    """Add boxes whose inner faces run between the wall's corners, cut where their outer sides would overlap."""
    thick, height = settings.wall_thickness_m, settings.height_m
    wall = _bent(wall)
    edge = np.roll(wall, -1, axis=0) - wall
    length = np.linalg.norm(edge, axis=1)
    yaw = np.arctan2(edge[:, 1], edge[:, 0])
    bend = (yaw - np.roll(yaw, 1) + math.pi) % (2.0 * math.pi) - math.pi  # at each piece's beginning
    cut = thick * np.tan(np.maximum(side * bend, 0.0) / 2.0)
    for (x, y), long, angle, first, last in zip(wall, length, yaw, cut, np.roll(cut, -1)):
        along, out = first + (long - first - last) / 2.0, side * thick / 2.0
        c, s = math.cos(angle), math.sin(angle)
        piece = box("wall", (float(long - first - last), thick, height), WALL)
        scene.add(piece, x + c * along - s * out, y + s * along + c * out, float(angle))


def _bent(wall: np.ndarray) -> np.ndarray:
    """Return the corners at which a wall bends, so that one box makes a whole straight."""
    edge = np.roll(wall, -1, axis=0) - wall
    yaw = np.arctan2(edge[:, 1], edge[:, 0])
    bend = np.abs((yaw - np.roll(yaw, 1) + math.pi) % (2.0 * math.pi) - math.pi)
    kept, turned = [0], 0.0
    for k in range(1, len(wall)):
        turned += bend[k]
        if turned > _STRAIGHT_RAD:
            kept.append(k)
            turned = 0.0
    return wall[kept]


GENERATOR = WorldGenerator(TrackSettings, draw)
