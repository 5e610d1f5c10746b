"""A wheeled base in MuJoCo: a free chassis, wheels on hinges, frictionless casters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import Wheel, WheeledBase
from rlstack.robots.mjcf import (
    BODY,
    COLLISION_GROUP,
    VISUAL_GROUP,
    add_camera,
    add_drive,
    import_mujoco,
    limit_joint,
    set_inertial,
)
from rlstack.robots.urdf import MATERIALS, link_of

_LYING = [math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0]
"""wxyz that rotates a cylinder's axis, z, to y."""


def add_wheeled_base(spec: Any, robot: WheeledBase, prefix: str, timestep_s: float) -> Any:
    """Add the robot to a world and return its body; see :func:`rlstack.robots.mjcf.add_robot`.

    Wheels rotate about y and are cylinders with the file's friction; casters have none. Joints and their actuators are
    named as in the file: a wheel's control is its speed in rad/s, a steering joint's its angle in rad.
    """
    robot.require_simulable()
    mujoco, name = import_mujoco(), prefix + BODY
    # As soft as tyres: wheels that skid on a floor as hard as a quadrotor's bounce on it.
    collision = {"solref": [max(0.02, 4.0 * timestep_s), 1.0], "group": COLLISION_GROUP, "rgba": [0.9, 0.2, 0.2, 0.25]}
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC  # the same grip in all directions; a pyramid's has corners
    body = spec.worldbody.add_body(name=name, pos=[0.0, 0.0, robot.rest_height_m])
    body.add_freejoint(name=name)
    set_inertial(body, robot.chassis_inertial())
    chassis = robot.chassis
    box = {"type": mujoco.mjtGeom.mjGEOM_BOX, "mass": 0.0, "pos": list(chassis.collision_centre_m)}
    box["size"] = [0.5 * side for side in chassis.collision_size_m]
    body.add_geom(name=name, priority=1, **box, **collision)
    _add_visual(body, "light", **box)
    (length, _, height), (x, y, z) = chassis.collision_size_m, chassis.collision_centre_m
    box.update(size=[0.05 * length, 0.05 * length, 0.05 * height], pos=[x + 0.5 * length, y, z + 0.4 * height])
    _add_visual(body, "front", **box)
    for caster in robot.casters:
        ball = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "mass": 0.0, "pos": list(caster.position_m)}
        ball["size"] = [caster.radius_m, 0.0, 0.0]
        # Higher than the floor's priority, so that the pair is frictionless.
        body.add_geom(name=prefix + caster.name, priority=2, condim=1, **ball, **collision)
        _add_visual(body, "dark", **ball)
    joints = {joint.name: joint for joint in robot.drives}
    for wheel in robot.wheels:
        parent, position = body, wheel.position_m
        if wheel.steering:
            parent = body.add_body(name=prefix + link_of(wheel.steering), pos=list(position))
            set_inertial(parent, robot.knuckle_inertial())
            hinge = parent.add_joint(name=prefix + wheel.steering, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1])
            limit_joint(spec, hinge, joints[wheel.steering])
            position = (0.0, 0.0, 0.0)
        link = parent.add_body(name=prefix + link_of(wheel.name), pos=list(position))
        set_inertial(link, robot.wheel_inertial(wheel))
        hinge = link.add_joint(name=prefix + wheel.name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0])
        limit_joint(spec, hinge, joints[wheel.name])
        _add_tyre(mujoco, link, robot, wheel, prefix, collision)
        # MuJoCo excludes contact of a body with its parent, but not with its parent's parent.
        spec.add_exclude(bodyname1=name, bodyname2=prefix + link_of(wheel.name))
    for joint in robot.drives:
        add_drive(mujoco, spec, joint, prefix)
    add_camera(mujoco, body, prefix, 0.5 * float(np.linalg.norm(chassis.collision_size_m)))
    return body


def _add_tyre(mujoco: Any, link: Any, robot: WheeledBase, wheel: Wheel, prefix: str, collision: dict[str, Any]) -> None:
    cylinder = {"type": mujoco.mjtGeom.mjGEOM_CYLINDER, "mass": 0.0, "quat": _LYING}
    cylinder["size"] = [wheel.radius_m, 0.5 * wheel.width_m, 0.0]
    rolling = robot.contact.rolling_resistance_m
    link.add_geom(
        name=prefix + wheel.name,
        priority=2,
        condim=6 if rolling > 0.0 else 3,
        friction=[robot.contact.wheel_friction, 0.0, rolling],
        **cylinder,
        **collision,
    )
    _add_visual(link, "dark", **cylinder)
    spoke = [0.8 * wheel.radius_m, 0.525 * wheel.width_m, 0.1 * wheel.radius_m]
    _add_visual(link, "rear", type=mujoco.mjtGeom.mjGEOM_BOX, mass=0.0, size=spoke)


def _add_visual(body: Any, material: str, **geom: Any) -> None:
    body.add_geom(rgba=list(MATERIALS[material]), contype=0, conaffinity=0, group=VISUAL_GROUP, **geom)
