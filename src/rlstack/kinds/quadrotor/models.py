"""Quadrotors' models, generated from the robot file: one body, and rotors that engines may show or spin."""

from __future__ import annotations

from typing import Any

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.mjcf import add_quadrotor
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.urdf import quadrotor_urdf
from rlstack.robots.inertia import Inertial, inertial
from rlstack.robots.kind_models import KindModels
from rlstack.robots.model_check import ModelCheck


class QuadrotorModels(KindModels[Quadrotor]):
    """See :class:`rlstack.robots.kind_models.KindModels`."""

    add_to_mujoco = staticmethod(add_quadrotor)
    urdf = staticmethod(quadrotor_urdf)

    def rest_height(self, robot: Quadrotor) -> float:
        """Return half the height of the collision shape, m."""
        return robot.body.collision_height_m / 2.0

    def inertial(self, robot: Quadrotor) -> Inertial:
        """Return the body's mass properties."""
        return inertial(robot.body.mass_kg, (0.0, 0.0, 0.0), robot.body.inertia_kg_m2)

    def check_joints(self, compare: ModelCheck) -> None:
        """Compare rotors by name and position; an MJCF may have sites in place of their joints."""
        robot: Any = compare.robot
        model, rotors = compare.model, {rotor.name: rotor.position_m for rotor in robot.rotors}
        if model.sites and not model.moving:
            for name, place in rotors.items():
                if name not in model.sites:
                    raise UserError(
                        f"{model.where} has no joint or site '{name}', which the robot file of {robot.name} names; it"
                        f" has: {', '.join(filter(None, model.sites))}."
                    )
                compare.place(f"site '{name}'", model.sites[name], place)
        else:
            compare.joint_names(list(rotors))
            for name, place in rotors.items():
                compare.place(f"joint '{name}'", compare.joints[name].position, place)

    def table(self, robot: Quadrotor) -> list[tuple[str, ...]]:
        """Return the rotors."""
        head = ("rotor", "x m", "y m", "z m", "turns, from above", "most rad/s")
        top = f"{robot.rotor_model.speed_max_rad_s:g}"
        turns = {1: "clockwise", -1: "counter-clockwise"}
        rows = [
            (rotor.name, *(f"{x:g}" for x in rotor.position_m), turns[rotor.yaw_torque_sign], top)
            for rotor in robot.rotors
        ]
        return [head, *rows]


MODELS = QuadrotorModels()
