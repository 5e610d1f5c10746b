"""Shapes of robots and worlds as nodes of a viser scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.visuals import Visual, read_visuals

_PAINT = (0.88, 0.89, 0.91, 1.0)
"""Colour of collision shapes that stand for meshes."""


def wxyz(orientation: Sequence[float] | Array) -> Array:
    """Return a quaternion x, y, z, w in viser's order: w, x, y, z."""
    x, y, z, w = orientation
    return np.array([w, x, y, z])


def add_shape(scene: Any, name: str, visual: Visual) -> Any:
    """Add a shape to a viser scene and return its handle.

    Args:
        scene: viser's ``SceneApi``.
        name: Name of the node, with those of its parents, such as ``/robot/base_link/0``.
        visual: The shape, in its parent's frame.

    Raises:
        UserError: It is a mesh whose file is missing or cannot be read.
    """
    at: dict[str, Any] = {"position": visual.position, "wxyz": wxyz(visual.orientation)}
    painted: dict[str, Any] = {"color": _rgb(visual.colour), **_opacity(visual.colour)}
    x, y, z = visual.size
    if visual.shape == "box":
        return scene.add_box(name, dimensions=(x, y, z), **painted, **at)
    if visual.shape == "cylinder":
        return scene.add_cylinder(name, radius=0.5 * x, height=z, **painted, **at)
    if visual.shape == "sphere":
        return scene.add_icosphere(name, radius=0.5 * x, **painted, **at)
    return _add_mesh(scene, name, visual, at)


def _add_mesh(scene: Any, name: str, visual: Visual, at: dict[str, Any]) -> Any:
    import trimesh

    path = mesh_path(visual.mesh)
    try:
        mesh: Any = trimesh.load_scene(path, process=False)  # processing takes as long again, and changes no picture
        for part in mesh.geometry.values():
            if isinstance(part.visual, trimesh.visual.ColorVisuals) and not part.visual.defined:
                part.visual.face_colors = [*_rgb(visual.colour), round(255 * visual.colour[3])]
        data = mesh.export(file_type="glb")
    except Exception as error:  # readers of a dozen formats raise whatever they like
        raise UserError(f"The mesh {visual.mesh} cannot be read: {str(error) or type(error).__name__}.") from error
    return scene.add_glb(name, data, scale=visual.size, **at)


def light_shapes(urdf: str, most_bytes: int = 1_500_000) -> tuple[Visual, ...]:
    """Return a robot's shapes for files that must stay small: those of its collisions if its meshes are large.

    Meshes that are missing are left out.

    Args:
        urdf: The robot.
        most_bytes: Largest size of its meshes' files together.
    """
    seen = [_small(visual) for visual in read_visuals(urdf)]
    if sum(size for _, size in seen) <= most_bytes:
        return tuple(visual for visual, size in seen if size >= 0)
    solid = [_small(visual) for visual in read_visuals(urdf, "collision")]
    return tuple(replace(visual, colour=_PAINT) for visual, size in solid if size >= 0)


def _small(visual: Visual) -> tuple[Visual, int]:
    """Return a shape and the size of its mesh's file, bytes; -1: it is missing."""
    if visual.shape != "mesh":
        return visual, 0
    try:
        return visual, mesh_path(visual.mesh).stat().st_size
    except UserError:
        return visual, -1


def mesh_path(location: str) -> Path:
    """Return the file of a mesh's location in a URDF: a path, ``file://`` or ``package://`` in an ament prefix.

    Raises:
        UserError: There is no such file.
    """
    parts = urlparse(location)
    path = Path(unquote(parts.path) if parts.scheme == "file" else location)
    if parts.scheme == "package":
        path = _share_of(parts.netloc, location) / unquote(parts.path).lstrip("/")
    try:
        there = path.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise UserError(f"The mesh {location} is not there.")
    return path


def _share_of(package: str, location: str) -> Path:
    try:
        from ament_index_python.packages import get_package_share_directory

        return Path(get_package_share_directory(package))
    except (ImportError, LookupError, ValueError) as error:  # ValueError: no package can be called so
        raise UserError(f"The mesh {location} is not there: there is no package {package}.") from error


def _rgb(colour: Sequence[float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * min(max(part, 0.0), 1.0)) for part in colour[:3])
    return red, green, blue


def _opacity(colour: Sequence[float]) -> dict[str, float]:
    return {"opacity": colour[3]} if colour[3] < 1.0 else {}
