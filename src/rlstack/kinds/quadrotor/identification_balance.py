"""What a hover tells of single rotors: thrust, centre of mass and balance, read as one rotor's thrust.

In a hover four numbers are told, as many as a wrench has: thrust over mass, the centre of mass along x and y, and the
balance of the rotors that turn the body to the left and to the right. A load shifts the first three of them; a weak
motor all four, each as far as the others. So the balance tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.identification.motion_model import Estimate
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import inverse_allocation

LEAST_BALANCE = 0.01
"""Least balance that counts: that of a motor 4% weaker than the others, or of one rotor's drag that differs by 4%."""

_ALIKE = 0.03
"""Largest difference among the rotors that count as equal."""


@dataclass(frozen=True)
class OddRotor:
    """A rotor that differs from the others.

    Args:
        number: Its index.
        factor: Its thrust over that of the others at the same speed, beyond the file's own factor.
        others: Thrust of the others over the file's, where the mass is the file's.
    """

    number: int
    factor: float
    others: float


def uneven(estimates: Mapping[str, Estimate]) -> bool:
    """Return whether the balance differs from the file's, so that the rotors give unequal thrusts."""
    balance = estimates["balance"]
    return balance.verdict == "told" and abs(balance.value) >= max(LEAST_BALANCE, 3.0 * balance.half_width)


def odd_rotor(robot: Quadrotor, estimates: Mapping[str, Estimate]) -> OddRotor | None:
    """Return the one rotor that differs from the others, which explains all that a hover told; None: no single one."""
    factors = hover_factors(robot, estimates)
    number = int(np.abs(factors - np.median(factors)).argmax())
    rest = np.delete(factors, number)
    others = float(rest.mean())
    factor = float(factors[number]) / others
    if not uneven(estimates) or np.ptp(rest) > _ALIKE * others or abs(factor - 1.0) < _ALIKE:
        return None
    return OddRotor(number, factor, others)


def hover_factors(robot: Quadrotor, estimates: Mapping[str, Estimate]) -> Array:
    """Return the thrust (rotors,) of each rotor over the file's that hovers as the estimates do, about its own centre.

    The rotors of the estimated robot turn as they have to for a hover about the estimated centre of mass; those of a
    robot with these factors and the centre of the file hover with the same speeds.
    """
    value = {name: estimates[name].value for name in ("thrust", "centre_x", "centre_y", "balance")}
    inverse, weight = inverse_allocation(robot), robot.weight_n
    carried = inverse @ [weight, value["centre_y"] * weight, -value["centre_x"] * weight, 0.0]
    level = value["thrust"] / estimates["thrust"].parameter.value
    scale = level * (1.0 + value["balance"] * robot.yaw_torque_signs)
    return np.asarray(scale * (inverse @ [weight, 0.0, 0.0, 0.0]) / carried)
