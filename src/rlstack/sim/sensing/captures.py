"""Simulated cameras and lidars: from an engine's ideal images and rays to measurements, the same for every engine."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.libraries import import_library
from rlstack.robots import Camera, Lidar, frames, lens
from rlstack.sim.engine import Engine
from rlstack.sim.sensing.noise import noisy_depth, noisy_ranges


def camera_pose(position: Array, orientation: Array, camera: Camera) -> tuple[Array, Array]:
    """Return a camera's world position (3,) m and the axes of its optical frame (3, 3), as columns.

    Position (3,) m and orientation (4,) xyzw are the world pose of the link that the camera is mounted on.
    """
    body = frames.to_matrix(orientation)
    return position + body @ camera.position, body @ camera.optical_rotation


def camera_view(
    engine: Engine,
    position: Array,
    orientation: Array,
    camera: Camera,
    random: np.random.Generator | None = None,
) -> dict[str, NDArray[Any]]:
    """Return a camera's measurement as a :class:`rlstack.interfaces.backend.Capture`.

    The engine renders :attr:`~rlstack.robots.Camera.rendered`; lens, depth noise and depth limits are applied here.

    Args:
        engine: The rendering engine.
        position: (3,) world position of the link that the camera is mounted on, by default ``base_link``, m.
        orientation: (4,) xyzw, world orientation of that link.
        camera: The camera.
        random: Generator of depth noise and dropouts; None: neither.

    Raises:
        UserError: Rendering is not possible here, or the lens has distortion and OpenCV is not installed.
    """
    place, axes = camera_pose(position, orientation, camera)
    wanted = [kind for kind, has in (("rgb", camera.rgb), ("depth", camera.depth)) if has]
    view = engine.look(place, axes, camera.rendered, wanted)
    arrays: dict[str, NDArray[Any]] = {}
    if camera.rgb:
        if view.rgb is None:
            raise RuntimeError(f"The engine {engine.name} returned no colours.")
        arrays["rgb"] = view.rgb
        if not camera.is_plain:
            opencv, maps = import_library("cv2", "perception"), lens_maps(camera)
            arrays["rgb"] = opencv.remap(view.rgb, *maps, opencv.INTER_LINEAR, borderMode=opencv.BORDER_REPLICATE)
    if camera.depth:
        if view.depth is None:
            raise RuntimeError(f"The engine {engine.name} returned no depth.")
        ideal = view.depth if camera.is_plain else _depth_through_lens(view.depth, camera)
        arrays["depth"] = noisy_depth(ideal, camera, random)
    return arrays


def lidar_scan(
    engine: Engine,
    index: int,
    position: Array,
    orientation: Array,
    lidar: Lidar,
    random: np.random.Generator | None = None,
) -> dict[str, NDArray[Any]]:
    """Return a lidar's measurement as a :class:`rlstack.interfaces.backend.Capture`.

    Args:
        engine: The engine with the world.
        index: Index of the robot, which its own rays ignore.
        position: (3,) world position of ``base_link``, m.
        orientation: (4,) xyzw, world orientation of ``base_link``.
        lidar: The robot's lidar.
        random: Generator of noise and dropouts; None: neither.
    """
    body = frames.to_matrix(orientation)
    directions = lidar.directions.reshape(-1, 3) @ (body @ lidar.rotation).T
    origins = np.tile(position + body @ lidar.position, (len(directions), 1))
    distances = engine.cast(index, origins, np.ascontiguousarray(directions), lidar.range_max_m)
    shape = (lidar.rays,) if lidar.rings == 1 else (lidar.rings, lidar.rays)
    return {"ranges": noisy_ranges(distances, lidar, random).reshape(shape)}


@lru_cache(maxsize=16)
def lens_maps(camera: Camera) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the source columns and rows (height, width) in ``camera.rendered``'s image of each pixel."""
    (fx, _, cx), (_, fy, cy), _ = camera.intrinsics
    columns, rows = np.meshgrid((np.arange(camera.width) - cx) / fx, (np.arange(camera.height) - cy) / fy)
    seen = lens.undistort(np.stack((columns, rows), axis=-1), camera.distortion)
    (fx, _, cx), (_, fy, cy), _ = camera.rendered.intrinsics
    return (fx * seen[..., 0] + cx).astype(np.float32), (fy * seen[..., 1] + cy).astype(np.float32)


_BUMP = 0.02
"""Relative depth deviation from a plane up to which neighbouring pixels belong to one surface."""


def _depth_through_lens(depth: NDArray[np.float32], camera: Camera) -> NDArray[np.float32]:
    """Interpolate the inverse depth, which is exact on planes; between two surfaces, use the nearest pixel."""
    opencv, maps = import_library("cv2", "perception"), lens_maps(camera)
    inverse = 1.0 / depth  # 0 without an object
    around = np.ones((3, 3), dtype=np.uint8)
    bump = opencv.dilate(inverse, around) + opencv.erode(inverse, around) - 2.0 * inverse
    one = np.abs(bump) < _BUMP * inverse
    nearest, smooth = (
        opencv.remap(inverse, *maps, way, borderMode=opencv.BORDER_REPLICATE)
        for way in (opencv.INTER_NEAREST, opencv.INTER_LINEAR)
    )
    flat = opencv.remap(one.astype(np.uint8), *maps, opencv.INTER_NEAREST, borderMode=opencv.BORDER_REPLICATE)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.where(flat > 0, smooth, nearest), dtype=np.float32)
