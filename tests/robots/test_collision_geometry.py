"""Edges of the shapes that links are made of."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.robots.collision_geometry import edges_of

CORNERS = np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0)])
FACES = list(combinations(range(4), 3))


def edges_in(path: Path, text: str | bytes, scale: str = "1 1 1") -> NDArray[np.float64]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    geometry = ET.Element("geometry")
    ET.SubElement(geometry, "mesh", {"filename": f"file://{path}", "scale": scale})
    return edges_of(geometry, "a test")


def said(edges: NDArray[np.float64]) -> set[frozenset[tuple[float, ...]]]:
    return {frozenset(tuple(map(float, end)) for end in edge) for edge in edges}


ALL = said(CORNERS[list(combinations(range(4), 2))])


def test_edges_of_a_tetrahedron_are_read_from_each_kind_of_file(tmp_path: Path) -> None:
    points = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS)
    plain = points + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)
    backwards = points + "".join(f"f {a - 4}//1 {b - 4}//1 {c - 4}//1\n" for a, b, c in FACES)
    assert said(edges_in(tmp_path / "a.obj", plain)) == said(edges_in(tmp_path / "b.obj", backwards)) == ALL
    binary = struct.pack("<80xI", 4) + b"".join(
        struct.pack("<12f2x", 0, 0, 0, *CORNERS[list(face)].ravel()) for face in FACES
    )
    assert said(edges_in(tmp_path / "a.stl", binary)) == ALL
    loops = "".join("".join(f"vertex {x} {y} {z}\n" for x, y, z in CORNERS[list(face)]) for face in FACES)
    assert said(edges_in(tmp_path / "b.stl", f"solid a\n{loops}endsolid a\n")) == ALL
    assert edges_in(tmp_path / "a.obj", plain, "0.5 0.5 0.5").max() == 1.5


def test_a_mesh_without_faces_or_with_half_of_one_is_refused(tmp_path: Path) -> None:
    for name, text in (("a.obj", "v 0 0 0\nv 1 0 0\n"), ("b.obj", "v 0 0 0\nf 1 2 3\n"), ("c.stl", "vertex 0 0 0\n")):
        with pytest.raises(UserError, match="a test: cannot read the mesh"):
            edges_in(tmp_path / name, text)


def test_a_box_has_twelve_edges_and_a_cylinder_goes_around_its_circle() -> None:
    geometry = ET.fromstring('<geometry><box size="1 2 3"/></geometry>')
    edges = edges_of(geometry, "a test")
    assert len(said(edges)) == 12
    assert sorted(np.linalg.norm(edges[:, 1] - edges[:, 0], axis=1)) == [1.0] * 4 + [2.0] * 4 + [3.0] * 4
    edges = edges_of(ET.fromstring('<geometry><cylinder radius="0.5" length="2"/></geometry>'), "a test")
    middles = np.linalg.norm(edges.mean(axis=1)[:, :2], axis=1)
    assert len(edges) == 36 and middles.min() == pytest.approx(0.5) and set(edges[..., 2].ravel()) == {-1.0, 1.0}
