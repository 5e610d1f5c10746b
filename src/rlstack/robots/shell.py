"""Points that an arm's links are made of, from its model's collision shapes: what a guard needs of their extent."""

from __future__ import annotations

import math
import struct
import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.robots.kinds.manipulator import Manipulator
from rlstack.robots.model import Model, read_urdf
from rlstack.robots.sensing import rotation_from_rpy
from rlstack.robots.urdf import to_urdf

Array = NDArray[np.float64]

_AROUND = 12
"""Points on the circles of cylinders."""


def read_shell(robot: Manipulator) -> tuple[Model, dict[str, Array]]:
    """Return an arm's model and by link the points (P, 3), m in ``base_link`` with all joints at zero, that hold it.

    Each shape is in the convex hull of its points. Meshes are read from OBJ and STL files; a link with a mesh of
    another kind is as if it had none.

    Raises:
        UserError: There is no URDF of it, or it or a mesh cannot be read.
    """
    text = to_urdf(robot, frames=False)
    where = f"the URDF of {robot.name}"
    model = read_urdf(text, where).seen_from("base_link")
    found: dict[str, Array] = {}
    for link in ET.fromstring(text).findall("link"):
        name = link.get("name", "")
        rotation, position = model.poses[name]
        parts = [points for shape in link.findall("collision") if len(points := _points(shape, where))]
        if parts:
            found[name] = np.concatenate(parts) @ rotation.T + position
    return model, found


def _points(shape: ET.Element, where: str) -> Array:
    """Return the points (P, 3) of one collision shape in its link's frame."""
    own = _of_geometry(shape.find("geometry"), where)
    origin = shape.find("origin")
    if origin is None or not len(own):
        return own
    xyz, rpy = (_numbers(origin.get(key) or "0 0 0") for key in ("xyz", "rpy"))
    return np.asarray(own @ rotation_from_rpy((rpy[0], rpy[1], rpy[2])).T + np.array(xyz))


def _of_geometry(geometry: ET.Element | None, where: str) -> Array:
    none = np.empty((0, 3))
    if geometry is None or not len(geometry):
        return none
    solid = geometry[0]
    if solid.tag == "box":
        return np.array(list(product(*((-0.5 * s, 0.5 * s) for s in _numbers(solid.get("size", "0 0 0"))))))
    if solid.tag in ("sphere", "cylinder", "capsule"):
        radius = float(solid.get("radius", "0"))
        high = 0.5 * float(solid.get("length", "0")) + (0.0 if solid.tag == "cylinder" else radius)
        turn = 2.0 * math.pi * np.arange(_AROUND) / _AROUND
        ring = np.stack([np.cos(turn), np.sin(turn)], 1) * radius / math.cos(math.pi / _AROUND)  # the circle is inside
        return np.concatenate([np.column_stack([ring, np.full(_AROUND, z)]) for z in (-high, high)])
    if solid.tag != "mesh":
        return none
    path = Path(solid.get("filename", "").removeprefix("file://"))
    scale = np.array(_numbers(solid.get("scale", "1 1 1")))
    try:
        if path.suffix.lower() == ".obj":
            return _obj(path) * scale
        if path.suffix.lower() == ".stl":
            return _stl(path) * scale
    except (OSError, ValueError, struct.error) as error:
        raise UserError(f"{where}: cannot read the mesh {path}: {error}.") from error
    return none


def _obj(path: Path) -> Array:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [line.split()[1:4] for line in lines if line.startswith("v ")]
    return np.array(rows, dtype=float).reshape(-1, 3)


def _stl(path: Path) -> Array:
    data = path.read_bytes()
    if len(data) >= 84 and len(data) == 84 + 50 * struct.unpack_from("<I", data, 80)[0]:
        faces = np.frombuffer(data, dtype=np.dtype([("f", "<f4", (4, 3)), ("n", "<u2")]), offset=84)
        return np.unique(faces["f"][:, 1:].reshape(-1, 3), axis=0).astype(float)
    rows = [line.split()[1:4] for line in data.decode().splitlines() if line.split()[:1] == ["vertex"]]
    return np.array(rows, dtype=float).reshape(-1, 3)


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]
