"""Whether a URDF or MJCF says the same of a robot as its robot file; asked before any engine starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots.inertia import Inertial, inertial, moved, together
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.model import MOVING, Model, ModelJoint, read_model
from rlstack.robots.spec import RobotSpec

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a model may be from the robot file. A manipulator's mass has its own in its file."""

    mass: float = 0.01
    """Share of the file's mass."""
    inertia: float = 0.05
    """Share of the file's largest moment of inertia."""
    length_m: float = 0.002
    """Of the centre of mass, rotors and wheels."""
    angle_rad: float = 0.01
    """Of axes, and of limits where the file's reach beyond the model's."""


def checked_model(robot: RobotSpec) -> Model | None:
    """Check the model that a robot file names, and return it; None for robots whose models are generated.

    Raises:
        UserError: The model is missing, malformed or disagrees with the file.
    """
    if not isinstance(robot, Manipulator):
        return None
    from rlstack.robots.urdf.description import model_of  # which the URDFs that are checked here are made of

    model = model_of(robot)
    check_model(robot, model)
    return model


def check_file(robot: RobotSpec, path: str | Path, tolerance: Tolerance | None = None) -> Model:
    """Read a URDF or MJCF, check it against a robot file, and return it.

    Raises:
        UserError: It is missing, malformed or disagrees with the file: named are the part, both numbers, the tolerance.
    """
    model = read_model(path)
    check_model(robot, model, tolerance)
    return model


def check_model(robot: RobotSpec, model: Model, tolerance: Tolerance | None = None) -> None:
    """Refuse a model that disagrees with the robot file.

    Compared are mass; for quadrotors and bases also the centre of mass and inertia with all joints at zero, and where
    rotors and wheels are; joints by name, type, order and axis. A file's limits may be tighter than the model's, not
    wider. Where the model has a link ``base_link`` it is compared in that frame, else in its root's.

    Raises:
        UserError: Named are the model, the part, both numbers and the tolerance.
    """
    tolerance = tolerance or Tolerance()
    expected = mass_properties(robot)
    mass_share = robot.mass_tolerance if isinstance(robot, Manipulator) else tolerance.mass
    _check_joints(robot, model, tolerance)
    _refuse_unless(
        abs(model.inertial.mass_kg - expected.mass_kg) <= mass_share * expected.mass_kg,
        model,
        robot,
        f"its mass is {model.inertial.mass_kg:.6g} kg, and the robot file's {expected.mass_kg:.6g} kg",
        f"{100.0 * mass_share:g} % is allowed",
    )
    if isinstance(robot, Manipulator):
        if robot.tool_link not in model.links:
            raise UserError(f"{model.where} has no link '{robot.tool_link}', which is the tool_link of {robot.name}.")
        return
    found = model.seen_from("base_link").inertial
    off = float(np.linalg.norm(found.centre_m - expected.centre_m))
    _refuse_unless(
        off <= tolerance.length_m,
        model,
        robot,
        f"its centre of mass is at {_show(found.centre_m)} m, and the robot file's at {_show(expected.centre_m)} m",
        f"{1000.0 * tolerance.length_m:g} mm is allowed",
    )
    scale = float(np.abs(expected.inertia_kg_m2).max())
    _refuse_unless(
        float(np.abs(found.inertia_kg_m2 - expected.inertia_kg_m2).max()) <= tolerance.inertia * scale,
        model,
        robot,
        f"its inertia (ixx iyy izz ixy ixz iyz) is {_show(_six(found))} kg m^2, and the robot file's"
        f" {_show(_six(expected))} kg m^2",
        f"{100.0 * tolerance.inertia:g} % of the largest is allowed",
    )


