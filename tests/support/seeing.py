"""A robot that sees, and an engine whose world is one floor and one wall, exactly known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import Camera, Lidar
from rlstack.sim.engine import View

WALL_M = 3.0
"""Where the wall is along x, at right angles to it; the floor is at z = 0."""


def seeing() -> Quadrotor:
    """Return a Crazyflie with a small camera of colours and depth that looks ahead, and a lidar of one ring on top."""
    camera = Camera(width=64, height=48, rate_hz=20.0, horizontal_fov_rad=1.4, depth=True, position_m=(0.03, 0.0, 0.01))
    lidar = Lidar(rays=180, rate_hz=10.0, range_min_m=0.1, range_max_m=6.0, position_m=(0.0, 0.0, 0.03))
    return replace(load_quadrotor("crazyflie"), name="seeing", cameras={"camera": camera}, lidars={"scan": lidar})


class FloorAndWall:
    """The part of an engine that sees: a ray tracer of two planes in numpy, for any pinhole camera without a lens.

    Colours are the place that is seen: red its y and green its z (of the wall), 50 to a metre around 125; blue is 200
    on the wall, 100 on the floor and 0 where there is nothing.
    """

    name = "floor and wall"

    def look(
        self, position: NDArray[np.float64], rotation: NDArray[np.float64], camera: Camera, wanted: Sequence[str]
    ) -> View:
        (fx, _, cx), (_, fy, cy), _ = camera.intrinsics
        across, down = np.meshgrid((np.arange(camera.width) - cx) / fx, (np.arange(camera.height) - cy) / fy)
        rays = np.stack((across, down, np.ones_like(down)), axis=-1) @ rotation.T
        depth, surface = self._hit(position, rays)  # a ray's part along the optical axis is 1
        with np.errstate(invalid="ignore"):
            place = position + np.where(np.isfinite(depth), depth, 0.0)[..., None] * rays
        rgb = np.stack((125 + 50 * place[..., 1], 125 + 50 * place[..., 2], 100.0 * surface), axis=-1)
        depth = np.where(depth > camera.far_m, np.inf, depth)
        return View(
            np.clip(rgb, 0, 255).round().astype(np.uint8) if "rgb" in wanted else None,
            depth.astype(np.float32) if "depth" in wanted else None,
        )

    def cast(
        self, index: int, origins: NDArray[np.float64], directions: NDArray[np.float64], far_m: float
    ) -> NDArray[np.float64]:
        distance, _ = self._hit(origins, directions)
        return np.where(distance > far_m, np.inf, distance)

    @staticmethod
    def _hit(origins: NDArray, rays: NDArray) -> tuple[NDArray, NDArray]:
        with np.errstate(divide="ignore", invalid="ignore"):
            wall, floor = (WALL_M - origins[..., 0]) / rays[..., 0], -origins[..., 2] / rays[..., 2]
        wall, floor = (np.where(t > 0.0, t, np.inf) for t in (wall, floor))
        nearest = np.minimum(wall, floor)
        return nearest, np.where(np.isinf(nearest), 0.0, np.where(wall <= floor, 2.0, 1.0))
