"""A lidar's ranges as the signal ``scan`` of a policy file: one finite range for each ray of the contract.

The contract's input has, under ``scan``, ``rays``, ``angle_min_rad`` and ``angle_increment_rad`` (from straight ahead
towards the left), ``range_min_m``, ``range_max_m`` and the lidar's ``position_m``. Its envelope says, under ``scans``,
what a ray holds without a return, with something too near, and where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rules(contract: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return what the rays of the input ``name`` hold without a measurement; files without an envelope all had this."""
    scan = next(port["scan"] for port in contract["inputs"] if port["name"] == name)
    usual = {
        "no_return_m": scan["range_max_m"],
        "too_near_m": scan["range_min_m"],
        "missing_m": scan["range_min_m"],
        "neighbour_rad": float(np.radians(5.0)),
    }
    stated = (contract.get("envelope") or {}).get("scans", {}).get(name, {})
    return {key: float(stated.get(key, number)) for key, number in usual.items()}


def nearest(angles: Array, scan: Mapping[str, Any]) -> NDArray[np.intp]:
    """Return for each ray of the contract the index of the nearest measured one, of those at ``angles``, rad."""
    wanted = scan["angle_min_rad"] + scan["angle_increment_rad"] * np.arange(scan["rays"])
    apart = np.abs((angles[None, :] - wanted[:, None] + np.pi) % (2.0 * np.pi) - np.pi)
    return np.asarray(apart.argmin(axis=1))


def finite(ranges: Array, scan: Mapping[str, Any], rules: Mapping[str, float]) -> Array:
    """Return the contract's rays (rays,), m.

    Args:
        ranges: (rays,) m; infinite: nothing within range; NaN: not measured.
        scan: The contract's geometry.
        rules: See :func:`rules`.
    """
    with np.errstate(invalid="ignore"):
        found = np.where(ranges > scan["range_max_m"], rules["no_return_m"], ranges)
        found = np.where(ranges < scan["range_min_m"], rules["too_near_m"], found)
    known, rays, step_rad = ~np.isnan(found), len(found), scan["angle_increment_rad"]
    turns = 2.0 * np.pi - step_rad * (rays - 1) < rules["neighbour_rad"]
    reach = range(1, int(rules["neighbour_rad"] / step_rad + 1e-9) + 1)
    result = found.copy()
    for ray in np.flatnonzero(~known):
        sides = [[(ray + way * away) for away in reach] for way in (-1, 1)]
        if not turns:
            sides = [[other for other in side if 0 <= other < rays] for side in sides]
        nearest = [next((found[k % rays] for k in side if known[k % rays]), np.nan) for side in sides]
        result[ray] = rules["missing_m"] if np.isnan(nearest).all() else np.nanmin(nearest)
    return result
