"""A manipulator as URDF, with the robot file's limits.

Its links come from a model file, from the links of its robot file, or from the arms that it is made of.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.inertia import Inertial
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kind_models import Meshes, UrdfOptions, check_model
from rlstack.robots.model import parse_urdf, read_urdf
from rlstack.robots.model_file import find_mesh, resolve
from rlstack.robots.spec import load_robot
from rlstack.robots.urdf import (
    BODY,
    add_joint,
    add_link,
    for_each_mesh,
    joint_limit,
    links_urdf,
    number,
    rename,
    robot_element,
)
from rlstack.robots.xml_files import check_meshes, read_xml


@dataclass(frozen=True)
class Description:
    """The description of an arm.

    Args:
        where: Its name in errors.
        urdf: Its ``robot`` element with absolute mesh paths; None for an MJCF.
        path: Path of its MJCF.
    """

    where: str
    urdf: ET.Element | None
    path: Path | None = None


def describe(robot: Manipulator) -> Description:
    """Return an arm's description, from its robot file or the model that it names.

    Raises:
        UserError: The model, or a mesh of it, is missing or malformed.
    """
    if robot.arms:
        return Description(f"the model of {robot.name}", _stand_together(robot))
    if robot.links:
        return Description(f"the model of {robot.name}", links_urdf(robot, robot.links))
    path = resolve(robot.model, robot.name)
    text = read_xml(path, f"the model of {robot.name},")
    if path.suffix == ".xml" and "<mujoco" in text:
        if robot.inertials:
            raise UserError(f"{robot.name}: inertials do not apply to an MJCF such as {path}: leave them out.")
        return Description(str(path), None, path)
    root = parse_urdf(text, str(path))
    read_urdf(text, str(path))
    for_each_mesh(root, lambda name: str(find_mesh(name, path)))
    check_meshes((Path(mesh.get("filename", "")) for mesh in root.iter("mesh")), str(path))
    _weigh(robot, root, str(path))
    return Description(str(path), root)


def manipulator_urdf(robot: Manipulator, options: UrdfOptions) -> ET.Element:
    """Return the robot's URDF; see :func:`rlstack.robots.urdf.to_urdf`."""
    found = describe(robot)
    if found.urdf is None:
        raise UserError(f"The model of {robot.name} is an MJCF, {found.where}: there is no URDF of it.")
    root = found.urdf
    model = read_urdf(ET.tostring(root, encoding="unicode"), found.where)
    check_model(robot, model)
    root.set("name", robot.name)
    listed = {joint.name: joint for joint in robot.drives}
    for link in root.findall("link"):
        _settle_inertial(link)
        _place_meshes(link, options.meshes)
    for element in root.findall("joint"):
        if (joint := listed.get(element.get("name", ""))) is not None:
            _set_limits(element, joint)
    if model.root != BODY:
        add_link(root, BODY)
        add_joint(root, f"{BODY}_joint", "fixed", BODY, model.root)
    rename(root, options.prefix)
    return root


def _settle_inertial(link: ET.Element) -> None:
    """Give a link without mass an explicit zero mass and inertia: engines interpret missing ones differently."""
    own = link.find("inertial")
    mass = own.find("mass") if own is not None else None
    if mass is not None and float(mass.get("value", "0")) > 0.0:
        return
    _set_inertial(link)


def _set_limits(element: ET.Element, joint: DrivenJoint) -> None:
    limit = element.find("limit")
    if limit is None:
        limit = ET.SubElement(element, "limit")
    for key, bound in joint_limit(joint).items():
        limit.set(key, number(bound))
    for tag in ("mimic", "safety_controller"):  # every joint is driven; its limits are the file's
        if (other := element.find(tag)) is not None:
            element.remove(other)


def _place_meshes(link: ET.Element, meshes: Meshes) -> None:
    for use in [*link.findall("visual"), *link.findall("collision")]:
        mesh = use.find("geometry/mesh")
        if mesh is None:
            continue
        if meshes == "none":
            link.remove(use)
        elif meshes == "uri":
            mesh.set("filename", Path(mesh.get("filename", "")).as_uri())


def _weigh(robot: Manipulator, root: ET.Element, where: str) -> None:
    """Put the robot file's masses and inertias in place of the model's."""
    links = {link.get("name", ""): link for link in root.findall("link")}
    for name, own in robot.inertials.items():
        if name not in links:
            raise UserError(f"{where} has no link '{name}', for which {robot.name} has inertials: {', '.join(links)}.")
        _set_inertial(links[name], own.piece)


def _set_inertial(link: ET.Element, piece: Inertial | None = None) -> None:
    inertial = add_link(ET.Element("robot"), "", piece)[0]
    if (old := link.find("inertial")) is not None:
        link.remove(old)
    link.insert(0, inertial)


def _stand_together(robot: Manipulator) -> ET.Element:
    """Return the URDF of several arms on one ``base_link``."""
    whole = robot_element(robot)
    add_link(whole, BODY)
    for arm in robot.arms:
        part = load_robot(arm.robot)
        assert isinstance(part, Manipulator)
        found = describe(part)
        if found.urdf is None:
            raise UserError(f"{robot.name}: the model of {part.name} is an MJCF, {found.where}: a URDF is required.")
        rename(found.urdf, arm.prefix)
        links = [link.get("name", "") for link in found.urdf.findall("link")]
        children = {end.get("link") for end in found.urdf.findall("joint/child")}
        (first,) = (name for name in links if name not in children)
        known = {material.get("name") for material in whole.findall("material")}
        whole.extend(e for e in found.urdf if e.tag != "material" or e.get("name") not in known)
        add_joint(whole, f"{arm.prefix}mount", "fixed", BODY, first, xyz=arm.position_m, rpy=arm.rpy_rad)
    return whole
