"""Rotors: motor lag, thrust, ground effect and rotor drag, in numpy style for :mod:`rlstack.fused`.

The speed w of a rotor follows its command u with a first-order lag, w' = (u - w) / T, with one T for speeding up and
another for slowing down: the model of the sources of the robot files (Learning to Fly in Seconds, arXiv 2311.13081,
eq. 3; Flightmare, PX4's Gazebo plugin). Over a constant command it is solved exactly. The thrust is a parabola of the
speed (same sources; Foerster, ETH Zurich 2015, section 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.fused import greater, maximum, where
from rlstack.sim.physics.body import Vector

LEAST_HEIGHT = 0.5
"""Height in rotor radii below which the gain of the ground effect is constant."""


def decay(time_constants: Vector, duration: Any) -> Vector:
    """Return the remaining share of a speed difference after ``duration`` s, for rise and fall."""
    return np.exp(-duration / time_constants)


def lagged(speed: Vector, command: Vector, keep: Vector) -> Vector:
    """Return rotor speeds under a constant command, when the share ``keep`` (rise, fall) of the difference remains."""
    return command + (speed - command) * where(greater(command, speed), keep[0], keep[1])


def change(speed: Vector, command: Vector, time_constants: Vector) -> Vector:
    """Return the rotors' accelerations, rad/s^2."""
    return (command - speed) / where(greater(command, speed), time_constants[0], time_constants[1])


def thrust(speed: Vector, coefficients: Vector, scale: Vector, idle: bool = True) -> Vector:
    """Return the thrust of each rotor in free air, N.

    Args:
        speed: (rotors,) rad/s.
        coefficients: c0, c1, c2 of c0 + c1 w + c2 w^2.
        scale: (rotors,) factor of the file's thrust.
        idle: Whether rotors may turn slower than the file's least speed, where a negative fit is clipped to 0.
    """
    c0, c1, c2 = coefficients
    fit = c0 + speed * (c1 + speed * c2)
    return scale * (maximum(fit, 0.0) if idle else fit)


def ground_effect(height: Any, radius: Any, coefficient: Any, upright: Any = True) -> Any:
    """Return the factor of a rotor's thrust near the floor, which blocks its wake.

    Source: Cheeseman and Bennett, "The Effect of the Ground on a Helicopter Rotor in Forward Flight", Aeronautical
    Research Council R&M 3021, 1955, eq. 1 in hover, from an image source below the floor:

        T / T_far = 1 / (1 - c (r / 4z)^2)

    with the rotor's radius r and its height z above the floor. c is 1 there; fits for quadrotors are higher, since four
    wakes meet below the body: Sanchez-Cuevas, Heredia and Ollero, "Characterization of the Aerodynamic Ground Effect
    and Its Influence in Multirotor Control", Int. J. of Aerospace Engineering 2017.

    Valid for z above half the radius; below that the gain is constant (1.33 for c = 1). Valid in hover and slow flight:
    the fading at speeds above about twice the induced velocity is omitted.

    Args:
        height: Height of the rotor above the floor, m.
        radius: Radius of the rotor, m.
        coefficient: c, below 4; 0: no ground effect.
        upright: Whether the rotor blows downwards; otherwise there is no ground effect.
    """
    ratio = radius / (4.0 * maximum(height, LEAST_HEIGHT * radius))
    return where(upright, 1.0 / (1.0 - coefficient * ratio * ratio), 1.0)


def rotor_drag(coefficient: Vector, speed: Vector) -> Any:
    """Return the drag of spinning propellers per m/s of air velocity along the body's axes, N s/m.

    Sources: Foerster, "System Identification of the Crazyflie 2.0 Nano Quadrocopter", ETH Zurich, 2015, which fits

        F = -K (sum of rotor speeds) v

    in the body frame, with the velocity v of the body relative to the air; the same form is in PX4's Gazebo motor
    model. Faessler, Franchi and Scaramuzza, "Differential Flatness of Quadrotor Dynamics Subject to Rotor Drag", RA-L
    2018, eq. 2, linearise it at hover speed: F = -D v, which is the robot file's ``linear_drag_n_s_per_m``. A robot
    with rotor drag on has no linear drag besides.

    Valid to some 10 m/s on small quadrotors; beyond that the body's drag, which grows with the square, is missing.

    Args:
        coefficient: (3,) diagonal of K, kg (N per m/s and rad/s).
        speed: (rotors,) rad/s.
    """
    return coefficient * speed.sum(axis=0)
