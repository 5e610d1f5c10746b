"""Rotor drag: the drag of spinning propellers, which grows with their speed.

Sources: Foerster, "System Identification of the Crazyflie 2.0 Nano Quadrocopter", ETH Zurich, 2015, which fits

    F = -K (sum of rotor speeds) v

in the body frame, with K = diag(k_x, k_y, k_z) in kg (N per m/s and rad/s) and the velocity v of the body relative to
the air; the same form is in PX4's Gazebo motor model. Faessler, Franchi and Scaramuzza, "Differential Flatness of
Quadrotor Dynamics Subject to Rotor Drag", RA-L 2018, eq. 2, linearise it at hover speed: F = -D v, which is the robot
file's ``linear_drag_n_s_per_m``. A robot with rotor drag on has no linear drag besides.

Valid to some 10 m/s on small quadrotors; beyond that the body's drag, which grows with the square, is missing.
"""

from __future__ import annotations

from typing import Any

from rlstack.sim.physics.body import Vector


def drag_per_velocity(coefficient: Vector, speed: Vector) -> Any:
    """Return the drag per m/s of air velocity along the body's axes, N s/m.

    Args:
        coefficient: (3,) k_x, k_y, k_z, kg.
        speed: (rotors,) rad/s.
    """
    return coefficient * speed.sum(axis=0)