def mass_properties(robot: RobotSpec) -> Inertial:
    """Return what the robot file says of mass, centre and inertia in ``base_link``, all joints at zero.

    Of a manipulator it says the mass alone: the rest is zero.

    Raises:
        UserError: There is no telling for such a robot.
    """
    if isinstance(robot, Quadrotor):
        return inertial(robot.body.mass_kg, (0.0, 0.0, 0.0), robot.body.inertia_kg_m2)
    if isinstance(robot, WheeledBase):
        pieces = [robot.chassis_inertial()]
        for wheel in robot.wheels:
            at = np.array(wheel.position_m)
            pieces.append(moved(robot.wheel_inertial(wheel), np.eye(3), at))
            if wheel.steering:
                pieces.append(moved(robot.knuckle_inertial(), np.eye(3), at))
        return together(pieces)
    if isinstance(robot, Manipulator):
        return inertial(robot.mass_kg, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    raise UserError(f"{robot.name} is a {robot.kind}: there is no model of it to compare with.")


def _check_joints(robot: RobotSpec, model: Model, tolerance: Tolerance) -> None:
    seen = model.seen_from("base_link")
    there = {joint.name: joint for joint in seen.joints if joint.type in (*MOVING, "fixed")}
    if isinstance(robot, Quadrotor) and seen.sites and not seen.moving:
        _check_sites(robot, seen, tolerance)
        return
    expected = robot.rotor_names if isinstance(robot, Quadrotor) else tuple(joint.name for joint in robot.drives)
    for name in expected:
        if name not in there:
            raise UserError(
                f"{model.where} has no joint '{name}', which the robot file of {robot.name} names; it has:"
                f" {', '.join(there) or 'none'}."
            )
    if extra := [joint.name for joint in model.moving if joint.name not in expected]:
        raise UserError(
            f"{model.where} has a joint '{extra[0]}' that moves, and the robot file of {robot.name} does not name it:"
            " name it there, or make it fixed in the model."
        )
    order = [name for name in there if name in expected]
    if order != list(expected):
        raise UserError(
            f"{model.where} has the joints in the order {', '.join(order)}, and the robot file of {robot.name}"
            f" in the order {', '.join(expected)}: they must be the same."
        )
    if isinstance(robot, Quadrotor):
        for rotor in robot.rotors:
            place = there[rotor.name].position
            _check_place(robot, model, f"joint '{rotor.name}'", place, rotor.position_m, tolerance)
        return
    for joint in robot.drives:
        _check_limits(robot, model, joint, there[joint.name], tolerance)
    if isinstance(robot, WheeledBase):
        for wheel in robot.wheels:
            place = there[wheel.name].position
            _check_place(robot, model, f"joint '{wheel.name}'", place, wheel.position_m, tolerance)
            _check_axis(robot, model, there[wheel.name], np.array([0.0, 1.0, 0.0]), tolerance)
            if wheel.steering:
                _check_axis(robot, model, there[wheel.steering], np.array([0.0, 0.0, 1.0]), tolerance)


def _check_sites(robot: Quadrotor, model: Model, tolerance: Tolerance) -> None:
    """Look for rotors among an MJCF's sites, as it needs no joints for them."""
    for rotor in robot.rotors:
        if rotor.name not in model.sites:
            raise UserError(
                f"{model.where} has no joint or site '{rotor.name}', which the robot file of {robot.name} names; it"
                f" has: {', '.join(filter(None, model.sites))}."
            )
        _check_place(robot, model, f"site '{rotor.name}'", model.sites[rotor.name], rotor.position_m, tolerance)


def _check_place(
    robot: RobotSpec, model: Model, what: str, place: Array, expected: Iterable[float], tolerance: Tolerance
) -> None:
    _refuse_unless(
        float(np.linalg.norm(place - np.array(tuple(expected)))) <= tolerance.length_m,
        model,
        robot,
        f"its {what} is at {_show(place)} m, and the robot file's at {_show(expected)} m",
        f"{1000.0 * tolerance.length_m:g} mm is allowed",
    )


def _check_axis(robot: RobotSpec, model: Model, joint: ModelJoint, expected: Array, tolerance: Tolerance) -> None:
    angle = math.acos(float(np.clip(joint.axis @ expected, -1.0, 1.0)))
    _refuse_unless(
        angle <= tolerance.angle_rad,
        model,
        robot,
        f"its joint '{joint.name}' turns about {_show(joint.axis)}, and the robot file's about {_show(expected)}",
        f"{tolerance.angle_rad:g} rad is allowed",
    )


def _check_limits(robot: RobotSpec, model: Model, own: DrivenJoint, its: ModelJoint, tolerance: Tolerance) -> None:
    turns, slides = ("revolute", "continuous"), ("prismatic",)
    if its.type not in (slides if own.type == "prismatic" else turns):
        raise UserError(
            f"{model.where}: its joint '{own.name}' is {its.type}, and that of the robot file of {robot.name} is"
            f" {own.type}."
        )
    slack = tolerance.length_m if own.type == "prismatic" else tolerance.angle_rad
    limits = (
        ("lower limit", own.lower, its.lower, own.lower >= its.lower - slack),
        ("upper limit", own.upper, its.upper, own.upper <= its.upper + slack),
        ("velocity limit", own.velocity_max, its.velocity, own.velocity_max <= its.velocity * (1.0 + 1e-6)),
        ("effort limit", own.effort_max, its.effort, own.effort_max <= its.effort * (1.0 + 1e-6)),
    )
    for what, wanted, allowed, within in limits:
        unit = f"{slack:g} is allowed" if "er limit" in what else "nothing is allowed"
        _refuse_unless(
            within,
            model,
            robot,
            f"the {what} of its joint '{own.name}' is {allowed:g}, and the robot file's goes beyond it: {wanted:g}",
            unit,
        )


def _refuse_unless(fine: bool, model: Model, robot: RobotSpec, what: str, allowed: str) -> None:
    if not fine:
        raise UserError(f"{model.where} is not the {robot.name} of its robot file: {what} ({allowed}).")


def _six(piece: Inertial) -> list[float]:
    j = piece.inertia_kg_m2
    return [float(j[at]) for at in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]


def _show(values: Iterable[float]) -> str:
    return f"({', '.join(f'{x:.5g}' for x in values)})"
