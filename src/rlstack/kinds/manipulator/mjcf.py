"""A manipulator in MuJoCo: the model that its file names, with the file's limits, drives and rest position."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.mjcf.drives import add_drive, limit_joint
from rlstack.robots.mjcf.parts import BODY, COLLISION_GROUP, VISUAL_GROUP, add_camera
from rlstack.robots.mjcf.world import import_mujoco
from rlstack.robots.model_check import checked_model
from rlstack.robots.urdf import to_urdf
from rlstack.robots.urdf.description import Description, describe

_READABLE = (".obj", ".stl", ".msh")
"""Mesh files that MuJoCo reads."""
_REACH_M = 0.35
"""What the camera that follows takes the robot's size for; arms differ little."""


def add_manipulator(spec: Any, robot: Manipulator, prefix: str) -> Any:
    """Add the robot to a world and return its body; see :func:`rlstack.robots.mjcf.add_robot`.

    It stands fixed. Joints and actuators are named as in the file, and an actuator's control is its joint's position.
    Links that are joined to each other, or that touch at rest, pass through each other.
    """
    mujoco = import_mujoco()
    found = describe(robot)
    arm = _from_urdf(mujoco, robot, found) if found.path is None else _from_mjcf(mujoco, robot, found.path)
    for own in robot.drives:
        limit_joint(arm, arm.joint(own.name), own)
        add_drive(mujoco, arm, own, "")
    if robot.gravity_compensation:
        for link in arm.bodies[1:]:
            link.gravcomp = 1.0
    _let_neighbours_pass(mujoco, arm, robot, found.where)
    holds = spec.worldbody if arm.body(BODY) is not None else spec.worldbody.add_body(name=prefix + BODY)
    _attach(mujoco, spec, arm, holds.add_frame(), prefix)
    body = spec.body(prefix + BODY)
    add_camera(mujoco, body, prefix, _REACH_M)
    return body


def _attach(mujoco: Any, spec: Any, arm: Any, frame: Any, prefix: str) -> None:
    if prefix:
        spec.attach(arm, frame=frame, prefix=prefix)
        return
    # MuJoCo warns that names may clash, on the terminal and into a file. They are the model's alone, and it is saved
    # and read again in the tests.
    warnings.filterwarnings("ignore", message="Attaching a spec with an empty prefix")  # again at every compilation
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda said: None)
    try:
        spec.attach(arm, frame=frame, prefix="")
    finally:
        mujoco.set_mju_user_warning(before)


def _from_urdf(mujoco: Any, robot: Manipulator, found: Description) -> Any:
    root = ET.fromstring(to_urdf(robot, frames=False))
    for link in root.findall("link"):
        felt = link.find("collision/geometry/mesh")
        for visual in link.findall("visual"):
            mesh = visual.find("geometry/mesh")
            if mesh is not None and not mesh.get("filename", "").lower().endswith(_READABLE):
                link.remove(visual)  # only seen; what is felt must be readable
            elif mesh is not None and felt is not None and _objects(mesh.get("filename", "")) > 1:
                mesh.set("filename", felt.get("filename", ""))  # MuJoCo shows only one of a file's objects
    # Links without joints stay bodies, so that they can be found by name; visuals stay.
    options = {"strippath": "false", "fusestatic": "false", "discardvisual": "false", "balanceinertia": "true"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    try:
        arm = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))
    except ValueError as error:
        raise UserError(f"MuJoCo refuses the model of {robot.name}, {found.where}: {error}") from error
    for geom in arm.geoms:
        seen_only = not (geom.contype or geom.conaffinity)
        geom.group = VISUAL_GROUP if seen_only else COLLISION_GROUP
    return arm


@lru_cache
def _objects(path: str) -> int:
    """Return how many objects a mesh file has; other kinds of file than OBJ have one."""
    if not path.lower().endswith(".obj"):
        return 1
    with open(path, "rb") as file:
        return sum(line.startswith(b"o ") for line in file)


def _from_mjcf(mujoco: Any, robot: Manipulator, path: Path) -> Any:
    checked_model(robot)
    arm = mujoco.MjSpec.from_file(str(path))
    for listed in (arm.actuators, arm.keys):  # the robot file's drives and rest take their place
        for element in list(listed):
            arm.delete(element)
    return arm


def _let_neighbours_pass(mujoco: Any, arm: Any, robot: Manipulator, where: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="obj_decoder")  # of textures that are then left out
            model = arm.compile()
    except ValueError as error:
        raise UserError(f"MuJoCo refuses the model of {robot.name}, {where}: {error}") from error
    data = mujoco.MjData(model)
    for own in robot.drives:
        data.qpos[model.joint(own.name).qposadr[0]] = own.rest
    mujoco.mj_forward(model, data)
    pairs = {(int(model.body_parentid[body]), body) for body in range(1, model.nbody) if model.body_parentid[body]}
    touching = model.geom_bodyid[data.contact.geom] if data.ncon else []
    pairs |= {(int(min(pair)), int(max(pair))) for pair in touching if min(pair) > 0}
    for one, other in sorted(pairs):
        arm.add_exclude(bodyname1=model.body(one).name, bodyname2=model.body(other).name)
