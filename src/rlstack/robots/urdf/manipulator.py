"""A manipulator as URDF: the model that its file names, with the file's limits and with its meshes found."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Literal

from rlstack.errors import UserError
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kinds.manipulator import Manipulator
from rlstack.robots.model import parse_urdf, read_urdf
from rlstack.robots.model_check import check_model
from rlstack.robots.model_file import find_mesh, resolve
from rlstack.robots.urdf.parts import BODY, add_frames, add_joint, add_link, number

Meshes = Literal["path", "uri", "none"]


def manipulator_urdf(robot: Manipulator, prefix: str, meshes: Meshes, frames: bool) -> ET.Element:
    """Return the robot's URDF; see :func:`rlstack.robots.urdf.to_urdf`."""
    path = resolve(robot.model, robot.name)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".xml" and "<mujoco" in text:
        raise UserError(f"The model of {robot.name} is an MJCF, {path}: there is no URDF of it.")
    model = read_urdf(text, str(path))
    check_model(robot, model)
    root = parse_urdf(text, str(path))
    root.set("name", robot.name)
    listed = {joint.name: joint for joint in robot.drives}
    for link in root.findall("link"):
        _settle_inertial(link)
        _place_meshes(link, path, meshes)
    for element in root.findall("joint"):
        if (joint := listed.get(element.get("name", ""))) is not None:
            _set_limits(element, joint)
    if prefix:
        _rename(root, prefix)
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


def _place_meshes(link: ET.Element, model: Path, meshes: Meshes) -> None:
    for use in [*link.findall("visual"), *link.findall("collision")]:
        mesh = use.find("geometry/mesh")
        if mesh is None:
            continue
        if meshes == "none":
            link.remove(use)
            continue
        path = find_mesh(mesh.get("filename", ""), model)
        mesh.set("filename", path.as_uri() if meshes == "uri" else str(path))


def _rename(root: ET.Element, prefix: str) -> None:
    for element in [*root.findall("link"), *root.findall("joint")]:
        element.set("name", prefix + element.get("name", ""))
    for joint in root.findall("joint"):
        for tag in ("parent", "child"):
            if (end := joint.find(tag)) is not None:
                end.set("link", prefix + end.get("link", ""))
        if (mimic := joint.find("mimic")) is not None:
            mimic.set("joint", prefix + mimic.get("joint", ""))
