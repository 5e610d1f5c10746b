"""Building blocks of world generators: random draws, pieces made of parts, spaced placement, walls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.sim.colours import WALL, Colour
from rlstack.sim.free_space import Point, Rectangle
from rlstack.sim.obstacle import Obstacle

_TRIES = 100


class Dice:
    """Random draws from a generator's ``random()`` alone, whose values are the same in every version of NumPy."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def between(self, low: float, high: float) -> float:
        """Return a number from ``low`` to ``high``."""
        return low + (high - low) * self._rng.random()

    def chance(self, share: float) -> bool:
        """Return True with that probability."""
        return bool(self._rng.random() < share)

    def below(self, count: int) -> int:
        """Return a whole number from 0 to ``count`` - 1."""
        return min(int(self._rng.random() * count), count - 1)

    def tinted(self, colour: Colour, by: float = 0.05) -> Colour:
        """Return the colour a little lighter or darker."""
        shift = self.between(-by, by)
        red, green, blue = (round(min(max(c + shift, 0.0), 1.0), 3) for c in colour)
        return red, green, blue


@dataclass(frozen=True)
class Part:
    """One shape of a piece, in the piece's frame: its origin on the floor in the middle, its back at -y."""

    shape: Literal["box", "cylinder", "sphere"]
    size_m: tuple[float, float, float]
    at_m: tuple[float, float, float]
    """Position of the centre."""
    colour: Colour
    suffix: str = ""


@dataclass(frozen=True)
class Piece:
    """An object of one or more parts on a rectangle of floor."""

    kind: str
    size_m: tuple[float, float]
    """Size of the rectangle that it covers, along its own x and y."""
    parts: tuple[Part, ...]


@dataclass
class WorldBuilder:
    """Obstacles placed so far, with numbered names, and the rectangles of floor that they cover."""

    obstacles: list[Obstacle] = field(default_factory=list)
    covered: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    """x, y of the centre, half extents, yaw."""
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, piece: Piece, x: float, y: float, yaw: float = 0.0, z: float = 0.0) -> None:
        """Add a piece at a pose, without collision checks."""
        number = self._counts[piece.kind] = self._counts.get(piece.kind, 0) + 1
        c, s = math.cos(yaw), math.sin(yaw)
        for part in piece.parts:
            px, py, pz = part.at_m
            self.obstacles.append(
                Obstacle(
                    name=f"{piece.kind}_{number}{part.suffix}",
                    shape=part.shape,
                    size_m=_rounded(part.size_m),
                    position_m=_rounded((x + c * px - s * py, y + s * px + c * py, z + pz)),
                    yaw_rad=round(yaw, 6),
                    colour=part.colour,
                )
            )
        self.covered.append((x, y, piece.size_m[0] / 2.0, piece.size_m[1] / 2.0, yaw))

    def keep_free(self, x: float, y: float, half_x: float, half_y: float) -> None:
        """Keep a rectangle of floor free of pieces."""
        self.covered.append((x, y, half_x, half_y, 0.0))

    def place(self, piece: Piece, spot: Callable[[], tuple[float, float, float]], gap: float) -> bool:
        """Place a piece at the first spot (x, y, yaw) that is ``gap`` from all others; return whether there was one."""
        covered = np.array(self.covered).reshape(-1, 5)
        for _ in range(_TRIES):
            x, y, yaw = spot()
            mine = np.array([[x, y, piece.size_m[0] / 2.0, piece.size_m[1] / 2.0, yaw]])
            if (separation(mine, covered) >= gap).all():
                self.add(piece, x, y, yaw)
                return True
        return False


def box(
    kind: str,
    size: tuple[float, float, float],
    colour: Colour,
    z: float = 0.0,
    shape: Literal["box", "cylinder"] = "box",
) -> Piece:
    """Return a piece of one box or cylinder that begins at height ``z``, m."""
    return Piece(kind, size[:2], (Part(shape, size, (0.0, 0.0, z + size[2] / 2.0), colour),))


def walls_around(inside: Sequence[Rectangle], thickness: float, height: float, scene: WorldBuilder) -> None:
    """Add walls of that thickness around the union of rectangles, made of few boxes that touch and never overlap."""
    edges = np.array(inside)
    outer = edges + np.array([-thickness, -thickness, thickness, thickness])
    xs, ys = (np.unique(np.concatenate([edges[:, [a, a + 2]], outer[:, [a, a + 2]]]).round(6)) for a in (0, 1))
    middle_x, middle_y = (xs[:-1] + xs[1:])[:, None] / 2.0, (ys[:-1] + ys[1:])[None, :] / 2.0

    def covered(rectangles: NDArray[np.float64]) -> NDArray[np.bool_]:
        parts = [(middle_x > a) & (middle_x < c) & (middle_y > b) & (middle_y < d) for a, b, c, d in rectangles]
        return np.logical_or.reduce(parts)

    left = covered(outer) & ~covered(edges)
    while left.any():
        i, j = (int(k) for k in np.argwhere(left)[0])
        ends = [_grown(left, i, j, first) for first in ("x", "y")]
        end_x, end_y = max(ends, key=lambda end: (xs[end[0]] - xs[i]) * (ys[end[1]] - ys[j]))
        x0, y0, x1, y1 = float(xs[i]), float(ys[j]), float(xs[end_x]), float(ys[end_y])
        scene.add(box("wall", (x1 - x0, y1 - y0, height), WALL), (x0 + x1) / 2.0, (y0 + y1) / 2.0)
        left[i:end_x, j:end_y] = False


def _grown(left: NDArray[np.bool_], i: int, j: int, first: str) -> tuple[int, int]:
    """Return where a block of cells from i, j ends when it grows as far as it can along one axis, then the other."""
    end_x, end_y = i + 1, j + 1
    for axis in (first, "y" if first == "x" else "x"):
        if axis == "x":
            while end_x < left.shape[0] and left[end_x, j:end_y].all():
                end_x += 1
        else:
            while end_y < left.shape[1] and left[i:end_x, end_y].all():
                end_y += 1
    return end_x, end_y


def around(rectangles: Sequence[Rectangle], margin: float, height: float) -> tuple[Point, Point]:
    """Return the upright box around rectangles with a margin on each side, as a layout's ``bounds_m``."""
    edges = np.array(rectangles)
    low, high = edges[:, :2].min(axis=0) - margin, edges[:, 2:].max(axis=0) + margin
    return _rounded((*low, 0.0)), _rounded((*high, height))


def separation(one: Array, other: Array) -> Array:
    """Return the separation (M, K) of rectangles (M, 5) and (K, 5) along the best of their axes, m.

    Negative values are overlap depths. Corner to corner, the true distance is greater.
    """
    a, b = one[:, None, :], other[None, :, :]
    dx, dy = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
    c, s = np.abs(np.cos(b[..., 4] - a[..., 4])), np.abs(np.sin(b[..., 4] - a[..., 4]))
    found = np.full(dx.shape, -np.inf)
    for mine, its in ((a, b), (b, a)):
        along, across = np.cos(mine[..., 4]), np.sin(mine[..., 4])
        u, v = np.abs(along * dx + across * dy), np.abs(along * dy - across * dx)
        np.maximum(found, u - mine[..., 2] - its[..., 2] * c - its[..., 3] * s, out=found)
        np.maximum(found, v - mine[..., 3] - its[..., 2] * s - its[..., 3] * c, out=found)
    return found


def _rounded(numbers: Sequence[float]) -> tuple[float, float, float]:
    """To a micrometre, so that machines whose sines differ in the last bit build the same world."""
    x, y, z = (round(float(number), 6) + 0.0 for number in numbers)
    return x, y, z
