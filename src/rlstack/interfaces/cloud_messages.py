"""Point clouds: ``sensor_msgs/PointCloud2`` to and from arrays, vectorised."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import filled, unpadded_rows
from rlstack.interfaces.messages import set_stamp
from rlstack.robots import Lidar

_KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""Number type by ``sensor_msgs/PointField.datatype``."""


class PointCloudMessage:
    """One PointCloud2 that is refilled with rows of one structured type.

    Args:
        frame: ``header.frame_id``, the points' frame.
        row: Type of a point: fields of numbers.
    """

    def __init__(self, frame: str, row: np.dtype[Any]) -> None:
        self.message: Any = topics.message_type(topics.CLOUD_TYPE)()
        message, field = self.message, topics.message_type("sensor_msgs/msg/PointField")
        message.header.frame_id = frame
        message.is_bigendian = sys.byteorder == "big"
        message.height, message.point_step = 1, row.itemsize
        datatypes = {np.dtype(kind): datatype for datatype, kind in _KINDS.items()}
        message.fields = [
            field(name=name, offset=offset, datatype=datatypes[kind], count=1)
            for name, (kind, offset, *_) in (row.fields or {}).items()
        ]

    def fill_rows(self, stamp_ns: int, rows: NDArray[Any], dense: bool = True) -> Any:
        """Return the message with rows (points,) and their measurement time; ``dense``: all are finite."""
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        message.width, message.row_step = len(rows), rows.nbytes
        message.is_dense = dense
        message.data = filled(rows)
        return message


class CloudMessage(PointCloudMessage):
    """Points x, y, z, float32 m, and, with ``coloured``, rgb as PCL and RViz pack it.

    Args:
        frame: ``header.frame_id``, the points' frame.
        coloured: Whether points have colours.
    """

    def __init__(self, frame: str, coloured: bool = False) -> None:
        names = ("x", "y", "z", "rgb") if coloured else ("x", "y", "z")
        self._columns = len(names)
        super().__init__(frame, np.dtype([(name, "f4") for name in names]))

    def fill(self, stamp_ns: int, points: NDArray[Any], colours: NDArray[np.uint8] | None = None) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Measurement time, ns.
            points: (points, 3) m.
            colours: (points, 3) red, green, blue, if the message has colours.

        Raises:
            ValueError: The shapes do not match.
        """
        count, coloured = len(points), self._columns > 3
        if np.shape(points) != (count, 3) or coloured != (colours is not None):
            with_ = "with" if coloured else "without"
            raise ValueError(f"points of {np.shape(points)} are not allowed: must be (points, 3), {with_} colours")
        packed = np.empty((count, self._columns), dtype=np.float32)
        packed[:, :3] = points
        if colours is not None:
            if np.shape(colours) != (count, 3):
                raise ValueError(f"colours of {np.shape(colours)} are not allowed for {count} points")
            wide = colours.astype(np.uint32)
            packed.view(np.uint32)[:, 3] = wide[:, 0] << 16 | wide[:, 1] << 8 | wide[:, 2]
        return self.fill_rows(stamp_ns, packed, bool(np.isfinite(packed[:, :3]).all()))


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
    height, width, step = message.height, message.width, message.point_step
    what = f"{width} x {height} points of {step} bytes"
    if max(ends) > step:
        raise ValueError(f"the fields of a point take {max(ends)} bytes: too many for {what}")
    rows = unpadded_rows(message.data, height, step * width, message.row_step, what)
    foreign = bool(message.is_bigendian) != (sys.byteorder == "big")
    formats = [kind.newbyteorder() if foreign else kind for kind in kinds]
    offsets = [at[name].offset for name in names]
    layout = np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": step})
    points = rows.reshape(-1).view(layout)
    return {name: points[name].astype(kind, copy=False) for name, kind in zip(names, kinds)}
