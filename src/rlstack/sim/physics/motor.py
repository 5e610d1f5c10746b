"""Motor lag and rotor thrust, in numpy style for :mod:`rlstack.fused`.

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
