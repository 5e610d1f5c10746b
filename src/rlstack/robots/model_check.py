"""Comparison of a URDF or MJCF with a robot file, part by part, before any engine starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.inertia import Inertial
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.model import MOVING, Model, ModelJoint
from rlstack.robots.spec import RobotSpec


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a model may be from the robot file; a manipulator's file has its own tolerance of mass."""

    mass: float = 0.01
    """Share of the file's mass."""
    inertia: float = 0.05
    """Share of the file's largest moment of inertia."""
    length_m: float = 0.002
    """Of the centre of mass, rotors and wheels."""
    angle_rad: float = 0.01
    """Of axes, and of limits where the file's exceed the model's."""


class ModelCheck:
    """Comparison of one model with one robot; each method compares a part, and refuses one that disagrees.

    Args:
        robot: The robot, from its file.
        model: The model, in the frame of its link ``base_link`` if it has one, otherwise of its root.
        tolerance: The allowed differences.
    """

    def __init__(self, robot: RobotSpec, model: Model, tolerance: Tolerance) -> None:
        self.robot, self.tolerance = robot, tolerance
        self.model = model.seen_from("base_link")
        self.joints: dict[str, ModelJoint] = {
            joint.name: joint for joint in self.model.joints if joint.type in (*MOVING, "fixed")
        }
        """By name, in the model's order."""

    def joint_names(self, expected: Sequence[str]) -> None:
        """Compare names and order of the moving joints; raise ``UserError`` if they differ."""
        where, name_of = self.model.where, self.robot.name
        for name in expected:
            if name not in self.joints:
                raise UserError(
                    f"{where} has no joint '{name}', which the robot file of {name_of} names; it has:"
                    f" {', '.join(self.joints) or 'none'}."
                )
        if extra := [joint.name for joint in self.model.moving if joint.name not in expected]:
            raise UserError(
                f"{where} has a joint '{extra[0]}' that moves, and the robot file of {name_of} does not name it:"
                " name it there, or make it fixed in the model."
            )
        order = [name for name in self.joints if name in expected]
        if order != list(expected):
            raise UserError(
                f"{where} has the joints in the order {', '.join(order)}, and the robot file of {name_of}"
                f" in the order {', '.join(expected)}: they must be the same."
            )

    def joint_limits(self) -> None:
        """Compare types and limits; raise ``UserError`` if a type differs or the file's limit exceeds the model's."""
        for joint in self.robot.drives:
            self._joint_limits(joint, self.joints[joint.name])

    def _joint_limits(self, own: DrivenJoint, its: ModelJoint) -> None:
        turns, slides = ("revolute", "continuous"), ("prismatic",)
        if its.type not in (slides if own.type == "prismatic" else turns):
            raise UserError(
                f"{self.model.where}: its joint '{own.name}' is {its.type}, and that of the robot file of"
                f" {self.robot.name} is {own.type}."
            )
        slack = self.tolerance.length_m if own.type == "prismatic" else self.tolerance.angle_rad
        limits = (
            ("lower limit", own.lower, its.lower, own.lower >= its.lower - slack),
            ("upper limit", own.upper, its.upper, own.upper <= its.upper + slack),
            ("velocity limit", own.velocity_max, its.velocity, own.velocity_max <= its.velocity * (1.0 + 1e-6)),
            ("effort limit", own.effort_max, its.effort, own.effort_max <= its.effort * (1.0 + 1e-6)),
        )
        for what, wanted, allowed, within in limits:
            self.require(
                within,
                f"the {what} of its joint '{own.name}' is {allowed:g}, and the robot file's exceeds it: {wanted:g}",
                f"{slack:g} is allowed" if "er limit" in what else "nothing is allowed",
            )

    def place(self, what: str, place: Array, expected: Iterable[float]) -> None:
        """Compare the position (3,), m, of ``what``."""
        self.require(
            float(np.linalg.norm(place - np.array(tuple(expected)))) <= self.tolerance.length_m,
            f"its {what} is at {_show(place)} m, and the robot file's at {_show(expected)} m",
            f"{1000.0 * self.tolerance.length_m:g} mm is allowed",
        )

    def axis(self, name: str, expected: Iterable[float]) -> None:
        """Compare the axis (3,) of a joint."""
        axis, wanted = self.joints[name].axis, np.array(tuple(expected))
        self.require(
            math.acos(float(np.clip(axis @ wanted, -1.0, 1.0))) <= self.tolerance.angle_rad,
            f"its joint '{name}' turns about {_show(axis)}, and the robot file's about {_show(wanted)}",
            f"{self.tolerance.angle_rad:g} rad is allowed",
        )

    def mass(self, expected_kg: float, share: float | None = None) -> None:
        """Compare the total mass; ``share`` of it replaces the usual tolerance."""
        share, mass_kg = self.tolerance.mass if share is None else share, self.model.inertial.mass_kg
        self.require(
            abs(mass_kg - expected_kg) <= share * expected_kg,
            f"its mass is {mass_kg:.6g} kg, and the robot file's {expected_kg:.6g} kg",
            f"{100.0 * share:g} % is allowed",
        )

    def inertia(self, expected: Inertial) -> None:
        """Compare centre of mass and inertia."""
        found = self.model.inertial
        self.place("centre of mass", found.centre_m, expected.centre_m)
        scale = float(np.abs(expected.inertia_kg_m2).max())
        off = float(np.abs(found.inertia_kg_m2 - expected.inertia_kg_m2).max())
        self.require(
            off <= self.tolerance.inertia * scale,
            f"its inertia (ixx iyy izz ixy ixz iyz) is {_show(_six(found))} kg m^2, and the robot file's"
            f" {_show(_six(expected))} kg m^2",
            f"{100.0 * self.tolerance.inertia:g} % of the largest is allowed",
        )

    def require(self, agrees: bool, what: str, allowed: str) -> None:
        """Refuse the model unless it agrees.

        Args:
            agrees: Whether it does.
            what: The part, and both values.
            allowed: The tolerance.

        Raises:
            UserError: It does not.
        """
        if not agrees:
            raise UserError(f"{self.model.where} is not the {self.robot.name} of its robot file: {what} ({allowed}).")


def joint_table(drives: Iterable[DrivenJoint]) -> list[tuple[str, ...]]:
    """Return joints as rows of a table, the first with its titles."""
    titles = ("joint", "type", "driven by", "from", "to", "most speed", "most effort", "stiffness", "damping", "rest")
    rows: list[tuple[str, ...]] = [
        (
            joint.name,
            joint.type,
            joint.mode,
            *(f"{x:g}" if math.isfinite(x) else "-" for x in (joint.lower, joint.upper)),
            *(f"{x:g}" for x in (joint.velocity_max, joint.effort_max, joint.stiffness, joint.damping, joint.rest)),
        )
        for joint in drives
    ]
    return [titles, *rows]


def _six(piece: Inertial) -> list[float]:
    j = piece.inertia_kg_m2
    return [float(j[at]) for at in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]


def _show(values: Iterable[float]) -> str:
    return f"({', '.join(f'{x:.5g}' for x in values)})"
