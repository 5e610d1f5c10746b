"""A lidar's ranges as the signal ``scan`` of a policy file: one finite range for each ray of the contract.

The contract's input has, under ``scan``, ``rays``, ``angle_min_rad`` and ``angle_increment_rad`` (from straight ahead
towards the left), ``range_min_m``, ``range_max_m`` and the lidar's ``position_m``. Nothing within range is range_max,
too near is range_min, and what was not measured is the shorter of its nearest measured neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NEIGHBOUR_RAD = np.radians(5.0)


def nearest(angles: Array, scan: Mapping[str, Any]) -> NDArray[np.intp]:
    """Return for each ray of the contract the index of the nearest measured one, of those at ``angles``, rad."""
    wanted = scan["angle_min_rad"] + scan["angle_increment_rad"] * np.arange(scan["rays"])
    apart = np.abs((angles[None, :] - wanted[:, None] + np.pi) % (2.0 * np.pi) - np.pi)
    return np.asarray(apart.argmin(axis=1))


def finite(ranges: Array, scan: Mapping[str, Any]) -> Array:
    """Return the contract's rays (rays,), m.

    Args:
        ranges: (rays,) m; infinite: nothing within range; NaN: not measured.
        scan: The contract's geometry.
    """
    return filled(np.clip(ranges, scan["range_min_m"], scan["range_max_m"]), scan)


def filled(ranges: Array, scan: Mapping[str, Any]) -> Array:
    """Return ranges with NaN replaced by the shorter of the nearest measured neighbours, within 5 degrees."""
    missing = np.flatnonzero(np.isnan(ranges))
    found, rays = ranges.copy(), len(ranges)
    turns = 2.0 * np.pi - scan["angle_increment_rad"] * (rays - 1) < NEIGHBOUR_RAD
    for ray in missing:
        sides = []
        for way in (-1, 1):
            for away in range(1, int(NEIGHBOUR_RAD / scan["angle_increment_rad"] + 1e-9) + 1):
                other = ray + way * away
                if not turns and not 0 <= other < rays:
                    break
                if not np.isnan(ranges[other % rays]):
                    sides.append(ranges[other % rays])
                    break
        found[ray] = min(sides, default=scan["range_min_m"])
    return found
