"""People around a robot: ``sensor_msgs/PointCloud2`` to and from arrays.

Each point is a person, with the float32 fields x, y, z, vx, vy and radius, m and m/s in ``odom``, and the uint32 field
id, which is constant for a person. Fields may have any order, and there may be others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.cloud_messages import PointCloudMessage, cloud_fields
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.signals import FAR_M
from rlstack.interfaces.transform_buffer import Place, in_odom
from rlstack.robots import frames

RADIUS_M = 0.25
"""Default radius of a person: that of HEIGHT's simulated people (arXiv 2411.12150)."""

NOBODY = {
    "people_position": np.array([[FAR_M, 0.0, 0.0]]),
    "people_velocity": np.zeros((1, 3)),
    "people_radius": np.array([0.01]),
}
"""The signals when nobody is seen: graphs and planners need at least one person. Read only."""
for _array in NOBODY.values():
    _array.flags.writeable = False

_FIELDS = ("x", "y", "z", "vx", "vy", "radius")
_ROW = np.dtype([*((name, "f4") for name in _FIELDS), ("id", "u4")])


def extrapolated(position: Array, velocity: Array, age_s: Any) -> Array:
    """Return where people are now who were at ``position`` ``age_s`` ago, if they keep their velocity.

    The policy node does this to late people, and so does training and verification in process.

    Args:
        position: (..., people, 3) m.
        velocity: (..., people, 3) m/s.
        age_s: Age of both, s, a number or (...,); below 0 counts as 0.
    """
    age = np.maximum(np.asarray(age_s, dtype=float), 0.0)
    return np.asarray(position) + np.asarray(velocity) * age[..., None, None]


class PeopleMessage(PointCloudMessage):
    """One PointCloud2 that is refilled, by default in the frame ``odom``."""

    def __init__(self, frame: str = topics.WORLD_FRAME) -> None:
        super().__init__(frame, _ROW)

    def fill(
        self, stamp_ns: int, position: Array, velocity: Array, radius: Array, ids: NDArray[np.integer] | None = None
    ) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Measurement time, ns.
            position: (people, 2) or (people, 3) m.
            velocity: (people, 2) or (people, 3) m/s; the third is not sent.
            radius: (people,) m.
            ids: (people,) from 0 on; by default their index.

        Raises:
            ValueError: The shapes do not match.
        """
        count = len(radius)
        where, moving = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
        if any(a.shape not in ((count, 2), (count, 3)) for a in (where, moving)) or np.shape(radius) != (count,):
            raise ValueError(
                f"people of {where.shape}, {moving.shape} and {np.shape(radius)} are not allowed: must be (people, 2 or"
                " 3), (people, 2 or 3) and (people,)"
            )
        rows = np.zeros(count, dtype=_ROW)
        for k, name in enumerate("xyz"[: where.shape[1]]):
            rows[name] = where[:, k]
        rows["vx"], rows["vy"], rows["radius"] = moving[:, 0], moving[:, 1], radius
        rows["id"] = np.arange(count) if ids is None else ids
        return self.fill_rows(stamp_ns, rows)


def read_people(message: Any, place: Place = in_odom) -> dict[str, Array]:
    """Return the signals ``people_position``, ``people_velocity`` (people, 3) and ``people_radius`` (people,).

    People with non-finite values are dropped. Missing velocities and radii are 0 and :data:`RADIUS_M`. If nobody is
    left, the result is :data:`NOBODY`.

    Args:
        message: A PointCloud2.
        place: Returns the pose of the message's frame.

    Raises:
        ValueError: It is in another frame, has no fields x, y, or fewer bytes than its size needs.
    """
    pose = place(message.header.frame_id, stamp_to_ns(message.header.stamp))
    given = {field.name for field in message.fields}
    found = cloud_fields(message, ["x", "y", *(name for name in _FIELDS[2:] if name in given)])
    count = len(found["x"])
    otherwise = {"radius": np.full(count, RADIUS_M)}
    columns = [np.asarray(found.get(n, otherwise.get(n, np.zeros(count))), dtype=np.float64) for n in _FIELDS]
    table = np.stack(columns, axis=-1)
    table = table[np.isfinite(table).all(axis=1)]
    if not len(table):
        return dict(NOBODY)
    position, velocity = table[:, :3], np.concatenate([table[:, 3:5], np.zeros((len(table), 1))], axis=1)
    if pose is not None:
        position, velocity = pose.points(position), frames.rotate(pose.orientation, velocity)
    return {
        "people_position": position,
        "people_velocity": velocity,
        "people_radius": np.maximum(table[:, 5], 0.0),
    }


class PeopleReader:
    """Reads a serialized PointCloud2's stamp in ns and the signals of :func:`read_people`."""

    def __init__(self, place: Place = in_odom) -> None:
        self._place = place

    def __call__(self, data: bytes) -> tuple[int, dict[str, Array]]:
        """Return the stamp and the signals; raise ``ValueError`` as :func:`read_people` does."""
        message = cdr.deserialize(data, topics.type_of(topics.PEOPLE))
        return stamp_to_ns(message.header.stamp), read_people(message, self._place)
