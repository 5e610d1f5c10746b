"""What the URDFs of all kinds of robots have in common."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.robots.inertia import Inertial
from rlstack.robots.sensing import sensor_frame
from rlstack.robots.spec import RobotSpec

BODY = "base_link"
"""Name, after the prefix, of the robot's root link."""

MATERIALS = {
    "dark": (0.12, 0.12, 0.14, 1.0),
    "light": (0.75, 0.75, 0.78, 1.0),
    "front": (1.0, 0.42, 0.05, 1.0),
    "rear": (0.15, 0.45, 0.85, 1.0),
    "front_disc": (1.0, 0.42, 0.05, 0.45),
    "rear_disc": (0.15, 0.45, 0.85, 0.45),
}

_NOTHING = Inertial(0.0, np.zeros(3), np.zeros((3, 3)))


def number(x: float) -> str:
    """Return a number as text that reads back as the very same."""
    return repr(float(x) + 0.0)  # no -0.0


def numbers(values: Iterable[float]) -> str:
    """Return numbers as text, separated by spaces."""
    return " ".join(map(number, values))


def robot_element(robot: RobotSpec) -> ET.Element:
    """Return an empty URDF with the materials that it may use."""
    root = ET.Element("robot", name=robot.name)
    for name, rgba in MATERIALS.items():
        ET.SubElement(ET.SubElement(root, "material", name=name), "color", rgba=numbers(rgba))
    return root


def add_link(root: ET.Element, name: str, piece: Inertial | None = None) -> ET.Element:
    """Add a link; without a piece it is a frame that weighs nothing.

    That is said in so many words, because PyBullet takes a link without an inertial for 1 kg.
    """
    mass, centre, inertia = piece or _NOTHING
    link = ET.SubElement(root, "link", name=name)
    element = ET.SubElement(link, "inertial")
    ET.SubElement(element, "origin", xyz=numbers(centre), rpy="0 0 0")
    ET.SubElement(element, "mass", value=number(mass))
    pairs = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))
    ET.SubElement(element, "inertia", {key: number(inertia[i, j]) for key, i, j in pairs})
    return link


def add_joint(
    root: ET.Element,
    name: str,
    kind: str,
    parent: str,
    child: str,
    *,
    xyz: Sequence[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
    axis: Sequence[float] | None = None,
    limit: dict[str, float] | None = None,
) -> ET.Element:
    """Add a joint; ``limit`` holds what of lower, upper, velocity and effort there is."""
    joint = ET.SubElement(root, "joint", name=name, type=kind)
    ET.SubElement(joint, "parent", link=parent)
    ET.SubElement(joint, "child", link=child)
    ET.SubElement(joint, "origin", xyz=numbers(xyz), rpy=numbers(rpy))
    if axis is not None:
        ET.SubElement(joint, "axis", xyz=numbers(axis))
    if limit is not None:
        ET.SubElement(joint, "limit", {key: number(x) for key, x in limit.items()})
    return joint


def add_shape(
    link: ET.Element,
    use: str,
    shape: str,
    *,
    xyz: Iterable[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
    material: str = "",
    **size: Any,
) -> None:
    """Add a ``visual`` or a ``collision``: a box with ``size``, a cylinder or a sphere with its numbers."""
    element = ET.SubElement(link, use)
    ET.SubElement(element, "origin", xyz=numbers(xyz), rpy=numbers(rpy))
    geometry = ET.SubElement(element, "geometry")
    said = {key: numbers(x) if key == "size" else number(x) for key, x in size.items()}
    ET.SubElement(geometry, shape, said)
    if material:
        ET.SubElement(element, "material", name=material)


def add_frames(root: ET.Element, robot: RobotSpec, prefix: str) -> None:
    """Add the frames of cameras and lidars that messages bear."""
    for name, camera in robot.cameras.items():
        link, optical = prefix + sensor_frame(name), prefix + sensor_frame(name, "optical")
        add_link(root, link)
        bearer = prefix + (camera.link or BODY)
        add_joint(root, f"{link}_joint", "fixed", bearer, link, xyz=camera.position_m, rpy=camera.rpy_rad)
        add_link(root, optical)
        quarter = 0.5 * math.pi
        add_joint(root, f"{optical}_joint", "fixed", link, optical, rpy=(-quarter, 0.0, -quarter))
    for name, lidar in robot.lidars.items():
        link = prefix + sensor_frame(name)
        add_link(root, link)
        add_joint(root, f"{link}_joint", "fixed", prefix + BODY, link, xyz=lidar.position_m, rpy=lidar.rpy_rad)


def text_of(root: ET.Element) -> str:
    """Return the document, one element to a line."""
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def link_of(joint: str) -> str:
    """Return the name of the link that a joint of this name turns."""
    return f"{joint.removesuffix('_joint')}_link"


def rod(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[float, ...], float]:
    """Return the middle (3,), roll-pitch-yaw and length of a cylinder, whose axis is z, from one point to another."""
    along = end - start
    length = float(np.linalg.norm(along))
    pitch = math.atan2(math.hypot(along[0], along[1]), along[2])
    return 0.5 * (start + end), (0.0, pitch, math.atan2(along[1], along[0])), length
