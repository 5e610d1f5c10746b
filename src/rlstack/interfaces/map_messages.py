"""Occupancy grids: ``nav_msgs/OccupancyGrid`` to and from arrays."""

from __future__ import annotations

import array
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp, stamp_to_ns

UNKNOWN = -1
OCCUPIED = 100


@dataclass(frozen=True)
class Occupancy:
    """The content of an occupancy grid message.

    Args:
        cells: (rows, columns) int8: 0 free to 100 occupied, -1 unknown. Columns go along x, rows along y.
        resolution_m: Size of a cell.
        origin_m: x, y of the first cell's corner, not its centre.
        yaw_rad: Yaw of the map's x axis in its frame.
        frame: The map's frame.
        stamp_ns: Time of creation, ns.
    """

    cells: NDArray[np.int8]
    resolution_m: float
    origin_m: tuple[float, float]
    yaw_rad: float = 0.0
    frame: str = topics.WORLD_FRAME
    stamp_ns: int = 0


def map_message(occupancy: Occupancy) -> Any:
    """Return the ``nav_msgs/OccupancyGrid`` of a map.

    Raises:
        ValueError: Cells do not have two axes or are not from -1 to 100, or the resolution is not above 0.
    """
    cells = np.asarray(occupancy.cells)
    if cells.ndim != 2 or (cells.size and not -1 <= cells.min() <= cells.max() <= OCCUPIED):
        raise ValueError(f"a map of the shape {cells.shape} is not allowed: (rows, columns) of -1 to 100")
    if not (math.isfinite(occupancy.resolution_m) and occupancy.resolution_m > 0.0):
        raise ValueError(f"a map with cells of {occupancy.resolution_m} m is not allowed: must be above 0")
    message = topics.type_of(topics.MAP)()
    set_stamp(message.header.stamp, occupancy.stamp_ns)
    set_stamp(message.info.map_load_time, occupancy.stamp_ns)
    message.header.frame_id = occupancy.frame
    message.info.resolution = float(occupancy.resolution_m)
    message.info.height, message.info.width = cells.shape
    origin = message.info.origin
    origin.position.x, origin.position.y = map(float, occupancy.origin_m)
    origin.orientation.z, origin.orientation.w = math.sin(occupancy.yaw_rad / 2.0), math.cos(occupancy.yaw_rad / 2.0)
    message.data = array.array("b", np.ascontiguousarray(cells, dtype=np.int8).tobytes())
    return message


def read_map(message: Any) -> Occupancy:
    """Return the map of a ``nav_msgs/OccupancyGrid``; raise ``ValueError`` if its fields contradict each other."""
    info = message.info
    rows, columns = info.height, info.width
    cells = np.array(message.data, dtype=np.int8)
    if len(cells) != rows * columns:
        raise ValueError(f"a map of {columns} x {rows} cells came with {len(cells)}")
    if not (math.isfinite(info.resolution) and info.resolution > 0.0):
        raise ValueError(f"a map with cells of {info.resolution} m is not allowed")
    turn = info.origin.orientation
    if abs(turn.x) > 1e-3 or abs(turn.y) > 1e-3:
        raise ValueError("a map that is not level is not supported")
    yaw = 2.0 * math.atan2(turn.z, turn.w)  # a quaternion of zeros, which some drivers send, means no rotation
    return Occupancy(
        cells=cells.reshape(rows, columns),
        # through float32: 0.05 must not become 0.05000000074505806
        resolution_m=float(np.format_float_positional(np.float32(info.resolution), unique=True)),
        origin_m=(info.origin.position.x, info.origin.position.y),
        yaw_rad=math.remainder(yaw, 2.0 * math.pi),
        frame=message.header.frame_id,
        stamp_ns=stamp_to_ns(message.header.stamp),
    )
