"""Lens distortion: OpenCV's model with five coefficients (``plumb_bob``), in numpy.

Points are on the image plane at a depth of 1: x right, y down, the optical axis at 0. The formula is from
OpenCV's documentation, "Camera Calibration and 3D Reconstruction" (Brown's model).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array

_ITERATIONS = 50


def distort(points: Array, coefficients: Sequence[float]) -> Array:
    """Return the distorted positions (..., 2) of pinhole ``points``.

    Args:
        points: (..., 2).
        coefficients: k1, k2, p1, p2, k3.
    """
    k1, k2, p1, p2, k3 = coefficients
    x, y = points[..., 0], points[..., 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    return np.stack(
        (
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        ),
        axis=-1,
    )


def slope(points: Array, coefficients: Sequence[float]) -> Array:
    """Return the derivatives (..., 2, 2) of :func:`distort` at ``points`` (..., 2)."""
    k1, k2, p1, p2, k3 = coefficients
    x, y = points[..., 0], points[..., 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    outward = 2.0 * (k1 + r2 * (2.0 * k2 + 3.0 * r2 * k3))  # of radial along r^2, times 2
    across = outward * x * y + 2.0 * p1 * x + 2.0 * p2 * y
    along_x = radial + outward * x * x + 2.0 * p1 * y + 6.0 * p2 * x
    along_y = radial + outward * y * y + 6.0 * p1 * y + 2.0 * p2 * x
    return np.stack((np.stack((along_x, across), axis=-1), np.stack((across, along_y), axis=-1)), axis=-2)


def undistort(points: Array, coefficients: Sequence[float]) -> Array:
    """Return the inverse of :func:`distort` (..., 2) to rounding, by Newton's method with halved steps.

    Points that are outside the lens's image have no inverse; their results do not map back.
    """
    wanted = np.asarray(points, dtype=float)
    if not any(coefficients):
        return wanted.copy()
    found = wanted.copy()
    with np.errstate(all="ignore"):
        miss = distort(found, coefficients) - wanted
        for _ in range(_ITERATIONS):
            if np.abs(miss).max(initial=0.0) < 1e-13:
                break
            (a, b), (c, d) = np.moveaxis(slope(found, coefficients), (-2, -1), (0, 1))
            dx, dy = miss[..., 0], miss[..., 1]
            step = np.stack((d * dx - b * dy, a * dy - c * dx), axis=-1) / (a * d - b * c)[..., None]
            scale = np.ones(wanted.shape[:-1])
            for _ in range(8):
                tried = found - scale[..., None] * step
                left = distort(tried, coefficients) - wanted
                worse = ~(np.linalg.norm(left, axis=-1) <= np.linalg.norm(miss, axis=-1))
                if not worse.any():
                    break
                scale = np.where(worse, 0.5 * scale, scale)
            better = ~worse[..., None]
            found, miss = np.where(better, tried, found), np.where(better, left, miss)
    return found


def is_one_to_one(points: Array, coefficients: Sequence[float]) -> bool:
    """Return whether the distortion is one-to-one inside the ``points`` (n, 2) of an image's border."""
    inside = points[None] * np.linspace(0.0, 1.0, 65)[:, None, None]
    with np.errstate(over="ignore", invalid="ignore"):
        (a, b), (c, d) = np.moveaxis(slope(inside, coefficients), (-2, -1), (0, 1))
        return bool((a * d - b * c > 0.0).all() and (a + d > 0.0).all())
