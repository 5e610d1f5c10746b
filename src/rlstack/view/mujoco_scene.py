"""A MuJoCo model in a viser scene: a frame for each body, with what of its geoms is to be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.libraries import import_library
from rlstack.robots.mjcf import import_mujoco

_SEEN_GROUPS = 3
"""MuJoCo's viewer shows the geoms of the first three groups; the others only collide, by custom, and are shown of
bodies that have nothing else."""
_STILL = 1e-6


class MujocoScene:
    """All bodies of a model.

    Args:
        scene: viser's ``SceneApi``.
        model: A ``mujoco.MjModel``.
        name: Name of its node.
    """

    def __init__(self, scene: Any, model: Any, name: str = "/mujoco") -> None:
        self._mujoco = import_mujoco()
        self._model, self._data = model, self._mujoco.MjData(model)
        self._frames: dict[int, Any] = {}
        self._shown: dict[int, NDArray[Any]] = {}
        scene.add_frame(name, show_axes=False)
        shaped = {int(body) for body, group in zip(model.geom_bodyid, model.geom_group) if group < _SEEN_GROUPS}
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            if (model.geom_group[geom] >= _SEEN_GROUPS and body in shaped) or _colour(model, geom)[3] == 0.0:
                continue
            if body not in self._frames:
                self._frames[body] = scene.add_frame(f"{name}/{body}", show_axes=False)
            self._add(scene, f"{name}/{body}/{geom}", geom)
        self._mujoco.mj_forward(self._model, self._data)
        self._draw()

    def show(self, state: NDArray[Any]) -> None:
        """Show a state (width,) of ``mjSTATE_FULLPHYSICS``."""
        self._mujoco.mj_setState(self._model, self._data, state, self._mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self._mujoco.mj_kinematics(self._model, self._data)
        self._draw()

    def _draw(self) -> None:
        for body, frame in self._frames.items():
            pose = np.concatenate([self._data.xpos[body], self._data.xquat[body]])
            before = self._shown.get(body)
            if before is None or np.abs(pose - before).max() > _STILL:
                frame.position, frame.wxyz = pose[:3], pose[3:]
                self._shown[body] = pose

    def _add(self, scene: Any, name: str, geom: int) -> None:
        model, kinds = self._model, self._mujoco.mjtGeom
        kind, (x, y, z) = model.geom_type[geom], model.geom_size[geom].tolist()
        *rgb, opacity = _colour(model, geom)
        at: dict[str, Any] = {"position": model.geom_pos[geom], "wxyz": model.geom_quat[geom]}
        paint: dict[str, Any] = {"color": tuple(round(255 * part) for part in rgb)}
        if opacity < 1.0:
            paint["opacity"] = opacity
        if kind == kinds.mjGEOM_BOX:
            scene.add_box(name, dimensions=(2 * x, 2 * y, 2 * z), **paint, **at)
        elif kind == kinds.mjGEOM_SPHERE:
            scene.add_icosphere(name, radius=x, **paint, **at)
        elif kind == kinds.mjGEOM_CYLINDER:
            scene.add_cylinder(name, radius=x, height=2 * y, **paint, **at)
        elif kind == kinds.mjGEOM_ELLIPSOID:
            scene.add_icosphere(name, radius=1.0, scale=(x, y, z), **paint, **at)
        elif kind == kinds.mjGEOM_CAPSULE:
            made = import_library("trimesh", "view").creation.capsule(height=2 * y, radius=x)
            middle = made.bounds.mean(axis=0)
            scene.add_mesh_simple(name, made.vertices - middle, made.faces, **paint, **at)
        elif kind == kinds.mjGEOM_MESH:
            scene.add_mesh_simple(name, *_mesh(model, int(model.geom_dataid[geom])), **paint, **at)
        elif kind == kinds.mjGEOM_PLANE:
            scene.add_grid(name, 2 * x or 20.0, 2 * y or 20.0, cell_size=0.1 if 0 < x < 2 else 0.5, **at)


def _colour(model: Any, geom: int) -> list[float]:
    """Return a geom's red, green, blue and opacity, 0 to 1: its material's, or its own."""
    material = int(model.geom_matid[geom])
    colour = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    return [float(part) for part in colour]


def _mesh(model: Any, mesh: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a mesh's vertices (n, 3), m, and faces (m, 3)."""
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    face, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
    return model.mesh_vert[first : first + count], model.mesh_face[face : face + faces]
