"""Planar lidars of many robots: ranges to boxes and circles in closed form, in one pass over all robots.

A ray from the lidar along the unit vector u hits the line {x: n . x = a} at the range a / (n . u). The inverse range is
linear in u. So each obstacle is converted, once per robot, to a few vectors q whose products with u locate the hit;
rays need no division until the nearest hit is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import LoopKernel, clip, maximum, where, zeros
from rlstack.robots import Lidar
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, STATE

Rows = NDArray[Any]

NEIGHBOUR_RAD = np.radians(5.0)
"""Greatest angle to the neighbours that replace a dropped ray."""

_LEAST_M = 1e-6
"""Points nearer to a surface than this count as inside."""

_LOST = -1.0
"""Temporary range of a dropped ray."""


class ObstacleLidar:
    """Measures ranges (rays, N) of N robots, each among its own obstacles.

    A ray without a hit reads ``range_max_m``; a lidar inside an obstacle reads ``range_min_m`` all around. Noise is
    added to hits. A dropped ray reads the shorter of the nearest valid rays on both sides within 5 degrees, or
    ``range_min_m`` without any, as the signal ``scan`` does with NaN. A ray is dropped if its normal lies outside the
    share that is kept.

    Args:
        lidar: The lidar as in the robot file. Dropouts require evenly spaced rays; the noise of the other rays then
            lacks the normal distribution's tails.
        boxes: Number of boxes per robot.
        circles: Number of circles per robot.
        rays: Indices of the rays, ascending; None: all. The nearest neighbours of a dropped ray may then be others, but
            so near that they count as reading the same range.
        device: Device of the arrays.

    Raises:
        ValueError: There are dropouts, and the rays are not evenly spaced.
    """

    def __init__(
        self, lidar: Lidar, boxes: int, circles: int, rays: Sequence[int] | None = None, device: str = "cpu"
    ) -> None:
        angles = lidar.angles_rad if rays is None else lidar.angles_rad[list(rays)]
        self.rays, self.device = len(angles), device
        self._mount, self._range = lidar.position_m[:2], (lidar.range_min_m, lidar.range_max_m)
        self._noise = noise_m, noise_share = lidar.noise_m, lidar.noise_share
        dropout = lidar.dropout
        step = _spacing(angles) if dropout else np.inf
        spacing = lidar.angle_increment_rad
        if rays is not None and spacing < 0.999 * step and spacing <= NEIGHBOUR_RAD:
            dropout = 0.0
        self._noisy = noise_m > 0.0 or noise_share > 0.0 or dropout > 0.0
        self._beyond = NormalDist().inv_cdf(1.0 - 0.5 * dropout) if dropout else np.inf
        self._reach = min(int(NEIGHBOUR_RAD / step * (1.0 + 1e-9)), self.rays - 1) if dropout else 0
        self._around = 2.0 * np.pi - (angles[-1] - angles[0]) < NEIGHBOUR_RAD
        self._boxes, self._circles = boxes, circles
        turned = angles + lidar.rpy_rad[2]
        self._cast = LoopKernel(
            self._ray,
            {"position": 2, "turn": 2, "boxes": BOX_ROWS * boxes, "circles": CIRCLE_ROWS * circles},
            np.stack([np.cos(turned), np.sin(turned)], axis=1),
            {"noise": 1} if self._noisy else {},
            device=device,
        )
        if self._reach:
            swept = {f"ray_{k}": 1 for k in range(2 * self._reach + 1)}
            self._fill = LoopKernel(self._filled, {}, np.zeros((self.rays, 0)), swept, device=device)

    def prepare(
        self, state: Any, boxes: Any, circles: Any, ranges: Any, noise: Any | None = None
    ) -> Callable[[], None]:
        """Return a function that measures on these arrays, which must not move in memory.

        Args:
            state: (rows, N) as in :data:`.layout.STATE`; only position and heading are read.
            boxes: (6 boxes, N), box after box: centre x and y, cosine and sine of the yaw, half x, half y; m, map.
            circles: (5 circles, N), circle after circle: centre x and y, radius, velocity x and y; m, map.
            ranges: (rays, N) m, written.
            noise: (rays, N) standard normal values; required with noise or dropouts.

        Raises:
            KeyError, TypeError, ValueError: As for calling a kernel.
        """
        arrays = {
            "position": state[STATE["position"]],
            "turn": state[STATE["turn"]],
            "boxes": boxes,
            "circles": circles,
            "ranges": ranges,
        }
        if self._noisy:
            arrays["noise"] = noise
        if not self._reach:
            return self._cast.prepare(arrays)
        reach, rays = self._reach, self.rays
        heard = zeros(rays + 2 * reach, ranges.shape[1], self.device)
        heard[:] = _LOST
        cast = self._cast.prepare({**arrays, "ranges": heard[reach : reach + rays]})
        fill = self._fill.prepare({"filled": ranges, **{f"ray_{k}": heard[k : k + rays] for k in range(2 * reach + 1)}})

        def measure() -> None:
            cast()
            if self._around:
                heard[:reach] = heard[rays : rays + reach]
                heard[rays + reach :] = heard[reach : 2 * reach]
            fill()

        return measure

    def __call__(self, state: Any, boxes: Any, circles: Any, ranges: Any, noise: Any | None = None) -> None:
        """Measure once; see :meth:`prepare`."""
        self.prepare(state, boxes, circles, ranges, noise)()

    def _ray(
        self, direction: Rows, position: Rows, turn: Rows, boxes: Rows, circles: Rows, noise: Rows | None = None
    ) -> dict[str, Rows]:
        low, high = self._range
        z, w = turn
        c, s = w * w - z * z, 2.0 * z * w
        place = position + np.stack([c * self._mount[0] - s * self._mount[1], s * self._mount[0] + c * self._mount[1]])
        nearest, inside = 1.0 / high, 1.0 / max(low, _LEAST_M)
        met = []
        for k in range(self._boxes):
            within, vectors = _box(boxes[BOX_ROWS * k : BOX_ROWS * (k + 1)], place, c, s)
            nearest = where(within, inside, nearest)
            met.append((_meets_box, vectors))
        for k in range(self._circles):
            within, vectors = _circle(circles[CIRCLE_ROWS * k : CIRCLE_ROWS * (k + 1)], place, c, s)
            nearest = where(within, inside, nearest)
            met.append((_meets_circle, vectors))
        for meets, vectors in met:
            hit, nearness = meets(vectors, *direction)
            nearest = where(hit, where(nearest < nearness, nearness, nearest), nearest)
        reach = 1.0 / nearest
        if noise is None:
            return {"ranges": _one(clip(reach, low, high))}
        constant, share = self._noise
        sigma = constant + share * reach
        if constant and share:
            sigma = np.sqrt(constant**2 + (share * reach) ** 2)
        seen = where(nearest > 1.0 / high, clip(reach + sigma * noise[0], low, high), high)
        lost = _LOST if self._reach else low
        return {"ranges": _one(seen if self._beyond == np.inf else where(abs(noise[0]) > self._beyond, lost, seen))}

    def _filled(self, item: Rows, **rays: Rows) -> dict[str, Rows]:
        own, sides = rays[f"ray_{self._reach}"][0], []
        for way in (-1, 1):
            side = _LOST
            for k in range(self._reach, 0, -1):
                ray = rays[f"ray_{self._reach + way * k}"][0]
                side = where(ray >= 0.0, ray, side)
            sides.append(side)
        left, right = sides
        shorter = where((right < 0.0) | ((left >= 0.0) & (left < right)), left, right)
        return {"filled": _one(where(own >= 0.0, own, where(shorter >= 0.0, shorter, self._range[0])))}


def _one(number: Any) -> Rows:
    rows = np.empty(1, dtype=object)
    rows[0] = number
    return rows


def _spacing(angles: NDArray[Any]) -> float:
    steps = np.diff(angles)
    if len(steps) and np.ptp(steps) > 1e-3 * steps.mean():
        raise ValueError("dropouts need evenly spaced angles: which rays are neighbours is the same for each")
    return float(steps.mean()) if len(steps) else np.inf


def _box(box: Rows, place: Rows, c: Any, s: Any) -> tuple[Any, list[Any]]:
    """Return whether the lidar is inside the box, and q1 and q2 of its near sides in base_link with two bounds.

    With w1 = q1 . u and w2 = q2 . u, a ray hits the box if w1 >= bound2 w2 and w2 >= bound1 w1; its inverse range is
    the lesser of both. If only one side of the box is visible, the other line goes through the end of that side.
    """
    dx, dy = box[0] - place[0], box[1] - place[1]
    dx, dy = c * dx + s * dy, c * dy - s * dx
    ex, ey = c * box[2] + s * box[3], c * box[3] - s * box[2]
    along, aside = dx * ex + dy * ey, dy * ex - dx * ey
    turn1, turn2 = where(along < 0.0, -1.0, 1.0), where(aside < 0.0, -1.0, 1.0)
    near1, near2 = abs(along) - box[4], abs(aside) - box[5]
    in1, in2 = near1 <= _LEAST_M, near2 <= _LEAST_M
    scale1, scale2 = where(in1, 1.0, 1.0 / maximum(near1, _LEAST_M)), where(in2, 1.0, 1.0 / maximum(near2, _LEAST_M))
    n1x, n1y = ex * turn1 * scale1, ey * turn1 * scale1
    n2x, n2y = -ey * turn2 * scale2, ex * turn2 * scale2
    bend1, bend2 = where(in1, 1.0 - near1, 0.0), where(in2, 1.0 - near2, 0.0)
    one = in1 | in2
    bound1 = where(one, 1.0, near1) / where(in1, 2.0 * box[4] + 1.0, where(in2, 1.0, near1 + 2.0 * box[4]))
    bound2 = where(one, 1.0, near2) / where(in2, 2.0 * box[5] + 1.0, where(in1, 1.0, near2 + 2.0 * box[5]))
    within = in1 & in2
    q = (n1x + bend1 * n2x, n1y + bend1 * n2y, n2x + bend2 * n1x, n2y + bend2 * n1y)
    return within, [*(where(within, 0.0, x) for x in q), bound1, bound2]


def _meets_box(vectors: list[Any], ux: Any, uy: Any) -> tuple[Any, Any]:
    q1x, q1y, q2x, q2y, bound1, bound2 = vectors
    w1, w2 = q1x * ux + q1y * uy, q2x * ux + q2y * uy
    return (w1 >= bound2 * w2) & (w2 >= bound1 * w1), where(w1 < w2, w1, w2)


def _circle(circle: Rows, place: Rows, c: Any, s: Any) -> tuple[Any, list[Any]]:
    """Return whether the lidar is inside the circle, and q towards its centre in base_link with its squared size."""
    dx, dy, radius = circle[0] - place[0], circle[1] - place[1], circle[2]
    dx, dy = c * dx + s * dy, c * dy - s * dx
    distance = np.sqrt(dx * dx + dy * dy)
    near = distance - radius
    within = near <= _LEAST_M
    scale = where(within, 0.0, 1.0 / (maximum(near, _LEAST_M) * (distance + radius)))
    return within, [dx * scale, dy * scale, (radius * scale) ** 2]


def _meets_circle(vectors: list[Any], ux: Any, uy: Any) -> tuple[Any, Any]:
    # the product of both roots' inverse ranges is known, so the nearer root is a sum without cancellation
    qx, qy, size = vectors
    ahead, aside = qx * ux + qy * uy, qx * uy - qy * ux
    rest = size - aside * aside
    return rest >= 0.0, ahead + np.sqrt(where(rest > 0.0, rest, 0.0))
