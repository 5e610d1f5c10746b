"""From MAVLink's frames to REP-103's and back: world north-east-down to east-north-up, body x-right-down to FLU.

All arrays are (..., 3) or, for quaternions, (..., 4) with x, y, z, w. Each of these turns is its own inverse.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.robots.frames import canonical, multiply

_HALF = math.sqrt(0.5)
_NED_TO_ENU = np.array([_HALF, _HALF, 0.0, 0.0])
_FRD_TO_FLU = np.array([1.0, 0.0, 0.0, 0.0])


def swap_body(vector: ArrayLike) -> Array:
    """Return a vector of the body in FLU from FRD, or in FRD from FLU."""
    return np.asarray(vector, dtype=float) * np.array([1.0, -1.0, -1.0])


def swap_world(vector: ArrayLike) -> Array:
    """Return a vector of the world in ENU from NED, or in NED from ENU."""
    v = np.asarray(vector, dtype=float)
    return np.stack([v[..., 1], v[..., 0], -v[..., 2]], axis=-1)


def swap_orientation(quaternion: ArrayLike) -> Array:
    """Return FLU in ENU from FRD in NED, or FRD in NED from FLU in ENU; w is at least 0."""
    return canonical(multiply(_NED_TO_ENU, multiply(quaternion, _FRD_TO_FLU)))


def swap_local_orientation(quaternion: ArrayLike) -> Array:
    """Return FLU in a world of FLU axes from FRD in one of FRD axes, or back; w is at least 0."""
    return canonical(multiply(_FRD_TO_FLU, multiply(quaternion, _FRD_TO_FLU)))
