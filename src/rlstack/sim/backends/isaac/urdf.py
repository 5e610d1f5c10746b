"""Adaptation of a robot's URDF to Isaac Sim's importer; works without Isaac Sim.

Problems of the importer of 5.1.0 and PhysX with a plain URDF (from their sources), and the workarounds:

- Shapes go to ``/colliders/<link>`` and ``/visuals/<link>``, outside of the robot, so that robots with equal link
names would share shapes. So links and joints are prefixed with the robot's number.
- USD treats a mass of 0 as unknown, and PhysX makes one up: 1 kg for a link without shapes. So massless frames are
merged into the link that they are fixed to.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.robots.model import read_origin
from rlstack.robots.urdf import numbers, to_urdf


@dataclass(frozen=True)
class ImportedUrdf:
    """A URDF prepared for the importer."""

    text: str
    name: str
    """Name of the robot and its prim."""
    prefix: str
    """Prefix of all link and joint names."""
    root: str
    """The prefixed link with the frame ``base_link``."""


def importable_urdf(robot: RobotSpec, index: int) -> ImportedUrdf:
    """Return the URDF of robot ``index`` of a world; raise ``UserError`` if a moving link has no mass."""
    name = f"r{index:04d}"
    prefix = f"{name}_"
    tree = ET.fromstring(to_urdf(robot, prefix=prefix, rotors="none", meshes="path", frames=False))
    tree.set("name", name)
    while (link := _weightless(tree)) is not None:
        _fold(tree, link, robot)
    return ImportedUrdf(ET.tostring(tree, encoding="unicode"), name, prefix, _root(tree))


def _weightless(tree: ET.Element) -> ET.Element | None:
    for link in tree.findall("link"):
        mass = link.find("inertial/mass")
        if mass is None or float(mass.get("value", "0")) <= 0.0:
            return link
    return None


def _fold(tree: ET.Element, link: ET.Element, robot: RobotSpec) -> None:
    """Merge a link's shapes and joints into the link that it is fixed to."""
    name = link.get("name", "")
    up = [joint for joint in tree.findall("joint") if _end(joint, "child") == name]
    down = [joint for joint in tree.findall("joint") if _end(joint, "parent") == name]
    no_motion = np.zeros(3), np.eye(3)
    if up:
        keeper, outer = _end(up[0], "parent"), read_origin(up[0], name)
    elif len(down) == 1 and all((a == b).all() for a, b in zip(read_origin(down[0], name), no_motion)):
        up, down = down, []  # the root, with one link fixed to it
        keeper, outer = _end(up[0], "child"), no_motion
    else:
        up, keeper, outer = [], "", no_motion
    if not up or up[0].get("type") != "fixed":
        raise UserError(
            f"{robot.name}: the link '{name}' of its model weighs nothing and is not fixed to one that does. Isaac Sim"
            " would take it for 1 kg: give it a mass in the model."
        )
    kept = next(other for other in tree.findall("link") if other.get("name") == keeper)
    for shape in [*link.findall("visual"), *link.findall("collision")]:
        _move(shape, outer)
        kept.append(shape)
    for joint in down:
        _move(joint, outer)
        parent = joint.find("parent")
        assert parent is not None
        parent.set("link", keeper)
    tree.remove(link)
    tree.remove(up[0])


def _root(tree: ET.Element) -> str:
    children = {_end(joint, "child") for joint in tree.findall("joint")}
    return next(name for link in tree.findall("link") if (name := link.get("name", "")) not in children)


def _end(joint: ET.Element, tag: str) -> str:
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def _move(element: ET.Element, outer: tuple[Array, Array]) -> None:
    """Transform an element's origin from a frame at ``outer`` to the frame that ``outer`` is in."""
    position, rotation = read_origin(element, element.tag)
    origin = element.find("origin")
    if origin is None:
        origin = ET.Element("origin")
        element.insert(0, origin)
    origin.set("xyz", numbers(outer[0] + outer[1] @ position))
    origin.set("rpy", numbers(_rpy(outer[1] @ rotation)))


def _rpy(rotation: Array) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a rotation (3, 3): about fixed x, then y, then z, as in URDF."""
    level = math.hypot(rotation[0, 0], rotation[1, 0])
    pitch = math.atan2(-rotation[2, 0], level)
    if level < 1e-9:  # gimbal lock: the whole rotation goes to roll
        return math.atan2(-rotation[1, 2], rotation[1, 1]), pitch, 0.0
    return math.atan2(rotation[2, 1], rotation[2, 2]), pitch, math.atan2(rotation[1, 0], rotation[0, 0])
