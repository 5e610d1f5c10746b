"""From wanted thrust and torque to rotor thrusts by the geometry, keeping what matters most when rotors saturate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor

Wrench = tuple[float, float, float, float]
"""Collective thrust along body z in N, then torque about body x, y, z in N m."""


class Mixer:
    """The robot's allocation, inverted once.

    When the rotors cannot give all that is asked, roll and pitch torque come first, then thrust, then yaw torque:
    a quadrotor that keeps its thrust direction can be caught, one that keeps its height or heading cannot.

    Args:
        robot: A robot with 4 rotors.

    Raises:
        UserError: The rotors' positions and directions cannot turn the body about every axis.
    """

    def __init__(self, robot: Quadrotor) -> None:
        self.allocation = allocation(robot)
        """(4, 4): wrench = allocation @ rotor thrusts."""
        row_sizes = np.abs(self.allocation).max(axis=1, keepdims=True)
        if np.any(row_sizes == 0.0) or np.linalg.cond(self.allocation / row_sizes) > 1e6:
            raise UserError(
                f"Robot '{robot.name}': its rotors cannot give thrust, roll, pitch and yaw independently; check"
                " position_m, yaw_torque_sign and torque_per_thrust_m in the robot file."
            )
        inverse = np.linalg.inv(self.allocation)
        self._forward = self.allocation.tolist()
        self._lift, self._roll, self._pitch, self._yaw = inverse.T.tolist()
        if min(self._lift) <= 0.0:
            raise UserError(
                f"Robot '{robot.name}': hovering would need a rotor that pushes down; check position_m in the robot"
                " file: the rotors must surround the centre of mass."
            )

    def wrench(self, thrusts: Sequence[float]) -> Wrench:
        """Return the wrench of rotor thrusts (4,) in N."""
        a, b, c, d = thrusts
        t, x, y, z = [r[0] * a + r[1] * b + r[2] * c + r[3] * d for r in self._forward]
        return t, x, y, z

    def mix(self, wanted: Wrench, now: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[float]:
        """Return rotor thrusts (4,) in N, inside the bounds and as near to the wanted wrench as the priorities allow.

        Args:
            wanted: The wrench.
            now: (4,) N, the present thrusts, inside the bounds; where the answer starts from when it must fall short.
            low: (4,) N, least thrust that each rotor can reach in time.
            high: (4,) N, largest.
        """
        dt, dx, dy, dz = [w - p for w, p in zip(wanted, self.wrench(now))]
        turn = [dx * r + dy * p for r, p in zip(self._roll, self._pitch)]
        # Every rotor allows a range of common lift per unit; the roll and pitch change shrinks until the ranges meet.
        # Without any change they meet at zero lift, because the present thrusts are inside the bounds.
        room = [((lo - n) / a, (hi - n) / a, t / a) for lo, hi, n, a, t in zip(low, high, now, self._lift, turn)]
        share = 1.0
        least, most = max([lo - t for lo, _, t in room]), min([hi - t for _, hi, t in room])
        if least > most:
            for floor_i, _, turn_i in room:
                for _, ceiling_j, turn_j in room:
                    spread = turn_j - turn_i
                    if share * spread > ceiling_j - floor_i:
                        share = max(0.0, (ceiling_j - floor_i) / spread)
            least, most = max([lo - share * t for lo, _, t in room]), min([hi - share * t for _, hi, t in room])
        lift = min(max(dt, least), most)
        thrusts = [n + share * t + lift * a for n, t, a in zip(now, turn, self._lift)]
        share = 1.0
        for f, lo, hi, yaw in zip(thrusts, low, high, self._yaw):
            step = dz * yaw
            if step > 0.0:
                share = min(share, (hi - f) / step)
            elif step < 0.0:
                share = min(share, (lo - f) / step)
        share = max(0.0, share)
        return [min(max(f + share * dz * y, lo), hi) for f, y, lo, hi in zip(thrusts, self._yaw, low, high)]


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
