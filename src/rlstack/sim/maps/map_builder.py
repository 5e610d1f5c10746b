"""A builder of maps: outer walls, limits on boxes and circles, spacing of pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.sim.free_space import Rectangle
from rlstack.sim.world_builder import Dice, separation

WALL_M = 0.1
"""Thickness of walls, m, at scale 1."""

_TRIES = 48
_TOUCHING_M = 1e-6


@dataclass(frozen=True)
class Piece:
    """A rigid group of boxes and circles, in its own frame."""

    boxes: tuple[tuple[float, float, float, float], ...] = ()
    """x, y of the centre, half extents, m."""
    circles: tuple[tuple[float, float, float], ...] = ()
    """x, y, radius, m."""

    @property
    def half_m(self) -> tuple[float, float]:
        """Half extents of the bounding rectangle about the origin, m."""
        reach = [(abs(x) + hx, abs(y) + hy) for x, y, hx, hy in self.boxes]
        reach += [(abs(x) + r, abs(y) + r) for x, y, r in self.circles]
        return max(r[0] for r in reach), max(r[1] for r in reach)


class MapBuilder:
    """The plan that a kind of map draws on; it starts with the four outer walls.

    Args:
        rng: Random generator; only ``random()`` is used, whose values NumPy keeps stable across versions.
        difficulty: From 0 to 1.
        size_m: Extents of the floor, outer walls included, m.
        scale: Factor of lengths that suit a robot of 0.1 to 0.2 m radius.
        gap_m: Least width of passages, m.
        most_boxes: Greatest number of boxes, outer walls included.
        most_circles: Greatest number of circles.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        difficulty: float,
        size_m: tuple[float, float],
        scale: float,
        gap_m: float,
        most_boxes: int,
        most_circles: int,
    ) -> None:
        self.dice, self._rng = Dice(rng), rng
        self.difficulty, self.scale, self.gap_m = difficulty, scale, gap_m
        self.wall_m = WALL_M * scale
        self._most = most_boxes, most_circles
        self._boxes: list[tuple[float, float, float, float, float]] = []
        self._circles: list[tuple[float, float, float]] = []
        self._covered: list[tuple[float, float, float, float, float]] = []
        self._kept: list[tuple[float, float, float, float, float]] = []
        x, y, t = size_m[0] / 2.0, size_m[1] / 2.0, self.wall_m
        self.inside: Rectangle = (t - x, t - y, x - t, y - t)
        """The floor inside of the outer walls."""
        for wall in ((-x, -y, x, t - y), (-x, y - t, x, y), (-x, t - y, t - x, y - t), (x - t, t - y, x, y - t)):
            self.wall(*wall)

    def between(self, easy: float, hard: float) -> float:
        """Interpolate between two values by the difficulty."""
        return easy + (hard - easy) * self.difficulty

    def count(self, easy: float, hard: float) -> int:
        """Interpolate between two values by the difficulty, with random rounding to a whole number."""
        exact = self.between(easy, hard)
        return math.floor(exact) + int(self.dice.chance(exact - math.floor(exact)))

    @property
    def boxes_left(self) -> int:
        """Number of boxes that may still be drawn."""
        return self._most[0] - len(self._boxes)

    @property
    def circles_left(self) -> int:
        """Number of circles that may still be drawn."""
        return self._most[1] - len(self._circles)

    @property
    def boxes(self) -> Array:
        """Drawn boxes (B, 5), rounded to 0.01 mm and 1e-5 rad to be the same on every machine."""
        return np.array(self._boxes).reshape(-1, 5).round(5)

    @property
    def circles(self) -> Array:
        """Drawn circles (C, 3), rounded like the boxes."""
        return np.array(self._circles).reshape(-1, 3).round(5)

    def wall(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Add an upright box by its lower and upper corner."""
        x, y, half_x, half_y, _ = _upright(x0, y0, x1, y1)
        self.add(Piece(boxes=((0.0, 0.0, half_x, half_y),)), x, y)

    def keep_free(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Keep a rectangle free of pieces from :meth:`place`."""
        self._kept.append(_upright(x0, y0, x1, y1))

    def is_kept(self, x0: float, y0: float, x1: float, y1: float) -> bool:
        """Return whether a rectangle overlaps an area that is kept free."""
        mine = np.array([_upright(x0, y0, x1, y1)])
        return bool(self._kept) and bool((separation(mine, np.array(self._kept)) < 0.0).any())

    def fits(self, piece: Piece) -> bool:
        """Return whether enough boxes and circles are left for a piece."""
        return len(piece.boxes) <= self.boxes_left and len(piece.circles) <= self.circles_left

    def add(self, piece: Piece, x: float, y: float, yaw: float = 0.0) -> None:
        """Add a piece at a pose, without collision checks.

        Raises:
            RuntimeError: Too few boxes or circles are left; call :meth:`fits` first.
        """
        if not self.fits(piece):
            raise RuntimeError(f"a map may have {self._most[0]} boxes and {self._most[1]} circles, and these are drawn")
        c, s = math.cos(yaw), math.sin(yaw)
        for px, py, half_x, half_y in piece.boxes:
            self._boxes.append((x + c * px - s * py, y + s * px + c * py, half_x, half_y, yaw))
        for px, py, radius in piece.circles:
            self._circles.append((x + c * px - s * py, y + s * px + c * py, radius))
        self._covered.append((x, y, *piece.half_m, yaw))

    def place(
        self,
        piece: Piece,
        *,
        within: Rectangle | None = None,
        square: bool = False,
        spots: Sequence[tuple[float, float, float]] | None = None,
    ) -> bool:
        """Place a piece so that it touches others or keeps ``gap_m`` from them; return whether there was room.

        Args:
            piece: The piece.
            within: Area for its origin; None: the whole floor.
            square: Whether its yaw is a multiple of 90 degrees.
            spots: Poses (x, y, yaw) to try instead of random ones.
        """
        if not self.fits(piece):
            return False
        if spots is None:
            x0, y0, x1, y1 = within or self.inside
            drawn = self._rng.random((_TRIES, 3))
            yaw = np.floor(4.0 * drawn[:, 2]) * (math.pi / 2.0) if square else 2.0 * math.pi * drawn[:, 2]
            tries = np.column_stack([x0 + (x1 - x0) * drawn[:, 0], y0 + (y1 - y0) * drawn[:, 1], yaw])
        else:
            tries = np.array(spots, dtype=float).reshape(-1, 3)
        mine = np.column_stack([tries[:, :2], np.tile(piece.half_m, (len(tries), 1)), tries[:, 2]])
        away = separation(mine, np.array(self._covered))
        good = ((away >= self.gap_m) | (np.abs(away) <= _TOUCHING_M)).all(axis=1)
        x0, y0, x1, y1 = self.inside
        good &= (tries[:, 0] > x0) & (tries[:, 0] < x1) & (tries[:, 1] > y0) & (tries[:, 1] < y1)
        if self._kept:
            good &= (separation(mine, np.array(self._kept)) >= -_TOUCHING_M).all(axis=1)
        if not good.any():
            return False
        x, y, turned = (float(v) for v in tries[int(np.argmax(good))])
        self.add(piece, x, y, turned)
        return True


def _upright(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float, float]:
    """Return a rectangle's centre, half extents and yaw from its lower and upper corner."""
    return (x0 + x1) / 2.0, (y0 + y1) / 2.0, (x1 - x0) / 2.0, (y1 - y0) / 2.0, 0.0
