"""The changes of a quadrotor's file that follow from what a flight told."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rlstack.identification.motion_model import Edit, Estimate
from rlstack.kinds.quadrotor.identification_balance import odd_rotor, uneven
from rlstack.kinds.quadrotor.identification_parameters import largest_power, thrust_coefficients
from rlstack.kinds.quadrotor.spec import Quadrotor

_CURVE, _ROTORS = ("thrust", "thrust_power"), ("centre_x", "centre_y", "balance")

_ALIKE = 0.01
"""A power above the largest one of a rising curve by less than this, or than three half widths, counts as that one."""

MOMENTS = ("inertia_x", "inertia_y", "inertia_z")
FLAT = 0.05
"""A moment of inertia above the sum of the other two by less than this share counts as that of a flat body."""


def quadrotor_edits(robot: Quadrotor, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
    """Return the changes: body, thrust curve, motors, and the rotors' places about the new centre of mass and factors.

    One rotor that explains all that is told of the rotors gets a factor, and the centre of mass stays.

    Args:
        robot: The robot.
        estimates: By name; only those that are told or known change anything.
        says: Returns the evidence for a parameter.
    """
    found = []
    for name, estimate in estimates.items():
        place = estimate.parameter.place
        if estimate.verdict != "kept" and place and name not in (*_CURVE, *_ROTORS, *MOMENTS):
            found.append(Edit(place, estimate.value, says(name)))
    moments = {name: estimates[name].value for name in MOMENTS}
    largest = max(moments, key=moments.__getitem__)
    others = sum(moments.values()) - moments[largest]
    if others < moments[largest] < (1.0 + FLAT) * others and estimates[largest].verdict == "told":
        moments[largest] = others
    for name, value in moments.items():
        if estimates[name].verdict != "kept":
            found.append(Edit(estimates[name].parameter.place, value, says(name)))
    odd = odd_rotor(robot, estimates)
    if changed := [name for name in _CURVE if estimates[name].verdict != "kept"]:
        thrust, power = (estimates[name].value for name in _CURVE)
        if odd is not None:
            thrust = odd.others * estimates["thrust"].parameter.value
        low = estimates["speed_min"].value if "speed_min" in estimates else robot.rotor_model.speed_min_rad_s
        most = largest_power(robot, thrust, low)
        if most < power < most + max(3.0 * power * estimates["thrust_power"].half_width, _ALIKE):
            power = most
        curve = thrust_coefficients(robot, np.array(thrust), np.array(power))
        noted = "; ".join(map(says, changed))
        found.append(Edit(estimates["thrust"].parameter.place, curve.tolist(), noted))
    factors = robot.thrust_factors
    if odd is not None:
        return [*found, _factor(odd.number, factors[odd.number] * odd.factor, says("balance"))]
    shift = [estimates[name].value if estimates[name].verdict == "told" else 0.0 for name in _ROTORS[:2]]
    if any(shift):
        for number, rotor in enumerate(robot.rotors):
            x, y, z = rotor.position_m
            place = ("rotors", number, "position_m")
            noted = "; ".join(map(says, _ROTORS[:2])) if number == 0 else "likewise"
            found.append(Edit(place, [x - shift[0], y - shift[1], z], noted))
    if uneven(estimates):
        each = factors * (1.0 + estimates["balance"].value * robot.yaw_torque_signs)
        found += [_factor(number, one, says("balance") if number == 0 else "") for number, one in enumerate(each)]
    return found


def _factor(number: int, factor: float, noted: str) -> Edit:
    return Edit(("rotors", number, "thrust_factor"), float(factor), noted, adds=True)
