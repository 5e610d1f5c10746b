"""Where an arm's links come from: a model file, the links of its robot file, or the arms that it is made of."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.model import Model, parse_urdf, read_mjcf, read_urdf
from rlstack.robots.model_file import find_mesh, resolve
from rlstack.robots.spec import load_robot
from rlstack.robots.urdf.parts import BODY, add_joint, add_link, add_shape, robot_element


@dataclass(frozen=True)
class Description:
    """An arm as it is described.

    Args:
        where: What to call it in errors.
        urdf: Its ``robot`` element, whose meshes are absolute paths; None: it is an MJCF.
        path: Of its MJCF.
    """

    where: str
    urdf: ET.Element | None
    path: Path | None = None


def describe(robot: Manipulator) -> Description:
    """Return an arm as its robot file, or the model that it names, describes it.

    Raises:
        UserError: The model, or a mesh of it, is missing or malformed.
    """
    if robot.arms:
        return Description(f"the model of {robot.name}", _stand_together(robot))
    if robot.links:
        return Description(f"the model of {robot.name}", _of_links(robot))
    path = resolve(robot.model, robot.name)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".xml" and "<mujoco" in text:
        if robot.inertials:
            raise UserError(f"{robot.name}: inertials are not for an MJCF such as {path}: leave them out.")
        return Description(str(path), None, path)
    root = parse_urdf(text, str(path))
    read_urdf(text, str(path))
    for_each_mesh(root, lambda name: str(find_mesh(name, path)))
    _weigh(robot, root, str(path))
    return Description(str(path), root)


def model_of(robot: Manipulator) -> Model:
    """Return an arm's links and joints.

    Raises:
        UserError: See :func:`describe`.
    """
    found = describe(robot)
    if found.urdf is None:
        assert found.path is not None
        return read_mjcf(found.path)
    return read_urdf(ET.tostring(found.urdf, encoding="unicode"), found.where)


def for_each_mesh(root: ET.Element, change: Callable[[str], str]) -> None:
    """Give each mesh of a URDF another name."""
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


def _weigh(robot: Manipulator, root: ET.Element, where: str) -> None:
    """Put the robot file's masses and inertias in place of the model's."""
    links = {link.get("name", ""): link for link in root.findall("link")}
    for name, own in robot.inertials.items():
        if name not in links:
            raise UserError(f"{where} has no link '{name}', for which {robot.name} has inertials: {', '.join(links)}.")
        inertial = add_link(ET.Element("robot"), name, own.piece).find("inertial")
        assert inertial is not None
        if (old := links[name].find("inertial")) is not None:
            links[name].remove(old)
        links[name].insert(0, inertial)


def _of_links(robot: Manipulator) -> ET.Element:
    root = robot_element(robot)
    joints = {drive.name: drive for drive in robot.drives}
    for k, link in enumerate(robot.links):
        element = add_link(root, link.name, link.inertial.piece if link.inertial is not None else None)
        look = "light" if k % 2 else "dark"
        for use, material in (("visual", look), ("collision", "")):
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
        parent, at, turn = link.parent or robot.links[k - 1].name, link.position_m, link.rpy_rad
        if not link.joint:
            add_joint(root, f"{link.name}_joint", "fixed", parent, link.name, xyz=at, rpy=turn)
            continue
        own = joints[link.joint]
        add_joint(root, own.name, own.type, parent, link.name, xyz=at, rpy=turn, axis=link.axis, limit=_limit(own))
    return root


def _limit(drive: DrivenJoint) -> dict[str, float]:
    ends = {"lower": drive.lower, "upper": drive.upper} if drive.type != "continuous" else {}
    return {**ends, "velocity": drive.velocity_max, "effort": drive.effort_max}


def _stand_together(robot: Manipulator) -> ET.Element:
    """Return the URDF of several arms on one ``base_link``."""
    whole = robot_element(robot)
    add_link(whole, BODY)
    for arm in robot.arms:
        part = load_robot(arm.robot)
        assert isinstance(part, Manipulator)
        found = describe(part)
        if found.urdf is None:
            raise UserError(f"{robot.name}: the model of {part.name} is an MJCF, {found.where}: it wants a URDF.")
        rename(found.urdf, arm.prefix)
        links = [link.get("name", "") for link in found.urdf.findall("link")]
        children = {end.get("link") for end in found.urdf.findall("joint/child")}
        (first,) = (name for name in links if name not in children)
        known = {material.get("name") for material in whole.findall("material")}
        whole.extend(e for e in found.urdf if e.tag != "material" or e.get("name") not in known)
        add_joint(whole, f"{arm.prefix}mount", "fixed", BODY, first, xyz=arm.position_m, rpy=arm.rpy_rad)
    return whole
