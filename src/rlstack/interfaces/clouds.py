"""Point clouds: ``sensor_msgs/PointCloud2`` to and from arrays, vectorised."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import topics
from rlstack.interfaces.images import filled
from rlstack.interfaces.messages import set_stamp
from rlstack.robots import Lidar

_KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""Number type by ``sensor_msgs/PointField.datatype``."""
_FLOAT32 = 7


class CloudMessage:
    """One PointCloud2 that is refilled: x, y, z float32 m and, with ``coloured``, rgb as PCL and RViz pack it.

    Args:
        message: An empty ``sensor_msgs/PointCloud2``.
        frame: ``header.frame_id``, the points' frame.
        coloured: Whether points have colours.
    """

    def __init__(self, message: Any, frame: str, coloured: bool = False) -> None:
        self.message = message
        self._names = ("x", "y", "z", "rgb") if coloured else ("x", "y", "z")
        message.header.frame_id = frame
        message.is_bigendian = sys.byteorder == "big"
        message.height, message.point_step = 1, 4 * len(self._names)
        field = topics.message_type("sensor_msgs/msg/PointField")
        message.fields = [
            field(name=name, offset=4 * k, datatype=_FLOAT32, count=1) for k, name in enumerate(self._names)
        ]

    def fill(self, stamp_ns: int, points: NDArray[Any], colours: NDArray[np.uint8] | None = None) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Measurement time, ns.
            points: (points, 3) m.
            colours: (points, 3) red, green, blue, if the message has colours.

        Raises:
            ValueError: The shapes do not match.
        """
        count = len(points)
        coloured = len(self._names) > 3
        if np.shape(points) != (count, 3) or coloured != (colours is not None):
            raise ValueError(f"points of {np.shape(points)} {'with' if coloured else 'without'} colours were to come")
        packed = np.empty((count, len(self._names)), dtype=np.float32)
        packed[:, :3] = points
        if colours is not None:
            if np.shape(colours) != (count, 3):
                raise ValueError(f"colours of {np.shape(colours)} are none of {count} points")
            wide = colours.astype(np.uint32)
            packed.view(np.uint32)[:, 3] = wide[:, 0] << 16 | wide[:, 1] << 8 | wide[:, 2]
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        message.width, message.row_step = count, count * message.point_step
        message.is_dense = bool(np.isfinite(packed[:, :3]).all())
        message.data = filled(packed)
        return message


def cloud_points(message: Any, finite: bool = True) -> NDArray[np.float32]:
    """Return a PointCloud2's points (points, 3) float32 m in its frame.

    Args:
        message: With fields x, y, z of any number type, at any offset.
        finite: Drop non-finite points.

    Raises:
        ValueError: It has no such fields, or fewer bytes than its size needs.
    """
    found = cloud_fields(message, ("x", "y", "z"))
    points = np.stack([found[name] for name in "xyz"], axis=-1).astype(np.float32, copy=False)
    return points[np.isfinite(points).all(axis=1)] if finite and not message.is_dense else points


def cloud_colours(message: Any) -> NDArray[np.uint8]:
    """Return a PointCloud2's colours (points, 3) red, green, blue, of all points, finite or not.

    Raises:
        ValueError: It has no field ``rgb`` or ``rgba`` of four bytes, or fewer bytes than its size needs.
    """
    names = [field.name for field in message.fields if field.name in ("rgb", "rgba")]
    colour = cloud_fields(message, names[:1] or ("rgb",))[names[0] if names else "rgb"]
    if colour.dtype.itemsize != 4:
        raise ValueError(f"the cloud's field '{names[0]}' is not of four bytes")
    packed = np.ascontiguousarray(colour).view(np.uint32)
    return np.stack((packed >> 16 & 255, packed >> 8 & 255, packed & 255), axis=-1).astype(np.uint8)


def lidar_points(lidar: Lidar, ranges: NDArray[Any]) -> NDArray[np.float64]:
    """Return a lidar's hits, (points, 3) m in its own frame; rays without a hit are dropped.

    Args:
        lidar: The lidar.
        ranges: (rays,) or (rings, rays) m.
    """
    distances = np.asarray(ranges, dtype=float).reshape(lidar.rings, lidar.rays)
    hit = np.isfinite(distances)
    return lidar.directions[hit] * distances[hit][:, None]


def cloud_fields(message: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return fields of a PointCloud2 as arrays (points,) by name, in this machine's byte order.

    Raises:
        ValueError: It has no such fields, or fewer bytes than its size needs.
    """
    at = {field.name: field for field in message.fields}
    missing = [name for name in names if name not in at]
    if missing:
        raise ValueError(f"the cloud has no field '{missing[0]}', only {', '.join(at) or 'none'}")
    if strange := [name for name in names if at[name].datatype not in _KINDS]:
        raise ValueError(f"the cloud's field '{strange[0]}' has no number type ({at[strange[0]].datatype})")
    kinds: list[np.dtype[Any]] = [np.dtype(_KINDS[at[name].datatype]) for name in names]
    ends = [at[name].offset + kind.itemsize for name, kind in zip(names, kinds)]
    height, width, step, row = message.height, message.width, message.point_step, message.row_step
    data = np.frombuffer(message.data, dtype=np.uint8)
    if max(ends) > step or step * width > row or len(data) < row * height:
        raise ValueError(f"a cloud of {len(data)} bytes is too small for {width} x {height} points of {step} bytes")
    foreign = bool(message.is_bigendian) != (sys.byteorder == "big")
    formats = [kind.newbyteorder() if foreign else kind for kind in kinds]
    offsets = [at[name].offset for name in names]
    layout = np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": step})
    rows = data[: row * height].reshape(height, row)[:, : step * width]
    points = np.ascontiguousarray(rows).reshape(-1).view(layout)
    return {name: points[name].astype(kind, copy=False) for name, kind in zip(names, kinds)}
