"""Random bases among random obstacles, in the batch simulator's rows, and rays cast among them by the textbook."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import zeros
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, STATE, STATE_WIDTH

Array = NDArray[Any]


def states(rng: np.random.Generator, count: int, extent_m: float) -> Array:
    """Return states (rows, count) anywhere within ``extent_m`` of the map's middle, turned anyhow."""
    state, heading = zeros(STATE_WIDTH, count), rng.uniform(-np.pi, np.pi, count)
    state[STATE["position"]] = rng.uniform(-extent_m, extent_m, (2, count))
    state[STATE["turn"]] = np.sin(heading / 2.0), np.cos(heading / 2.0)
    return np.asarray(state)


def boxes(rng: np.random.Generator, number: int, count: int, extent_m: float, half_m: float) -> Array:
    """Return boxes (6 number, count), some along the axes."""
    rows = zeros(BOX_ROWS * number, count)
    for k in range(number):
        yaw = np.where(rng.random(count) < 0.3, 0.0, rng.uniform(-np.pi, np.pi, count))
        place, half = rng.uniform(-extent_m, extent_m, (2, count)), rng.uniform(0.02, half_m, (2, count))
        rows[BOX_ROWS * k : BOX_ROWS * (k + 1)] = [*place, np.cos(yaw), np.sin(yaw), *half]
    return np.asarray(rows)


def circles(rng: np.random.Generator, number: int, count: int, extent_m: float, radius_m: float) -> Array:
    """Return circles (5 number, count)."""
    rows = zeros(CIRCLE_ROWS * number, count)
    for k in range(number):
        place, radius = rng.uniform(-extent_m, extent_m, (2, count)), rng.uniform(0.02, radius_m, count)
        rows[CIRCLE_ROWS * k : CIRCLE_ROWS * (k + 1)] = [*place, radius, *rng.normal(size=(2, count))]
    return np.asarray(rows)


def cast(
    state: Array, boxes: Array, circles: Array, angles: Array, mount: tuple[float, float, float], grown_m: float = 0.0
) -> Array:
    """Return how far (rays, N) in m rays go in double precision: slabs and roots; 0 inside, inf if for ever.

    Args:
        state: (rows, N).
        boxes: (6 boxes, N).
        circles: (5 circles, N).
        angles: (rays,) rad.
        mount: x, y and yaw of the lidar in base_link.
        grown_m: By which obstacles are larger, to bound what rounding may do at their edges.
    """
    state, boxes, circles = (a.astype(float) for a in (state, boxes, circles))
    (x, y), (z, w) = state[STATE["position"]], state[STATE["turn"]]
    heading = 2.0 * np.arctan2(z, w)
    ox = x + np.cos(heading) * mount[0] - np.sin(heading) * mount[1]
    oy = y + np.sin(heading) * mount[0] + np.cos(heading) * mount[1]
    along = heading + mount[2] + angles[:, None]
    ux, uy = np.cos(along), np.sin(along)
    best = np.full(along.shape, np.inf)
    with np.errstate(all="ignore"):
        for cx, cy, c, s, half_x, half_y in boxes.reshape(-1, BOX_ROWS, len(x)):
            enters, leaves = np.full(along.shape, -np.inf), np.full(along.shape, np.inf)
            for at, way, half in (
                (c * (ox - cx) + s * (oy - cy), c * ux + s * uy, half_x + grown_m),
                (c * (oy - cy) - s * (ox - cx), c * uy - s * ux, half_y + grown_m),
            ):
                one, other = (-half - at) / way, (half - at) / way
                enters = np.maximum(enters, np.minimum(one, other))
                leaves = np.minimum(leaves, np.maximum(one, other))
            best = np.minimum(best, np.where((enters <= leaves) & (leaves >= 0.0), np.maximum(enters, 0.0), np.inf))
        for cx, cy, radius, _, _ in circles.reshape(-1, CIRCLE_ROWS, len(x)):
            px, py, size = cx - ox, cy - oy, radius + grown_m
            ahead, outside = ux * px + uy * py, px**2 + py**2 - size**2
            reach = ahead - np.sqrt(ahead**2 - outside)  # nan: it passes
            best = np.fmin(best, np.where(outside <= 0.0, 0.0, np.where(ahead > 0.0, reach, np.inf)))
    return best
