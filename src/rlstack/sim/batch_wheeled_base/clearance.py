"""Clearance of a base's footprint from obstacles, as per-robot functions that kernels fuse and differentiate.

The functions take object arrays of expressions, or plain arrays with robots along the last axis. The footprint is a
set of discs (x, y, radius) in base_link, m; obstacles have the rows of :mod:`.layout`. Distances are signed: negative
values are penetration depths. The gradient of a distance is a unit vector nearly everywhere, inside as well; at the
centre of a circle and on a box's surface, where it is undefined, it is finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import maximum, minimum, where
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS

Rows = NDArray[Any]
Disc = tuple[Any, Any, Any]
"""x, y and radius in base_link, m."""

_TINY_M2 = 1e-12
"""Least squared length, so that square roots have a finite derivative."""


def box_distance(x: Any, y: Any, box: Rows) -> Any:
    """Return the signed distance in m of a point to a box (6,)."""
    dx, dy = x - box[0], y - box[1]
    over_x = abs(box[2] * dx + box[3] * dy) - box[4]
    over_y = abs(box[2] * dy - box[3] * dx) - box[5]
    out_x, out_y = maximum(over_x, 0.0), maximum(over_y, 0.0)
    inner = maximum(over_x, over_y)
    return where(inner > 0.0, _length(out_x, out_y), inner)


def circle_distance(x: Any, y: Any, circle: Rows) -> Any:
    """Return the signed distance in m of a point to a circle (5,)."""
    return _length(x - circle[0], y - circle[1]) - circle[2]


def distances(position: Rows, turn: Rows, discs: Sequence[Disc], boxes: Rows, circles: Rows) -> Rows:
    """Return the signed distances (obstacles,) in m from the footprint to each box, then to each circle.

    Args:
        position: x and y of base_link (2,), m, map.
        turn: z and w of the heading's unit quaternion (2,).
        discs: Discs of the footprint; at least one.
        boxes: (6 boxes,).
        circles: (5 circles,).
    """
    (x0, y0), (z, w) = position, turn
    c, s = w * w - z * z, 2.0 * z * w
    centres = [(x0 + c * x - s * y, y0 + s * x + c * y) for x, y, _ in discs]
    found = []
    for rows, width, distance in ((boxes, BOX_ROWS, box_distance), (circles, CIRCLE_ROWS, circle_distance)):
        for first in range(0, len(rows), width):
            shape = rows[first : first + width]
            found.append(_least([distance(x, y, shape) - disc[2] for (x, y), disc in zip(centres, discs)]))
    return np.stack(found)


def clearance(position: Rows, turn: Rows, discs: Sequence[Disc], boxes: Rows, circles: Rows) -> Any:
    """Return the least of :func:`distances`."""
    return _least(list(distances(position, turn, discs, boxes, circles)))


def _least(values: list[Any]) -> Any:
    least = values[0]
    for value in values[1:]:
        least = minimum(least, value)
    return least


def _length(x: Any, y: Any) -> Any:
    return np.sqrt(maximum(x * x + y * y, _TINY_M2))
