"""The URDF of a robot, generated from its file for PyBullet, Isaac Sim, RViz and other programs, and its parts."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.robots.inertia import Inertial
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kind_models import Meshes, Rotors, UrdfOptions, models_of
from rlstack.robots.links import Link
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


def to_urdf(
    robot: RobotSpec,
    *,
    prefix: str = "",
    rotors: Rotors = "continuous",
    meshes: Meshes = "path",
    frames: bool = True,
) -> str:
    """Return the robot as URDF text. Its root link is ``base_link``; joints come in the robot file's order.

    Mass and inertia of a quadrotor and a base are exactly those of the file. A manipulator's links are its model's,
    which is checked against the file first; its limits are the file's.

    Args:
        robot: The robot.
        prefix: Prefix of all links and joints, such as ``cf1/``.
        rotors: For quadrotors. ``continuous``: spinning links, for viewers and for engines that drive them; their
            mass and inertia are subtracted from the body's, so that the total is the file's. ``fixed``: frames on the
            body, which has all of the mass. ``none``: visuals only, no links.
        meshes: References to a manipulator's meshes: by ``path`` (engines), by file ``uri`` (RViz), or omitted.
        frames: Whether cameras and lidars have their frames: massless links, which PhysX treats as 1 kg.

    Raises:
        UserError: There is no URDF of such a robot, or its model is missing, malformed or disagrees with the file.
    """
    root = models_of(robot).urdf(robot, UrdfOptions(prefix=prefix, rotors=rotors, meshes=meshes))
    if frames:
        add_frames(root, robot, prefix)
    return text_of(root)


def number(x: float) -> str:
    """Return a number as text that reads back exactly."""
    return repr(float(x) + 0.0)  # no -0.0


def numbers(values: Iterable[float]) -> str:
    """Return numbers as text, separated by spaces."""
    return " ".join(map(number, values))


def robot_element(robot: RobotSpec) -> ET.Element:
    """Return an empty URDF with the available materials."""
    root = ET.Element("robot", name=robot.name)
    for name, rgba in MATERIALS.items():
        ET.SubElement(ET.SubElement(root, "material", name=name), "color", rgba=numbers(rgba))
    return root


def add_link(root: ET.Element, name: str, piece: Inertial | None = None) -> ET.Element:
    """Add a link; without mass properties it is a massless frame.

    Its inertial is explicit, because PyBullet treats a link without one as 1 kg.
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
    """Add a joint; ``limit`` has any of lower, upper, velocity and effort."""
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
    """Add a ``visual`` or a ``collision``: a box with ``size``, or a cylinder or a sphere with its dimensions."""
    element = ET.SubElement(link, use)
    ET.SubElement(element, "origin", xyz=numbers(xyz), rpy=numbers(rpy))
    geometry = ET.SubElement(element, "geometry")
    ET.SubElement(geometry, shape, {key: numbers(x) if key == "size" else number(x) for key, x in size.items()})
    if material:
        ET.SubElement(element, "material", name=material)


def links_urdf(robot: RobotSpec, links: Sequence[Link]) -> ET.Element:
    """Return the URDF of a robot whose file describes its links; joints have the limits of the robot's drives."""
    root = robot_element(robot)
    joints = {drive.name: drive for drive in robot.drives}
    for k, link in enumerate(links):
        element = add_link(root, link.name, link.inertial.piece if link.inertial is not None else None)
        colour = "light" if k % 2 else "dark"
        for use, material in (("visual", colour), ("collision", "")):
            for box in link.boxes:
                at, turn = box.position_m, box.rpy_rad
                add_shape(element, use, "box", xyz=at, rpy=turn, material=material, size=box.size_m)
            for tube in link.cylinders:
                add_shape(
                    element,
                    use,
                    "cylinder",
                    xyz=tube.position_m,
                    rpy=tube.rpy_rad,
                    material=material,
                    radius=tube.radius_m,
                    length=tube.length_m,
                )
        if k == 0:
            continue
        parent, at, turn = link.parent or links[k - 1].name, link.position_m, link.rpy_rad
        if not link.joint:
            add_joint(root, f"{link.name}_joint", "fixed", parent, link.name, xyz=at, rpy=turn)
            continue
        own = joints[link.joint]
        add_joint(root, own.name, own.type, parent, link.name, xyz=at, rpy=turn, axis=link.axis, limit=joint_limit(own))
    return root


def joint_limit(drive: DrivenJoint) -> dict[str, float]:
    """Return a joint's limits in the form of :func:`add_joint`."""
    ends = {"lower": drive.lower, "upper": drive.upper} if drive.type != "continuous" else {}
    return {**ends, "velocity": drive.velocity_max, "effort": drive.effort_max}


def add_frames(root: ET.Element, robot: RobotSpec, prefix: str) -> None:
    """Add the frames in the messages of cameras and lidars."""
    for name, camera in robot.cameras.items():
        link, optical = prefix + sensor_frame(name), prefix + sensor_frame(name, "optical")
        add_link(root, link)
        parent = prefix + (camera.link or BODY)
        add_joint(root, f"{link}_joint", "fixed", parent, link, xyz=camera.position_m, rpy=camera.rpy_rad)
        add_link(root, optical)
        quarter = 0.5 * math.pi
        add_joint(root, f"{optical}_joint", "fixed", link, optical, rpy=(-quarter, 0.0, -quarter))
    for name, lidar in robot.lidars.items():
        link = prefix + sensor_frame(name)
        add_link(root, link)
        add_joint(root, f"{link}_joint", "fixed", prefix + BODY, link, xyz=lidar.position_m, rpy=lidar.rpy_rad)


def for_each_mesh(root: ET.Element, change: Callable[[str], str]) -> None:
    """Rename each mesh of a URDF."""
    for mesh in root.iter("mesh"):
        mesh.set("filename", change(mesh.get("filename", "")))


def rename(root: ET.Element, prefix: str) -> None:
    """Put a prefix before the names of all links and joints of a URDF."""
    for element in [*root.findall("link"), *root.findall("joint")]:
        element.set("name", prefix + element.get("name", ""))
    for joint in root.findall("joint"):
        for tag in ("parent", "child"):
            if (end := joint.find(tag)) is not None:
                end.set("link", prefix + end.get("link", ""))
        if (mimic := joint.find("mimic")) is not None:
            mimic.set("joint", prefix + mimic.get("joint", ""))


def text_of(root: ET.Element) -> str:
    """Return the document, one element to a line."""
    ET.indent(root)
    return '<?xml version="1.0"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def link_of(joint: str) -> str:
    """Return the name of the link that a joint of this name rotates."""
    return f"{joint.removesuffix('_joint')}_link"


def rod(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[float, ...], float]:
    """Return the centre (3,), roll-pitch-yaw and length of a cylinder along z, from one point to another."""
    along = end - start
    length = float(np.linalg.norm(along))
    pitch = math.atan2(math.hypot(along[0], along[1]), along[2])
    return 0.5 * (start + end), (0.0, pitch, math.atan2(along[1], along[0])), length
