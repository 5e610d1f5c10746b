"""Rendering with PyBullet's software renderer, TinyRenderer, which needs no display or graphics driver.

PyBullet's OpenGL renderer through EGL reached 25 frames per second at 128x128 on Mesa's software driver, against 290
here, and did not fill the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.sim.backends.pybullet.server import Server
from rlstack.sim.engine import View


def look(server: Server, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
    """Render a camera without distortion; see :meth:`rlstack.sim.engine.Engine.look`."""
    bullet = server.bullet
    near, far = camera.near_m, camera.far_m
    _, _, rgba, buffer, _ = bullet.getCameraImage(
        camera.width,
        camera.height,
        _flat(view_matrix(position, rotation)),
        _flat(projection_matrix(camera.intrinsics, camera.width, camera.height, near, far)),
        shadow=0,  # twice as fast as with shadows
        flags=bullet.ER_NO_SEGMENTATION_MASK,
        renderer=bullet.ER_TINY_RENDERER,
    )
    rgb = depth = None
    if "rgb" in wanted:
        rgb = np.ascontiguousarray(np.reshape(rgba, (camera.height, camera.width, 4))[..., :3], dtype=np.uint8)
    if "depth" in wanted:
        stored = np.reshape(np.asarray(buffer, dtype=np.float64), (camera.height, camera.width))
        # An OpenGL depth buffer is linear in the inverse depth; 1 means far or nothing.
        with np.errstate(divide="ignore"):
            metres = near * far / (far - (far - near) * stored)
        depth = np.where(stored < 1.0, metres, np.inf).astype(np.float32)
    return View(rgb, depth)


def view_matrix(position: Array, rotation: Array) -> Array:
    """Return OpenGL's view matrix (4, 4) from the world to a camera that looks along -z with y up.

    Args:
        position: (3,) m, world.
        rotation: (3, 3) whose columns are the optical frame's axes (right, down, forward) in the world.
    """
    matrix = np.eye(4)
    matrix[:3, :3] = (rotation * [1.0, -1.0, -1.0]).T
    matrix[:3, 3] = -matrix[:3, :3] @ position
    return matrix


def projection_matrix(intrinsics: Array, width: int, height: int, near_m: float, far_m: float) -> Array:
    """Return OpenGL's projection matrix (4, 4) that makes TinyRenderer's pixel centres match OpenCV's camera model.

    TinyRenderer samples a pixel at its lower left corner, so the image is shifted by half a pixel (measured with
    slanted walls: 0.5000 along both axes, to 0.0002).
    """
    fx, fy, cx, cy = intrinsics[0, 0], intrinsics[1, 1], intrinsics[0, 2] - 0.5, intrinsics[1, 2] + 0.5
    matrix = np.zeros((4, 4))
    matrix[0, 0], matrix[0, 2] = 2.0 * fx / width, 1.0 - 2.0 * (cx + 0.5) / width
    matrix[1, 1], matrix[1, 2] = 2.0 * fy / height, 2.0 * (cy + 0.5) / height - 1.0
    matrix[2, 2], matrix[2, 3] = -(far_m + near_m) / (far_m - near_m), -2.0 * far_m * near_m / (far_m - near_m)
    matrix[3, 2] = -1.0
    return matrix


def _flat(matrix: Array) -> list[float]:
    flat: list[float] = matrix.T.ravel().tolist()  # OpenGL: column by column
    return flat
