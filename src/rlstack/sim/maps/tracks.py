"""Random race tracks: closed circuits between two walls, drawn from a seed.

A track's centre line is a random polygon with rounded corners: straights and bends. Its walls run at a constant
distance. The start is on the straightest part, at the origin along x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.sim.world_builder import Dice

SAMPLES = 512
"""Points along the centre line of every track."""

CORNERS = 128
"""Corners of each wall: one for every fourth point."""

LEAST_RADIUS_M = 1.0
"""Least radius of the centre line's bends; the racecar's turning radius is 0.83 m."""

EASE_M = 0.3
"""Standard deviation of the Gaussian that smooths the centre line, m."""

LENGTH_M = (35.0, 65.0)
"""Least and greatest length of the centre line, m."""

_NEAR_M, _FAR_M = (2.5, 5.0), (6.0, 10.0)
_DRAWS = 400


@dataclass(frozen=True, eq=False)
class Track:
    """A closed track in its own frame (ENU), with the start at the origin along x.

    Arrays are closed: the entry after the last is the first. Points are evenly spaced along the centre line.
    """

    seed: int
    half_width_m: float
    """Distance from the centre line to either wall."""
    length_m: float
    """Length of the centre line."""
    middle: Array
    """(SAMPLES, 2): points of the centre line, m; the first is the start."""
    tangent: Array
    """(SAMPLES, 2): unit tangents."""
    curvature: Array
    """(SAMPLES,): curvature, 1/m, positive to the left."""
    left: Array
    """(CORNERS, 2): corners of the left wall, m."""
    right: Array
    """(CORNERS, 2): corners of the right wall, m."""

    @property
    def title(self) -> str:
        """Name to load it as a world, such as ``track:7``."""
        return f"track:{self.seed}"

    def place(self, points: ArrayLike) -> tuple[Array, Array]:
        """Return positions along the centre line (N,), m from 0 to the length, and offsets to its left (N,), m.

        Args:
            points: (N, 2) m, on the track or near it; each belongs to the nearest point of the centre line.
        """
        points = np.atleast_2d(np.asarray(points, dtype=float))
        nearest = ((points[:, None] - self.middle) ** 2).sum(axis=2).argmin(axis=1)
        along, aside = self.beside(nearest, points)
        return (nearest * (self.length_m / SAMPLES) + along) % self.length_m, aside

    def beside(self, index: NDArray[np.intp], points: Array) -> tuple[Array, Array]:
        """Return offsets ahead of the centre line's point at ``index`` and to its left (N,), m.

        Args:
            index: (N,) indices of centre line points near ``points``.
            points: (N, 2) m.
        """
        offset, ahead, bend = points - self.middle[index], self.tangent[index], self.curvature[index]
        x = (offset * ahead).sum(axis=1)
        y = offset[:, 1] * ahead[:, 0] - offset[:, 0] * ahead[:, 1]
        inner = 1.0 - bend * y
        angle = bend * x / inner
        out = (2.0 * y - bend * (x * x + y * y)) / (1.0 + np.sqrt(inner * inner + (bend * x) ** 2))
        return x / inner * (1.0 - angle * angle / 3.0), out

    def pose(self, along_m: float, left_m: float = 0.0) -> Array:
        """Return x, y, m, and yaw, rad, at ``along_m`` along the centre line and ``left_m`` to its left."""
        index = round(along_m / self.length_m * SAMPLES) % SAMPLES
        (x, y), (c, s) = self.middle[index], self.tangent[index]
        return np.array([x - left_m * s, y + left_m * c, math.atan2(s, c)])


@lru_cache(maxsize=4096)
def draw_track(seed: int) -> Track:
    """Return the track of a seed; equal seeds always give the same track.

    Raises:
        ValueError: The seed is below 0.
    """
    if seed < 0:
        raise ValueError(f"seed: {seed} is not allowed: must be 0 or more.")
    # seeded like the first draw of rlstack.sim.world.generate
    return track_of(np.random.Generator(np.random.PCG64([seed, 0])), seed)


def track_of(rng: np.random.Generator, seed: int = 0) -> Track:
    """Draw a track with wide enough bends and separate parts; only ``rng.random()`` is used."""
    dice = Dice(rng)
    for _ in range(_DRAWS):
        half_width = round(dice.between(0.55, 0.75), 2)
        curve = _rounded(_polygon(dice), dice)
        if curve is None:
            continue
        if dice.chance(0.5):
            curve = curve[::-1]  # to the right
        points, tangent, curvature, length = _sampled(curve)
        if np.abs(curvature).max() > 1.0 / LEAST_RADIUS_M or not LENGTH_M[0] <= length <= LENGTH_M[1]:
            continue
        if _apart(points, length, 2.0 * half_width + 0.3):
            return _built(seed, half_width, length, points, tangent, curvature)
    raise RuntimeError(f"no track in {_DRAWS} draws")  # one draw in a few dozen is accepted


def _polygon(dice: Dice) -> Array:
    """Return the corners (K, 2) of a counterclockwise polygon around the origin, m."""
    corners = 8 + dice.below(5)
    angles = [2.0 * math.pi * (k + dice.between(-0.25, 0.25)) / corners for k in range(corners)]
    radii, far = [], dice.chance(0.5)
    for _ in range(corners):
        radii.append(dice.between(*(_FAR_M if far else _NEAR_M)))
        far = far != dice.chance(0.75)  # mostly alternating, for bends of a right angle and more
    return np.array([(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles)])


def _rounded(polygon: Array, dice: Dice) -> Array | None:
    """Return the polygon as a dense line with arcs at corners; None if an arc does not fit."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    length = np.linalg.norm(edges, axis=1)
    ahead = edges / length[:, None]
    before = np.roll(ahead, 1, axis=0)
    turn = np.arctan2(before[:, 0] * ahead[:, 1] - before[:, 1] * ahead[:, 0], (before * ahead).sum(axis=1))
    half = np.tan(np.abs(turn) / 2.0)
    radius = np.minimum(
        [dice.between(LEAST_RADIUS_M, 2.5) for _ in polygon],
        0.5 * np.minimum(length, np.roll(length, 1)) / np.maximum(half, 1e-6),
    )
    if (radius < LEAST_RADIUS_M).any():
        return None
    line = []
    for corner, way_in, r, t, angle in zip(polygon, before, radius, radius * half, turn):
        side = math.copysign(1.0, angle)
        begin = corner - t * way_in
        centre = begin + side * r * np.array([-way_in[1], way_in[0]])
        steps = np.linspace(0.0, angle, max(2, math.ceil(abs(angle) * r / 0.05)))
        c, s = np.cos(steps), np.sin(steps)
        arm = begin - centre
        line.append(centre + np.stack([c * arm[0] - s * arm[1], s * arm[0] + c * arm[1]], axis=1))
    return np.concatenate(line)


