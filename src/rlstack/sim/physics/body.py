"""Rigid-body states and vector algebra of the physics models, in numpy style for :mod:`rlstack.fused`.

Vectors have their components along the first axis: plain arrays (3,) or (3, N), or expressions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Vector = Any
"""An array with its components along the first axis."""


class Body(NamedTuple):
    """State of a rigid body: position m and velocity m/s (world), attitude body to world, rates rad/s (body).

    Also used for its time derivative.
    """

    position: Vector
    orientation: Vector
    velocity: Vector
    rates: Vector


def vector(*components: Any) -> Vector:
    """Return a vector of these components."""
    return np.stack([np.asarray(c) for c in components])


def cross(a: Vector, b: Vector) -> Vector:
    """Return the cross product."""
    return vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def unit(q: Vector) -> Vector:
    """Return the normalized quaternion."""
    return q * (1.0 / np.sqrt((q * q).sum(axis=0)))


def rotate(q: Vector, v: Vector, sense: float = 1.0) -> Vector:
    """Rotate ``v`` by the unit quaternion ``q`` xyzw (sense 1) or its inverse (sense -1)."""
    axis, w = q[:3], sense * q[3]
    across = 2.0 * cross(axis, v)
    return v + w * across + cross(axis, across)


def turned(q: Vector, rates: Vector) -> Vector:
    """Return the quaternion product of ``q`` and the pure quaternion of the body rates."""
    x, y, z, w = q
    p, q_, r = rates
    return vector(w * p + y * r - z * q_, w * q_ + z * p - x * r, w * r + x * q_ - y * p, -(x * p + y * q_ + z * r))


def down_row(q: Vector) -> tuple[Any, Any, Any]:
    """Return the world z components of the body's axes: the last row of the rotation matrix of ``q`` xyzw."""
    x, y, z, w = q
    return 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)
