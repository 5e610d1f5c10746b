"""Visual shapes of a robot's URDF and their poses, for viewers without a robot model."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.robots.frame_tree import FrameTree, read_frames
from rlstack.robots.model import read_origin

Colour = tuple[float, float, float, float]

_GREY: Colour = (0.6, 0.6, 0.6, 1.0)


@dataclass(frozen=True)
class Visual:
    """One shape on one link.

    Args:
        link: Its link.
        shape: Its type.
        size: Full extents along its own x, y, z, m; for a mesh, its scale.
        position: (3,) in the link, m.
        orientation: (4,) xyzw, in the link.
        colour: Red, green, blue, opacity, 0 to 1.
        mesh: The mesh's location in the URDF.
    """

    link: str
    shape: Literal["box", "cylinder", "sphere", "mesh"]
    size: tuple[float, float, float]
    position: Array
    orientation: Array
    colour: Colour = _GREY
    mesh: str = ""


class Appearance:
    """All shapes of a robot.

    Args:
        urdf: URDF of the robot.

    Raises:
        UserError: It is not a URDF, or not a tree.
    """

    def __init__(self, urdf: str) -> None:
        self._tree: FrameTree = read_frames(urdf)
        self.visuals = read_visuals(urdf)

    def poses(self, joints: Mapping[str, float] | None = None) -> tuple[Array, Array]:
        """Return positions (shapes, 3), m, and orientations (shapes, 4), xyzw, in the root frame.

        Args:
            joints: Positions by name, rad or m; missing ones are 0.
        """
        links = self._tree.poses(joints or {})
        if not self.visuals:
            return np.zeros((0, 3)), np.zeros((0, 4))
        at = np.array([links[visual.link][0] for visual in self.visuals])
        turned = np.array([links[visual.link][1] for visual in self.visuals])
        own = np.array([visual.position for visual in self.visuals])
        own_turn = np.array([visual.orientation for visual in self.visuals])
        return at + frames.rotate(turned, own), frames.multiply(turned, own_turn)


def read_visuals(urdf: str, tag: Literal["visual", "collision"] = "visual") -> tuple[Visual, ...]:
    """Return every shape of a URDF, or those of its collisions; unknown shapes are skipped."""
    root = ElementTree.fromstring(urdf)
    colours = {m.get("name", ""): _rgba(m) for m in root.findall("material")}
    found = []
    for link in root.findall("link"):
        for element in link.findall(tag):
            geometry = element.find("geometry")
            shape = next(iter(geometry), None) if geometry is not None else None
            if shape is None or (measured := _measure(shape)) is None:
                continue
            position, rotation = read_origin(element, "The robot description")
            turned = frames.from_matrix(rotation)
            material = element.find("material")
            colour = None if material is None else (_rgba(material) or colours.get(material.get("name", "")))
            kind, size = measured
            where = shape.get("filename", "")
            found.append(Visual(link.get("name", ""), kind, size, position, turned, colour or _GREY, where))
    return tuple(found)


def _measure(
    shape: ElementTree.Element,
) -> tuple[Literal["box", "cylinder", "sphere", "mesh"], tuple[float, float, float]] | None:
    if shape.tag in ("box", "mesh"):
        x, y, z = map(float, shape.get("size" if shape.tag == "box" else "scale", "1 1 1").split())
        return "box" if shape.tag == "box" else "mesh", (x, y, z)
    across = 2.0 * float(shape.get("radius", 0.0))
    if shape.tag == "cylinder":
        return "cylinder", (across, across, float(shape.get("length", 0.0)))
    if shape.tag == "sphere":
        return "sphere", (across, across, across)
    return None


def _rgba(material: ElementTree.Element) -> Colour | None:
    colour = material.find("color")
    words = (colour.get("rgba", "") if colour is not None else "").split()
    if len(words) != 4:
        return None
    red, green, blue, opacity = map(float, words)
    return red, green, blue, opacity
