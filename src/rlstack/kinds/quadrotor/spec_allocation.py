"""Control allocation of a quadrotor: the matrices between rotor thrusts and the wrench on the body."""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor


def allocation(robot: Quadrotor) -> Array:
    """Return the matrix (4, rotors) from rotor thrusts in N to (thrust N, torque x, y, z N m) in ``base_link``."""
    positions = robot.rotor_positions
    return np.stack(
        (
            np.ones(len(positions)),
            positions[:, 1],
            -positions[:, 0],
            robot.yaw_torque_signs * robot.rotor_model.torque_per_thrust_m,
        )
    )


def inverse_allocation(robot: Quadrotor) -> Array:
    """Return the matrix (rotors, 4) from (thrust N, torque x, y, z N m) to rotor thrusts in N.

    Raises:
        UserError: The rotors' positions and directions cannot turn the body about every axis, or hovering would need
            a rotor that pushes down.
    """
    matrix = allocation(robot)
    row_sizes = np.abs(matrix).max(axis=1, keepdims=True)
    if np.any(row_sizes == 0.0) or np.linalg.cond(matrix / row_sizes) > 1e6:
        raise UserError(
            f"Robot '{robot.name}': its rotors cannot give thrust, roll, pitch and yaw independently; check"
            " position_m, yaw_torque_sign and torque_per_thrust_m in the robot file."
        )
    inverse: Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    if inverse[:, 0].min() <= 0.0:
        raise UserError(
            f"Robot '{robot.name}': hovering would need a rotor that pushes down; check position_m in the robot"
            " file: the rotors must surround the centre of mass."
        )
    return inverse
