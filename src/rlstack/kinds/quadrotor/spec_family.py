"""Parameters that describe a quadrotor within a family: those that a policy for many vehicles was trained over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError

Quadrotor: TypeAlias = Any
""":class:`rlstack.kinds.quadrotor.spec.Quadrotor`, whose module imports this one."""

PARAMETERS: dict[str, str] = {
    "mass_kg": "mass",
    "arm_length_m": "distance of the farthest rotor from the centre of mass, seen from above",
    "thrust_to_weight": "largest collective thrust over weight",
    "torque_to_inertia_rad_s2": "the lesser of the two below",
    "roll_torque_to_inertia_rad_s2": "one rotor's largest thrust at the arm, over the inertia about x",
    "pitch_torque_to_inertia_rad_s2": "one rotor's largest thrust at the arm, over the inertia about y",
    "torque_per_thrust_m": "reaction torque of a rotor over its thrust",
    "rise_time_constant_s": "lag of a motor that speeds up",
    "fall_time_constant_s": "lag of a motor that slows down",
    "rotor_width_to_length": "mean distance of the rotors to the side over that to the front; 1 is a square",
    "rotor_unevenness": "farthest that a rotor is from the mean rectangle's corner, over the arm length",
}
"""Every parameter of a vehicle by name, with its meaning; the unit is in the name."""


def family_parameters(robot: Quadrotor) -> dict[str, float]:
    """Return the value of each of :data:`PARAMETERS` for one vehicle.

    Torque to inertia follows RAPTOR (Eschmann et al., arXiv 2509.11481, and its published sampler): the arm of a square
    frame (the square root of 2 times the rotors' distance from an axis) times the largest thrust of one rotor, over the
    inertia about that axis. The largest torque of all four rotors is the square root of 2 times that.
    """
    model, body = robot.rotor_model, robot.body
    top_n = float(model.thrust(np.array(model.speed_max_rad_s)))
    place = robot.rotor_positions[:, :2]
    length, width = np.abs(place).mean(axis=0)
    arm = float(np.linalg.norm(place, axis=1).max())
    corner = np.sign(place) * np.array([length, width])
    roll = math.sqrt(2.0) * float(width) * top_n / body.inertia_kg_m2[0]
    pitch = math.sqrt(2.0) * float(length) * top_n / body.inertia_kg_m2[1]
    return {
        "mass_kg": body.mass_kg,
        "arm_length_m": arm,
        "thrust_to_weight": robot.thrust_to_weight,
        "torque_to_inertia_rad_s2": min(roll, pitch),
        "roll_torque_to_inertia_rad_s2": roll,
        "pitch_torque_to_inertia_rad_s2": pitch,
        "torque_per_thrust_m": model.torque_per_thrust_m,
        "rise_time_constant_s": model.rise_time_constant_s,
        "fall_time_constant_s": model.fall_time_constant_s,
        "rotor_width_to_length": float(width / length) if length > 0.0 else math.inf,
        "rotor_unevenness": float(np.linalg.norm(place - corner, axis=1).max()) / arm if arm > 0.0 else math.inf,
    }


class QuadrotorFamily:
    """See :class:`rlstack.robots.spec.RobotFamily`."""

    parameters: Mapping[str, str] = PARAMETERS
    sizes: Mapping[str, int] = {"rotors": 4}
    layout_input = "rotor_position"
    parameters_of = staticmethod(family_parameters)

    def inputs(self, robot: Quadrotor) -> dict[str, NDArray[np.float64]]:
        """Return positions, spin directions, speeds and thrust curve of the rotors."""
        model = robot.rotor_model
        return {
            "rotor_position": robot.rotor_positions,
            "rotor_yaw_sign": robot.yaw_torque_signs,
            "rotor_speed_min": np.array([model.speed_min_rad_s]),
            "rotor_speed_max": np.array([model.speed_max_rad_s]),
            "rotor_thrust_coefficients": np.array(model.thrust_coefficients),
        }

    def check_layout(self, robot: Quadrotor, where: str) -> None:
        """Refuse a robot without one rotor in each quadrant, neighbours turning in opposite directions.

        Raises:
            UserError: The robot has another layout; ``where`` names the policy.
        """
        quadrants = {}
        for rotor in robot.rotors:
            x, y, _ = rotor.position_m
            if x != 0.0 and y != 0.0:
                quadrants[x > 0.0, y > 0.0] = rotor.yaw_torque_sign
        if len(quadrants) != len(robot.rotors):
            raise UserError(
                f"{where} is a policy for quadrotors with one rotor in each quadrant (front right, back right, back"
                f" left, front left), which {robot.name} is not. Train a policy for {robot.name} alone."
            )
        if any(sign != quadrants[not front, not left] for (front, left), sign in quadrants.items()):
            raise UserError(
                f"{where} is a policy for quadrotors whose neighbouring rotors turn in opposite directions, which"
                f" {robot.name} is not. Train a policy for {robot.name} alone."
            )
