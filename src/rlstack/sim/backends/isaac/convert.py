"""Conversion between the conventions of Isaac Sim and rlstack.

Isaac Sim's views: (N, columns), float32, quaternions **wxyz**, linear and angular velocity in the **world** frame.
rlstack: (rows, N), float64, quaternions **xyzw**, angular velocity in the **body** frame
(:data:`rlstack.sim.engine.BODY_ROWS`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.robots import frames
from rlstack.sim.engine import BODY_ROWS


def xyzw_from_wxyz(quaternion: NDArray[np.floating]) -> Array:
    """Return quaternions (..., 4) with the real part last."""
    return np.roll(np.asarray(quaternion, dtype=float), -1, axis=-1)


def wxyz_from_xyzw(quaternion: NDArray[np.floating]) -> Array:
    """Return quaternions (..., 4) with the real part first."""
    return np.roll(np.asarray(quaternion, dtype=float), 1, axis=-1)


def rows_from_views(positions: Array32, orientations: Array32, velocities: Array32) -> Array:
    """Return the bodies' state (13, N).

    Args:
        positions: (N, 3) m, world.
        orientations: (N, 4) wxyz; they are normalized, as single precision leaves errors of a few 1e-8.
        velocities: (N, 6), linear m/s and angular rad/s, world.
    """
    count = len(positions)
    rows = np.empty((BODY_ROWS, count))
    attitude = frames.normalise(xyzw_from_wxyz(orientations))
    rows[0:3] = positions.T
    rows[3:7] = attitude.T
    rows[7:10] = velocities[:, :3].T
    rows[10:13] = frames.rotate_inverse(attitude, velocities[:, 3:].astype(float)).T
    return rows


def views_from_row(body: Array) -> tuple[Array32, Array32, Array32]:
    """Return position (1, 3), orientation (1, 4) wxyz and world velocities (1, 6) of one body's state (13,)."""
    angular = frames.rotate(body[3:7], body[10:13])
    velocity = np.concatenate([body[7:10], angular])
    return tuple(np.asarray(a, dtype=np.float32)[None] for a in (body[0:3], wxyz_from_xyzw(body[3:7]), velocity))  # type: ignore[return-value]


def wrench_in_world(force: Array, torque: Array, orientation: Array) -> tuple[Array32, Array32]:
    """Return forces and torques (N, 3) in the world frame from world forces and body torques (3, N).

    Args:
        force: (3, N) N, world.
        torque: (3, N) N m, body.
        orientation: (4, N) xyzw: the bodies' attitudes when the wrench acts.
    """
    turned = frames.rotate(orientation.T, torque.T)
    return np.ascontiguousarray(force.T, dtype=np.float32), turned.astype(np.float32)
