"""Edges of links' collision shapes, from a robot's URDF; the guard bounds the robot's extent with them."""

from __future__ import annotations

import math
import struct
import xml.etree.ElementTree as ET
from itertools import combinations, product
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.model import Model, read_origin, read_urdf
from rlstack.robots.spec import RobotSpec
from rlstack.robots.urdf import to_urdf

_AROUND = 12
"""Number of points on the circles of cylinders."""


def read_collision_edges(robot: RobotSpec) -> tuple[Model, dict[str, Array]]:
    """Return a robot's model and its edges (E, 2, 3) by link, m in ``base_link`` with all joints at zero.

    They are the edges of boxes, of prisms around cylinders, spheres and capsules, and of mesh faces: between two planes
    a solid lies in the convex hull of its corners there and of its edges' intersections with the planes. Meshes are
    read from OBJ and STL files; other meshes are ignored.

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
        edges = [np.empty((0, 2, 3))]
        for shape in link.findall("collision"):
            at, turn = read_origin(shape, where)
            edges.append(edges_of(shape.find("geometry"), where) @ turn.T + at)
        if any(map(len, edges)):
            found[name] = np.concatenate(edges) @ rotation.T + position
    return model, found


def edges_of(geometry: ET.Element | None, where: str) -> Array:
    """Return the edges (E, 2, 3), m, of a URDF's geometry element in its own frame.

    Raises:
        UserError: It is an unreadable mesh; ``where`` names its owner.
    """
    none = np.empty((0, 2, 3))
    if geometry is None or not len(geometry):
        return none
    solid = geometry[0]
    if solid.tag == "box":
        corners = (
            0.5
            * np.array(list(product((-1.0, 1.0), repeat=3)))
            * np.array(solid.get("size", "0 0 0").split(), dtype=float)
        )
        return corners[[(a, a | bit) for bit in (1, 2, 4) for a in range(8) if not a & bit]]
    if solid.tag in ("sphere", "cylinder", "capsule"):
        radius = float(solid.get("radius", "0"))
        high = 0.5 * float(solid.get("length", "0")) + (0.0 if solid.tag == "cylinder" else radius)
        turn = 2.0 * math.pi * np.arange(_AROUND) / _AROUND
        ring = np.stack([np.cos(turn), np.sin(turn)], 1) * radius / math.cos(math.pi / _AROUND)  # the circle is inside
        low, top = (np.column_stack([ring, np.full(_AROUND, z)]) for z in (-high, high))
        round_about = [np.stack([end, np.roll(end, 1, axis=0)], 1) for end in (low, top)]
        return np.concatenate([*round_about, np.stack([low, top], 1)])
    if solid.tag != "mesh":
        return none
    path = Path(solid.get("filename", "").removeprefix("file://"))
    scale = np.array(solid.get("scale", "1 1 1").split(), dtype=float)
    try:
        if path.suffix.lower() == ".obj":
            return _obj(path) * scale
        if path.suffix.lower() == ".stl":
            return _stl(path) * scale
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise UserError(f"{where}: cannot read the mesh {path}: {error}.") from error
    return none


def _obj(path: Path) -> Array:
    rows = [line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    points = np.array([row[1:4] for row in rows if row[:1] == ["v"]], dtype=float).reshape(-1, 3)
    faces = [[int(word.split("/")[0]) for word in row[1:]] for row in rows if row[:1] == ["f"]]
    if not faces:
        raise ValueError("it has no faces")
    # numbered from 1, or backwards from -1; with the diagonals, so that the triangulation of a face does not matter
    between = {(a - (a > 0), b - (b > 0)) for face in faces for a, b in combinations(sorted(face), 2)}
    return points[sorted(between)]


def _stl(path: Path) -> Array:
    data = path.read_bytes()
    if len(data) >= 84 and len(data) == 84 + 50 * struct.unpack_from("<I", data, 80)[0]:
        faces = np.frombuffer(data, dtype=np.dtype([("f", "<f4", (4, 3)), ("n", "<u2")]), offset=84)["f"][:, 1:]
    else:
        rows = [line.split()[1:4] for line in data.decode().splitlines() if line.split()[:1] == ["vertex"]]
        faces = np.array(rows, dtype=float).reshape(-1, 3, 3)
    edges = faces[:, [(0, 1), (1, 2), (2, 0)]].reshape(-1, 2, 3)
    return np.unique(edges, axis=0).astype(float)
