"""Point clouds: depth to points, downsampling and outlier removal with Open3D.

Points are in a camera's optical frame: x right, y down, z forward, m. The projection is numpy's: Open3D's own, which
the tests compare it with, supports neither distortion nor REP-117's infinities. Functions that need Open3D raise
``UserError`` if it is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.image_messages import Calibration
from rlstack.libraries import import_library
from rlstack.robots import lens


@dataclass(frozen=True)
class Cloud:
    """Points of one frame.

    Args:
        points: (points, 3) m.
        colours: (points, 3) red, green, blue uint8, or None.
        normals: (points, 3) unit vectors, or None.
    """

    points: Array
    colours: NDArray[np.uint8] | None = None
    normals: Array | None = None

    def __len__(self) -> int:
        return len(self.points)

    def where(self, chosen: NDArray[Any]) -> Cloud:
        """Return the points selected by a mask (points,) or by indices."""
        picked = (None if a is None else a[chosen] for a in (self.colours, self.normals))
        return Cloud(self.points[chosen], *picked)  # type: ignore[arg-type]


class DepthToCloud:
    """Converts one camera's depth images into points; the pixel rays are computed once.

    Args:
        known: The camera's calibration, with distortion.
        near_m: Least depth that is used.
        far_m: Greatest depth that is used.
        stride: Step between used pixels in each direction.
    """

    def __init__(self, known: Calibration, *, near_m: float = 0.0, far_m: float = np.inf, stride: int = 1) -> None:
        self.known = known
        self._near_m, self._far_m, self._stride = near_m, far_m, stride
        (fx, _, cx), (_, fy, cy), _ = known.matrix
        across = (np.arange(0, known.width, stride) - cx) / fx
        down = (np.arange(0, known.height, stride) - cy) / fy
        rays = np.stack(np.meshgrid(across, down), axis=-1)
        self._rays = lens.undistort(rays, known.distortion.tolist())

    def cloud(self, depth: NDArray[Any], rgb: NDArray[np.uint8] | None = None) -> Cloud:
        """Return the points of a depth image, row by row, without pixels that have no measurement.

        Args:
            depth: (height, width) m along the optical axis.
            rgb: (height, width, 3) image of the same camera, for colours.

        Raises:
            ValueError: An image does not have the camera's size.
        """
        z = self._strided(depth)
        if rgb is not None and rgb.shape != (*depth.shape, 3):
            raise ValueError(f"an image of {rgb.shape} is not of the depth image's size {depth.shape}")
        with np.errstate(invalid="ignore"):
            seen = np.isfinite(z) & (z > 0.0) & (z >= self._near_m) & (z <= self._far_m)
        z = z[seen]
        points = np.concatenate((self._rays[seen] * z[:, None], z[:, None]), axis=1)
        return Cloud(points, None if rgb is None else rgb[:: self._stride, :: self._stride][seen])

    def lines_of_sight(self, depth: NDArray[Any], far_m: float) -> tuple[Array, Array]:
        """Return the end points of the lines of sight, (pixels, 3), and those at objects too near to measure, (n, 3).

        A line of sight that hits nothing (+inf), or something beyond ``far_m``, ends at that depth; one that hits
        something too near (-inf, or nearer than ``near_m``) ends at ``near_m``. Pixels without a measurement (NaN, 0)
        are left out.

        Args:
            depth: (height, width) m along the optical axis.
            far_m: Depth up to which the camera can report free space.

        Raises:
            ValueError: The image does not have the camera's size.
        """
        z = self._strided(depth)
        seen = (z > 0.0) | np.isneginf(z)
        rays, z = self._rays[seen], z[seen]
        reach = np.clip(z, self._near_m, far_m)
        ends = np.concatenate((rays * reach[:, None], reach[:, None]), axis=1)
        return ends, ends[z < self._near_m]

    def _strided(self, depth: NDArray[Any]) -> Array:
        size = (self.known.height, self.known.width)
        if depth.shape != size:
            raise ValueError(f"a depth image of {depth.shape} is not of the camera's size {size}")
        return depth[:: self._stride, :: self._stride].astype(float)


def within(cloud: Cloud, near_m: float, far_m: float) -> Cloud:
    """Return the finite points between ``near_m`` and ``far_m`` from the origin."""
    distance = np.linalg.norm(cloud.points, axis=1)
    return cloud.where((distance >= near_m) & (distance <= far_m))


def voxels(cloud: Cloud, size_m: float) -> Cloud:
    """Downsample to the mean point, colour and normal of each occupied voxel of edge ``size_m``."""
    if len(cloud) == 0:
        return cloud
    return _from_open3d(_to_open3d(cloud).voxel_down_sample(size_m), cloud)


def without_statistical_outliers(cloud: Cloud, neighbours: int = 20, deviations: float = 2.0) -> Cloud:
    """Remove points whose mean distance to their neighbours is unusually large.

    Args:
        cloud: Input points.
        neighbours: Number of nearest points to consider.
        deviations: Allowed standard deviations above the mean over all points.
    """
    return _filtered(cloud, "remove_statistical_outlier", neighbours, deviations)


def without_radius_outliers(cloud: Cloud, neighbours: int, radius_m: float) -> Cloud:
    """Keep the points that have more than ``neighbours`` others within ``radius_m``."""
    return _filtered(cloud, "remove_radius_outlier", neighbours, radius_m)


def _filtered(cloud: Cloud, method: str, *settings: float) -> Cloud:
    """Return the points that a filter of Open3D keeps."""
    if len(cloud) == 0:
        return cloud
    _, kept = getattr(_to_open3d(cloud), method)(*settings)
    return cloud.where(np.asarray(kept, dtype=np.intp))


def with_normals(cloud: Cloud, radius_m: float, neighbours: int = 30) -> Cloud:
    """Return the cloud with surface normals, oriented towards the camera at the origin.

    Args:
        cloud: Input points.
        radius_m: Radius around a point in which the surface counts as flat.
        neighbours: Most points to use within the radius.
    """
    if len(cloud) == 0:
        return replace(cloud, normals=np.empty((0, 3)))
    held = _to_open3d(cloud)
    held.estimate_normals(
        import_library("open3d", "perception").geometry.KDTreeSearchParamHybrid(radius=radius_m, max_nn=neighbours)
    )
    held.orient_normals_towards_camera_location(np.zeros(3))
    return replace(cloud, normals=np.asarray(held.normals).copy())


def _to_open3d(cloud: Cloud) -> Any:
    open3d = import_library("open3d", "perception")
    vectors = open3d.utility.Vector3dVector
    held = open3d.geometry.PointCloud(vectors(np.ascontiguousarray(cloud.points, dtype=np.float64)))
    if cloud.colours is not None:
        held.colors = vectors(cloud.colours / 255.0)
    if cloud.normals is not None:
        held.normals = vectors(np.ascontiguousarray(cloud.normals, dtype=np.float64))
    return held


def _from_open3d(held: Any, like: Cloud) -> Cloud:
    colours = None if like.colours is None else np.rint(np.asarray(held.colors) * 255.0).astype(np.uint8)
    normals = None if like.normals is None else np.asarray(held.normals).copy()
    return Cloud(np.asarray(held.points).copy(), colours, normals)