def _sampled(curve: Array) -> tuple[Array, Array, Array, float]:
    """Return evenly spaced points, unit tangents and curvatures of a closed curve, and its length."""
    steps = np.linalg.norm(np.roll(curve, -1, axis=0) - curve, axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    closed = np.concatenate([curve, curve[:1]])
    at = along[-1] * np.arange(SAMPLES) / SAMPLES
    points = np.stack([np.interp(at, along, closed[:, k]) for k in (0, 1)], axis=1)
    frequency = 1j * np.fft.fftfreq(SAMPLES, 1.0 / SAMPLES) * 2.0 * np.pi / along[-1]
    spectrum = np.fft.fft(points[:, 0] + 1j * points[:, 1])
    # steering takes time, so bends begin and end gradually
    spectrum *= np.exp(0.5 * (frequency * EASE_M) ** 2).real
    first, second = np.fft.ifft(spectrum * frequency), np.fft.ifft(spectrum * frequency**2)
    smooth = np.fft.ifft(spectrum)
    speed = np.abs(first)
    points = np.stack([smooth.real, smooth.imag], axis=1)
    tangent = np.stack([first.real / speed, first.imag / speed], axis=1)
    return points, tangent, (first.conjugate() * second).imag / speed**3, float(along[-1])


def _apart(points: Array, length: float, least: float) -> bool:
    """Return whether parts that are not neighbours along the curve are at least ``least`` m apart."""
    some = points[::4]
    count = len(some)
    gap = np.linalg.norm(some[:, None] - some, axis=2)
    between = np.abs(np.arange(count)[:, None] - np.arange(count))
    between = np.minimum(between, count - between) * (length / count)
    # a half circle on the tightest bend is pi / 2 times as long as it is wide
    return bool(gap[between > 0.5 * np.pi * least + 0.5].min() > least)


def _built(seed: int, half_width: float, length: float, points: Array, tangent: Array, curvature: Array) -> Track:
    """Return the track that starts at the straightest 3 m of the centre line, in the frame of that place."""
    reach = round(1.5 / length * SAMPLES)
    bend = sum(np.abs(np.roll(curvature, k)) for k in range(-reach, reach + 1))
    first = int(np.argmin(np.round(bend, 6)))
    points, tangent, curvature = (np.roll(a, -first, axis=0) for a in (points, tangent, curvature))
    c, s = tangent[0]
    turn = np.array([[c, -s], [s, c]])
    points, tangent = (points - points[0]) @ turn, tangent @ turn
    normal = np.stack([-tangent[:, 1], tangent[:, 0]], axis=1)
    step = SAMPLES // CORNERS
    walls = [(points + side * half_width * normal)[::step] for side in (1.0, -1.0)]
    # to a micrometre, so that machines with different last bits of sines draw the same track
    rounded = [np.round(a, 6) + 0.0 for a in (points, tangent, curvature, *walls)]
    for array in rounded:
        array.setflags(write=False)
    return Track(seed, half_width, round(length, 6), *rounded)
