"""Offscreen rendering in MuJoCo from any pose, with or without a display.

Without a display, or with ``MUJOCO_GL=egl``, it renders through EGL, with a GPU driver or Mesa's software renderer.
Shadows and anti-aliasing are reduced (docs/simulation.md), because MuJoCo's defaults make a software renderer ten
times slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.sim.engine import View

EYE = "rlstack eye"
"""Name of the movable body and of the camera mounted on it."""

_SKY = 3.0
"""MuJoCo's far plane relative to the camera's range: MuJoCo draws the sky as a box within the far plane, whose depth
must lie beyond the range."""


def add_renderer_camera(spec: Any) -> None:
    """Add the movable camera of a :class:`Renderer` to a ``mujoco.MjSpec``."""
    spec.worldbody.add_body(name=EYE, mocap=True).add_camera(name=EYE)


class Renderer:
    """One offscreen renderer for all cameras of a model.

    Args:
        mujoco: The module.
        model: A model with the camera of :func:`add_renderer_camera`.
        data: Its state.
        samples: Samples per pixel against jagged edges; 0: none, as a simulated camera.

    Raises:
        UserError: Rendering is not possible here; the message says what to install or set.
    """

    def __init__(self, mujoco: Any, model: Any, data: Any, samples: int = 0) -> None:
        self._mujoco, self._model, self._data, self._samples = mujoco, model, data, samples
        self.decorate: Callable[[Any], None] = lambda _: None
        """Called with the ``mujoco.MjvScene`` of each image, to add to it."""
        self._body = int(model.body(EYE).mocapid[0])
        self._camera = int(model.camera(EYE).id)
        self._context = _gl_context(int(model.vis.global_.offwidth), int(model.vis.global_.offheight))
        self._context.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=10000)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._view.type, self._view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self._camera
        self._gpu: Any = None
        self._size = (0, 0)

    def look(self, position: Array, rotation: Array, camera: Any, wanted: Sequence[str]) -> View:
        """Render; see :meth:`rlstack.sim.engine.Engine.look`."""
        mujoco, model, data = self._mujoco, self._model, self._data
        self._context.make_current()
        width, height = camera.width, camera.height
        self._fit(width, height)
        # MuJoCo's cameras look along -z with y up; the optical frame has z forward and y down
        turn = np.empty(4)
        mujoco.mju_mat2Quat(turn, np.ascontiguousarray(rotation * [1.0, -1.0, -1.0]).ravel())
        data.mocap_pos[self._body], data.mocap_quat[self._body] = position, turn
        (fx, _, cx), (_, fy, cy), _ = camera.intrinsics
        # the sensor size equals the image size, so that lengths are in pixels
        model.cam_sensorsize[self._camera] = width, height
        model.cam_resolution[self._camera] = width, height
        model.cam_intrinsic[self._camera] = fx, fy, (width - 1) / 2.0 - cx, cy - (height - 1) / 2.0
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        model.vis.map.znear = camera.near_m / model.stat.extent
        model.vis.map.zfar = _SKY * camera.far_m / model.stat.extent
        mujoco.mjv_updateScene(
            model, data, self._options, None, self._view, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        self.decorate(self._scene)
        area = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(area, self._scene, self._gpu)
        rgb = np.empty((height, width, 3), dtype=np.uint8) if "rgb" in wanted else None
        raw = np.empty((height, width), dtype=np.float32) if "depth" in wanted else None
        mujoco.mjr_readPixels(rgb, raw, area, self._gpu)
        depth = None
        if raw is not None:
            near, far = camera.near_m, _SKY * camera.far_m
            # mjr_readPixels returns 0 at near and 1 at far, even with a reversed depth buffer
            metres = near * far / (far - raw[::-1].astype(np.float64) * (far - near))
            depth = np.where(metres > camera.far_m, np.inf, metres).astype(np.float32)
        return View(None if rgb is None else np.ascontiguousarray(rgb[::-1]), depth)

    def cast_shadows(self, wanted: bool) -> None:
        """Enable or disable shadows; they are enabled initially."""
        self._scene.flags[self._mujoco.mjtRndFlag.mjRND_SHADOW] = wanted

    def close(self) -> None:
        """Release the renderer."""
        if self._context is None:
            return
        if self._gpu is not None:
            self._context.make_current()  # otherwise objects of another renderer with the same ids would be freed
            self._gpu.free()
            self._gpu = None
        self._context.free()
        self._context = None

    def __del__(self) -> None:
        with suppress(Exception):  # construction failed, or Python is shutting down
            self.close()

    def _fit(self, width: int, height: int) -> None:
        if self._gpu is not None and width <= self._size[0] and height <= self._size[1]:
            return
        self._size = max(width, self._size[0]), max(height, self._size[1])
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = self._size
        self._model.vis.quality.offsamples = self._samples
        if self._gpu is not None:
            self._gpu.free()
        self._gpu = self._mujoco.MjrContext(self._model, self._mujoco.mjtFontScale.mjFONTSCALE_50.value)
        self._mujoco.mjr_setBuffer(self._mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._gpu)


def _gl_context(width: int, height: int) -> Any:
    # Mesa's software renderer frees a fence that a thread of its own is still unlocking, which corrupts the heap
    # (lp_fence_signalled looks at it without the lock): without such threads it cannot, and small images cost as much
    os.environ.setdefault("LP_NUM_THREADS", "0")
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    if not wanted:
        wanted = "glfw" if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") else "egl"
    try:
        if wanted == "egl":
            os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
            from mujoco.egl import GLContext
        elif wanted == "osmesa":
            os.environ.setdefault("PYOPENGL_PLATFORM", "osmesa")
            from mujoco.osmesa import GLContext
        else:
            from mujoco.glfw import GLContext
        return GLContext(width, height)
    except Exception as error:  # each driver reports missing parts in its own way
        raise UserError(
            f"Cameras cannot be rendered here ({type(error).__name__}: {error}): without a display MuJoCo needs EGL"
            " (Debian: sudo apt install libegl1 libgl1-mesa-dri, and MUJOCO_GL=egl) or OSMesa (sudo apt install"
            " libosmesa6, and MUJOCO_GL=osmesa)."
        ) from error
