"""A robot with links and joints in MuJoCo, from its URDF or an MJCF, with the robot file's limits and drives."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.robots.mjcf import BODY, COLLISION_GROUP, VISUAL_GROUP, add_camera, add_drive, import_mujoco, limit_joint
from rlstack.robots.spec import RobotSpec
from rlstack.robots.xml_files import check_mjcf

_READABLE = (".obj", ".stl", ".msh")
"""Mesh files that MuJoCo reads."""


def read_urdf_spec(root: ET.Element, robot: RobotSpec, where: str) -> Any:
    """Return a URDF as a ``mujoco.MjSpec``; every link is a body, and visual shapes are in the visual group.

    Args:
        root: Its ``robot`` element, without prefix or frames.
        robot: Its robot.
        where: Its name in errors.

    Raises:
        UserError: MuJoCo is not installed, or it refuses the URDF.
    """
    mujoco = import_mujoco()
    for link in root.findall("link"):
        collision = link.find("collision/geometry/mesh")
        for visual in link.findall("visual"):
            mesh = visual.find("geometry/mesh")
            if mesh is not None and not mesh.get("filename", "").lower().endswith(_READABLE):
                link.remove(visual)  # collision meshes must be readable
            elif mesh is not None and collision is not None and _objects(mesh.get("filename", "")) > 1:
                mesh.set("filename", collision.get("filename", ""))  # MuJoCo shows only one of a file's objects
    # Links without joints stay bodies, so that they can be found by name; visuals stay.
    options = {"strippath": "false", "fusestatic": "false", "discardvisual": "false", "balanceinertia": "true"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    try:
        own = mujoco.MjSpec.from_string(ET.tostring(root, encoding="unicode"))
    except ValueError as error:
        raise UserError(f"MuJoCo refuses the model of {robot.name}, {where}: {error}") from error
    for geom in own.geoms:
        geom.group = COLLISION_GROUP if geom.contype or geom.conaffinity else VISUAL_GROUP
    return own


def read_mjcf_spec(path: Path) -> Any:
    """Return an MJCF as a ``mujoco.MjSpec`` without its actuators and keyframes, which the robot file's replace."""
    mujoco = import_mujoco()
    check_mjcf(path)
    try:
        own = mujoco.MjSpec.from_file(str(path))
    except (ValueError, OSError) as error:
        raise UserError(f"MuJoCo refuses the model {path}: {error}") from error
    for listed in (own.actuators, own.keys):
        for element in list(listed):
            own.delete(element)
    return own


def add_articulated(spec: Any, robot: RobotSpec, own: Any, prefix: str, *, where: str, height_m: float) -> Any:
    """Add a robot's own model to a world and return the body ``base_link``, with the robot file's limits and drives.

    Joints and actuators are named as in the file, and an actuator's control is its joint's target. Adjacent links, and
    links that touch at rest, do not collide.

    Args:
        spec: The ``mujoco.MjSpec`` of the world.
        robot: The robot; unless ``fixed_base``, it moves freely.
        own: The ``mujoco.MjSpec`` of the robot.
        prefix: Prefix of all its names.
        where: The model's name in errors.
        height_m: Height of ``base_link`` above the world's origin; and the robot's size for its camera.

    Raises:
        UserError: MuJoCo refuses the model.
    """
    mujoco = import_mujoco()
    for joint in robot.drives:
        limit_joint(own, own.joint(joint.name), joint)
        add_drive(mujoco, own, joint, "")
    if robot.gravity_compensation:
        for link in own.bodies[1:]:
            link.gravcomp = 1.0
    _exclude_neighbours(mujoco, own, robot, where)
    base = own.body(BODY)
    if not robot.fixed_base:
        base.add_freejoint(name=BODY)
        base.pos = [0.0, 0.0, height_m]
    holds = spec.worldbody if base is not None else spec.worldbody.add_body(name=prefix + BODY)
    _attach(mujoco, spec, own, holds.add_frame(), prefix)
    body = spec.body(prefix + BODY)
    add_camera(mujoco, body, prefix, _REACH_M)
    return body


_REACH_M = 0.35
"""The robot's size for the tracking camera; robots with legs and arms differ little."""


def _attach(mujoco: Any, spec: Any, own: Any, frame: Any, prefix: str) -> None:
    if prefix:
        spec.attach(own, frame=frame, prefix=prefix)
        return
    # MuJoCo warns that names may clash, on the terminal and into a file. They are the model's alone; the tests save and
    # reload it.
    warnings.filterwarnings("ignore", message="Attaching a spec with an empty prefix")  # again at every compilation
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        spec.attach(own, frame=frame, prefix="")
    finally:
        mujoco.set_mju_user_warning(before)


@lru_cache
def _objects(path: str) -> int:
    """Return how many objects a mesh file has; formats other than OBJ have one."""
    if not path.lower().endswith(".obj"):
        return 1
    with open(path, "rb") as file:
        return sum(line.startswith(b"o ") for line in file)


def _exclude_neighbours(mujoco: Any, own: Any, robot: RobotSpec, where: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="obj_decoder")  # about textures, which are then ignored
            model = own.compile()
    except ValueError as error:
        raise UserError(f"MuJoCo refuses the model of {robot.name}, {where}: {error}") from error
    data = mujoco.MjData(model)
    for joint in robot.drives:
        data.qpos[model.joint(joint.name).qposadr[0]] = joint.rest
    mujoco.mj_forward(model, data)
    pairs = {(int(model.body_parentid[body]), body) for body in range(1, model.nbody) if model.body_parentid[body]}
    touching = model.geom_bodyid[data.contact.geom] if data.ncon else []
    pairs |= {(int(min(pair)), int(max(pair))) for pair in touching if min(pair) > 0}
    for one, other in sorted(pairs):
        own.add_exclude(bodyname1=model.body(one).name, bodyname2=model.body(other).name)
