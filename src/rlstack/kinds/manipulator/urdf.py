"""A manipulator as URDF: the model that its file names, with the file's limits and with its meshes found."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Literal

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.model import read_urdf
from rlstack.robots.model_check import check_model
from rlstack.robots.urdf.description import describe, rename
from rlstack.robots.urdf.parts import BODY, add_frames, add_joint, add_link, number

Meshes = Literal["path", "uri", "none"]


def manipulator_urdf(robot: Manipulator, prefix: str, meshes: Meshes, frames: bool) -> ET.Element:
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
        _place_meshes(link, meshes)
    for element in root.findall("joint"):
        if (joint := listed.get(element.get("name", ""))) is not None:
            _set_limits(element, joint)
    if prefix:
        rename(root, prefix)
    model_root = prefix + model.root
    if model_root != prefix + BODY:
        add_link(root, prefix + BODY)
        add_joint(root, f"{prefix}{BODY}_joint", "fixed", prefix + BODY, model_root)
    if frames:
        add_frames(root, robot, prefix)
    return root


def _settle_inertial(link: ET.Element) -> None:
    """Have a link without mass say so, and have no inertia either: engines differ over what that would mean."""
    own = link.find("inertial")
    mass = own.find("mass") if own is not None else None
    if mass is not None and float(mass.get("value", "0")) > 0.0:
        return
    nothing = add_link(ET.Element("robot"), "").find("inertial")
    if own is not None:
        link.remove(own)
    if nothing is not None:
        link.insert(0, nothing)


def _set_limits(element: ET.Element, joint: DrivenJoint) -> None:
    limit = element.find("limit")
    if limit is None:
        limit = ET.SubElement(element, "limit")
    if joint.type != "continuous":
        limit.set("lower", number(joint.lower))
        limit.set("upper", number(joint.upper))
    limit.set("velocity", number(joint.velocity_max))
    limit.set("effort", number(joint.effort_max))
    for tag in ("mimic", "safety_controller"):  # it is driven itself; and soft limits are not those of the file
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
