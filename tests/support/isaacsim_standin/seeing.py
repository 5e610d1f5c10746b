"""``isaacsim.sensors.camera.Camera`` and PhysX's scene queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.isaacsim_standin.kit import Kit, checked, checked_quaternion, recorded
from tests.support.isaacsim_standin.physics import to_matrix

Array = np.ndarray
EMPTY_RENDERS = 3
"""Renderings after ``initialize()`` in which a camera has nothing yet."""
TO_OPTICAL = {"ros": np.eye(3), "usd": np.diag([1.0, -1.0, -1.0])}
"""From the optical frame (x right, y down, z forward) to a camera's axes, as its matrices (not its text) have them."""


class Camera:
    """A camera prim; its picture is of the rendering before the last."""

    kit: Kit

    @recorded
    def __init__(
        self,
        prim_path: str,
        name: str = "camera",
        frequency: int | None = None,
        dt: float | None = None,
        resolution: tuple[int, int] | None = None,
        position: Array | None = None,
        orientation: Array | None = None,
    ) -> None:
        from pxr import UsdGeom

        self.kit.require_running()
        self.kit.require(all(part.isidentifier() for part in prim_path[1:].split("/")), f"{prim_path} is no path")
        self.prim = UsdGeom.Camera.Define(self.kit.stage, prim_path).GetPrim()
        for attribute, number in (("focalLength", 50.0), ("horizontalAperture", 20.955), ("verticalAperture", 15.2908)):
            self.prim.GetAttribute(attribute).Set(number)
        self._size = resolution or (128, 128)
        self._range = (1.0, 1e6)
        self._pose: tuple[Array, Array] | None = None
        self._seen = 0
        self._initialised = self._deep = False
        self._pictures: list[tuple[Array, Array]] = []
        self.kit.cameras.append(self)

    @recorded
    def initialize(self, physics_sim_view: Any = None, attach_rgb_annotator: bool = True) -> None:
        self.kit.require_playing("Camera.initialize")
        self._initialised = True

    @recorded
    def destroy(self) -> None:
        self.kit.require_running()
        self.kit.cameras.remove(self)

    @recorded
    def set_clipping_range(self, near_distance: float | None = None, far_distance: float | None = None) -> None:
        self._range = (near_distance or self._range[0], far_distance or self._range[1])

    def get_focal_length(self) -> float:
        return self.prim.GetAttribute("focalLength").Get() / 10.0

    @recorded
    def set_horizontal_aperture(self, value: float, maintain_square_pixels: bool = True) -> None:
        self.kit.require(maintain_square_pixels, "the stand-in's pixels are square")
        self.prim.GetAttribute("horizontalAperture").Set(10.0 * value)

    @recorded
    def add_distance_to_image_plane_to_frame(self, init_params: dict[str, Any] | None = None) -> None:
        self.kit.require(self._initialised, "annotators need Camera.initialize() before them")
        self._deep = True

    @recorded
    def set_world_pose(
        self, position: Array | None = None, orientation: Array | None = None, camera_axes: str = "world"
    ) -> None:
        self.kit.require(
            camera_axes in TO_OPTICAL, f"say which axes: {camera_axes!r} is the robot's, not the picture's"
        )
        at = checked(self.kit, "position", position, (3,), single=False)
        turn = to_matrix(checked_quaternion(self.kit, "orientation", orientation, (4,), single=False)[None])[0]
        self._pose = at, turn @ TO_OPTICAL[camera_axes]

    def expose(self) -> None:
        """Take a picture of the world as it is."""
        if not self._initialised or self._pose is None:
            return
        self._seen += 1
        (width, height), (at, axes) = self._size, self._pose
        aperture = self.prim.GetAttribute("horizontalAperture").Get() / self.prim.GetAttribute("focalLength").Get()
        u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        plane = np.stack([(u - 0.5 * width) / width, (v - 0.5 * height) / width, np.full(u.shape, 1.0 / aperture)], -1)
        local = (plane / plane[..., 2:]).reshape(-1, 3)
        lengths = np.linalg.norm(local, axis=1)
        directions = (local / lengths[:, None]) @ axes.T
        depth, colour = np.full(len(local), np.inf), np.zeros((len(local), 4), np.uint8)
        far = self._range[1] * float(lengths.max())
        for shape, reach in self.kit.physics.trace(np.tile(at, (len(local), 1)), directions, far, seen=True):
            along = reach / lengths
            nearer = (along < depth) & (along >= self._range[0]) & (along <= self._range[1])
            depth[nearer], colour[nearer, :3] = along[nearer], np.round(255 * np.array(shape.colour))
        picture = colour.reshape(height, width, 4), depth.reshape(height, width).astype(np.float32)
        self._pictures = [*self._pictures[-1:], picture]

    def _picture(self, which: int, empty: tuple[int, ...]) -> Array:
        self.kit.require(self._initialised, "pictures need Camera.initialize() before them")
        self.kit.require(self._seen > 0, "pictures come with rendered steps only, and none was rendered")
        return np.zeros(empty) if self._seen <= EMPTY_RENDERS else self._pictures[0][which]

    @recorded
    def get_rgb(self, device: str | None = None) -> Array | None:
        data = self._picture(0, (0, 0, 4))
        return None if data.shape[0] == 0 else data[:, :, :3]

    @recorded
    def get_depth(self, device: str | None = None) -> Array:
        self.kit.require(self._deep, "depth needs add_distance_to_image_plane_to_frame() before it")
        return self._picture(1, (0,))


@dataclass(frozen=True)
class RaycastHit:
    """What a report function is given."""

    collision: str
    rigid_body: str
    distance: float


class SceneQuery:
    """``omni.physx.get_physx_scene_query_interface()``."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    def raycast_all(
        self,
        origin: tuple[float, float, float],
        dir: tuple[float, float, float],  # its name there
        distance: float,
        reportFn: Callable[[RaycastHit], bool],
        bothSides: bool = False,
    ) -> bool:
        self.kit.require_playing("raycast_all")
        for name, vector in (("origin", origin), ("dir", dir)):
            self.kit.require(isinstance(vector, tuple) and len(vector) == 3, f"{name} must be three numbers")
        self.kit.require(abs(np.linalg.norm(dir) - 1.0) < 1e-5, "dir must have length 1")
        traced = self.kit.physics.trace(np.array([origin], dtype=float), np.array([dir], dtype=float), distance)
        hits = [RaycastHit(s.path, s.body_path or s.path, float(d[0])) for s, d in traced if np.isfinite(d[0])]
        for hit in sorted(hits, key=lambda h: -h.distance):  # in no order that anybody may rely on
            if not reportFn(hit):
                break
        return bool(hits)
