"""A wheeled base as URDF."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import Any

from rlstack.kinds.wheeled_base.spec import Wheel, WheeledBase
from rlstack.robots.kind_models import UrdfOptions
from rlstack.robots.urdf import BODY, add_joint, add_link, add_shape, joint_limit, link_of, robot_element

Position = tuple[float, float, float]

_UPRIGHT = (0.5 * math.pi, 0.0, 0.0)
"""Roll that rotates a cylinder's axis, z, to y."""


def wheeled_base_urdf(robot: WheeledBase, options: UrdfOptions) -> ET.Element:
    """Return the robot's URDF; see :func:`rlstack.robots.urdf.to_urdf`."""
    robot.require_simulable()
    root, prefix = robot_element(robot), options.prefix
    body = add_link(root, prefix + BODY, robot.chassis_inertial())
    box: dict[str, Any] = {"size": robot.chassis.collision_size_m, "xyz": robot.chassis.collision_centre_m}
    add_shape(body, "visual", "box", material="light", **box)
    add_shape(body, "collision", "box", **box)
    (length, _, height), (x, y, z) = robot.chassis.collision_size_m, robot.chassis.collision_centre_m
    nose: dict[str, Any] = {
        "size": (0.1 * length, 0.1 * length, 0.1 * height),
        "xyz": (x + 0.5 * length, y, z + 0.4 * height),
    }
    add_shape(body, "visual", "box", material="front", **nose)
    for caster in robot.casters:
        add_shape(body, "visual", "sphere", xyz=caster.position_m, radius=caster.radius_m, material="dark")
        add_shape(body, "collision", "sphere", xyz=caster.position_m, radius=caster.radius_m)
    joints = {joint.name: joint for joint in robot.drives}

    def connect(name: str, parent: str, child: str, xyz: Position, axis: Position) -> None:
        joint = joints[name]
        add_joint(root, prefix + name, joint.type, parent, child, xyz=xyz, axis=axis, limit=joint_limit(joint))

    for wheel in robot.wheels:
        parent, position = prefix + BODY, wheel.position_m
        if wheel.steering:
            knuckle = prefix + link_of(wheel.steering)
            add_link(root, knuckle, robot.knuckle_inertial())
            connect(wheel.steering, parent, knuckle, position, (0.0, 0.0, 1.0))
            parent, position = knuckle, (0.0, 0.0, 0.0)
        name = prefix + link_of(wheel.name)
        link = add_link(root, name, robot.wheel_inertial(wheel))
        _add_wheel(link, robot, wheel)
        connect(wheel.name, parent, name, position, (0.0, 1.0, 0.0))
    return root


def _add_wheel(link: ET.Element, robot: WheeledBase, wheel: Wheel) -> None:
    size: dict[str, Any] = {"radius": wheel.radius_m, "length": wheel.width_m, "rpy": _UPRIGHT}
    add_shape(link, "visual", "cylinder", material="dark", **size)
    spoke = (1.6 * wheel.radius_m, 1.05 * wheel.width_m, 0.2 * wheel.radius_m)  # so that its rotation is visible
    add_shape(link, "visual", "box", size=spoke, material="rear")
    add_shape(link, "collision", "cylinder", **size)
    # PyBullet's own element; other programs ignore it.
    contact = ET.SubElement(link, "contact")
    ET.SubElement(contact, "lateral_friction", value=repr(robot.contact.wheel_friction))
    ET.SubElement(contact, "rolling_friction", value=repr(robot.contact.rolling_resistance_m))
