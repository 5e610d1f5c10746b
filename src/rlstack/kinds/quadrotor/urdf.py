"""A quadrotor as URDF: its body, and spinning rotors whose mass and inertia are subtracted from the body's."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, Rotor
from rlstack.robots.inertia import Inertial, inertial, is_physical, moved, without
from rlstack.robots.kind_models import UrdfOptions
from rlstack.robots.urdf import (
    BODY,
    add_joint,
    add_link,
    add_shape,
    link_of,
    robot_element,
    rod,
)

LIGHTEST_SHARE, HEAVIEST_SHARE = 0.005, 0.01
"""A rotor's share of the robot's mass where the file has no spin inertia, and the largest share.

A 5 inch propeller weighs 4 g on a racer of 0.8 kg, a 45 mm one 0.2 g on a Crazyflie of 27 g.
"""


def rotor_inertial(robot: Quadrotor) -> Inertial:
    """Return one rotor's mass properties about its own centre: a thin disc with the file's spin inertia, if any."""
    model, whole = robot.rotor_model, robot.body.mass_kg
    spin, radius = model.spin_inertia_kg_m2, model.radius_m
    if spin > 0.0:
        mass = min(2.0 * spin / radius**2, HEAVIEST_SHARE * whole)
    else:
        mass = LIGHTEST_SHARE * whole
        spin = 0.5 * mass * radius**2
    return inertial(mass, (0.0, 0.0, 0.0), (0.5 * spin, 0.5 * spin, spin))


def body_without_rotors(robot: Quadrotor) -> Inertial:
    """Return the body without the rotors' links; together they have exactly the file's mass and inertia.

    Raises:
        UserError: No such body exists: the rotors are too heavy for the file's inertia.
    """
    whole = inertial(robot.body.mass_kg, (0.0, 0.0, 0.0), robot.body.inertia_kg_m2)
    rotor = rotor_inertial(robot)
    left = without(whole, [moved(rotor, np.eye(3), np.array(r.position_m)) for r in robot.rotors])
    if not is_physical(left.inertia_kg_m2):
        raise UserError(
            f"{robot.name}: with rotors of {rotor.mass_kg:.3g} kg and {rotor.inertia_kg_m2[2, 2]:.3g} kg m^2 taken out"
            f" of inertia_kg_m2 {list(robot.body.inertia_kg_m2)}, the remaining body is physically impossible: lower"
            " spin_inertia_kg_m2, or fix the rotors (--rotors fixed)."
        )
    return left


def quadrotor_urdf(robot: Quadrotor, options: UrdfOptions) -> ET.Element:
    """Return the robot's URDF; see :func:`rlstack.robots.urdf.to_urdf`."""
    root, prefix, rotors = robot_element(robot), options.prefix, options.rotors
    turning, top_rad_s = rotors == "continuous", robot.rotor_model.speed_max_rad_s
    top_n = float(robot.rotor_model.thrust(np.array(top_rad_s)))
    whole = inertial(robot.body.mass_kg, (0.0, 0.0, 0.0), robot.body.inertia_kg_m2)
    body = add_link(root, prefix + BODY, body_without_rotors(robot) if turning else whole)
    _add_body(body, robot)
    for rotor in robot.rotors:
        if rotors == "none":
            _add_propeller(body, robot, rotor, rotor.position_m)
            continue
        name = prefix + link_of(rotor.name)
        link = add_link(root, name, rotor_inertial(robot) if turning else None)
        _add_propeller(link, robot, rotor, (0.0, 0.0, 0.0))
        # It spins against its reaction torque on the body: about -z where the body's torque is about +z.
        axis = (0.0, 0.0, -float(rotor.yaw_torque_sign))
        limit = {"velocity": top_rad_s, "effort": top_n * robot.rotor_model.torque_per_thrust_m}
        add_joint(
            root,
            prefix + rotor.name,
            "continuous" if turning else "fixed",
            prefix + BODY,
            name,
            xyz=rotor.position_m,
            axis=axis if turning else None,
            limit=limit if turning else None,
        )
    return root


def _add_body(link: ET.Element, robot: Quadrotor) -> None:
    reach = float(np.linalg.norm(robot.rotor_positions, axis=1).max()) + robot.rotor_model.radius_m
    add_shape(link, "visual", "box", size=(0.52 * reach, 0.4 * reach, 0.16 * reach), material="dark")
    nose = (0.4 * reach, 0.0, 0.12 * reach)
    add_shape(link, "visual", "box", size=(0.44 * reach, 0.06 * reach, 0.06 * reach), xyz=nose, material="front")
    for rotor in robot.rotors:
        middle, rpy, length = rod(np.zeros(3), np.array(rotor.position_m))
        add_shape(link, "visual", "cylinder", xyz=middle, rpy=rpy, radius=0.05 * reach, length=length, material="dark")
    radius, height = robot.body.collision_radius_m, robot.body.collision_height_m
    add_shape(link, "collision", "cylinder", radius=radius, length=height)


def _add_propeller(link: ET.Element, robot: Quadrotor, rotor: Rotor, at: tuple[float, float, float]) -> None:
    radius, (x, y, z) = robot.rotor_model.radius_m, at
    lift, colour = 0.25 * radius, "front" if rotor.position_m[0] > 0.0 else "rear"
    up = (x, y, z + lift)
    add_shape(link, "visual", "cylinder", xyz=at, radius=0.16 * radius, length=2.0 * lift, material="light")
    add_shape(link, "visual", "cylinder", xyz=up, radius=radius, length=0.04 * radius, material=f"{colour}_disc")
    # A blade, so that its rotation is visible.
    add_shape(link, "visual", "box", xyz=up, size=(1.9 * radius, 0.2 * radius, 0.06 * radius), material=colour)
