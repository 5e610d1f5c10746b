"""What a flight may tell of a quadrotor: its parameters, with the motion that tells each, and its thrust curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.identification.motion_model import Parameter
from rlstack.kinds.quadrotor.spec import Quadrotor

_FLOOR, _FLOOR_S = 7e-5, 4e-6
"""Least standard deviations: of factors, and of times, s. MuJoCo, with steps of 1 ms, differs by that from it."""

_STEPS = "goals that step by a metre and more in all three directions"
_TURNS = "goals that step sideways together with the heading, so that it rolls, pitches and yaws at once"
_CLIMBS = "fast climbs and descents"


def thrust_coefficients(robot: Quadrotor, thrust: Array, power: Array) -> Array:
    """Return c0, c1, c2 (..., 3) of a rotor with a thrust, N, at the file's hover speed.

    Args:
        robot: The robot file, whose c0 is scaled with the thrust.
        thrust: (...,) at the file's hover speed.
        power: (...,) of the speed with which the thrust rises there; the file's own only scales its curve.
    """
    file, speed = np.array(robot.rotor_model.thrust_coefficients), robot.hover_speed_rad_s
    scale = np.asarray(thrust) / float(robot.rotor_model.thrust(np.array(speed)))
    further = (power - _power(robot)) * thrust
    c1 = scale * file[1] - further / speed
    return np.stack([scale * file[0], c1, scale * file[2] + further / speed**2], axis=-1)


def largest_power(robot: Quadrotor, thrust: float, speed_min: float) -> float:
    """Return the largest power with which the thrust rises all the way from ``speed_min``, rad/s.

    That of c2 alone is 2, and a fit of such rotors ends as often above it as below.
    """
    _, c1, c2 = thrust_coefficients(robot, np.array(thrust), np.array(_power(robot)))
    share = speed_min / robot.hover_speed_rad_s
    if share >= 0.5:
        return np.inf
    return _power(robot) + float(c1 + 2.0 * speed_min * c2) * robot.hover_speed_rad_s / (thrust * (1.0 - 2.0 * share))


def _power(robot: Quadrotor) -> float:
    """Return the power of the speed with which the file's thrust rises at its hover speed: 2 for c2 alone."""
    _, c1, c2 = robot.rotor_model.thrust_coefficients
    speed = robot.hover_speed_rad_s
    return (c1 + 2.0 * c2 * speed) * speed / float(robot.rotor_model.thrust(np.array(speed)))


def quadrotor_parameters(robot: Quadrotor) -> list[Parameter]:
    """Return all parameters with the file's values, but for the rotors' range."""
    body, model, speed = robot.body, robot.rotor_model, robot.hover_speed_rad_s
    arm = float(np.abs(robot.rotor_positions[:, :2]).max())
    factor: dict[str, Any] = {"logarithmic": True, "prior": 1.0, "needed": 0.1, "floor": _FLOOR}
    weighed = (
        "odometry tells forces over mass and torques over inertia only: thrust, inertia and drag are in proportion to"
        " it; weigh the robot, ready to fly: --known mass=KG"
    )
    found = [Parameter("mass", "kg", body.mass_kg, ("body", "mass_kg"), manoeuvre="scales", given=weighed, **factor)]
    curve = ("rotor_model", "thrust_coefficients")
    thrust = float(model.thrust(np.array(speed)))
    found.append(Parameter("thrust", "N", thrust, curve, manoeuvre=_STEPS, **factor))
    found.append(Parameter("thrust_power", "", _power(robot), curve, manoeuvre=_CLIMBS, **{**factor, "prior": 0.3}))
    for axis, name in enumerate("xyz"):
        place, moment = ("body", "inertia_kg_m2", axis), body.inertia_kg_m2[axis]
        how: dict[str, Any] = {"manoeuvre": _TURNS, "alike": "torque"} if name == "z" else {"manoeuvre": _STEPS}
        found.append(Parameter(f"inertia_{name}", "kg m^2", moment, place, **how, **factor))
    for name, key, how_ in (
        ("torque", "torque_per_thrust_m", _TURNS),
        ("rise", "rise_time_constant_s", _CLIMBS),
        ("fall", "fall_time_constant_s", _CLIMBS),
    ):
        unit = "m" if name == "torque" else "s"
        place_ = ("rotor_model", key)
        found.append(Parameter(name, unit, getattr(model, key), place_, manoeuvre=how_, **factor))
    # simulations leave the rotors' angular momentum out unless they are asked for it, so 0 is where it begins
    moment, there = body.inertia_kg_m2[2], ("rotor_model", "spin_inertia_kg_m2")
    spin: dict[str, Any] = {"place": there if model.spin_inertia_kg_m2 else (), "floor": 1e-6 * moment, "least": 0.0}
    spin |= {"logarithmic": False, "prior": 0.01 * moment, "needed": 2e-4 * moment, "manoeuvre": _TURNS}
    found.append(Parameter("spin_inertia", "kg m^2", 0.0, **spin))
    late = 0.25 / robot.control_rate_hz
    found.append(Parameter("delay", "s", 0.0, (), False, 0.05, late, _STEPS, least=0.0, floor=_FLOOR_S))
    most = robot.weight_n / robot.limits.linear_velocity_m_s
    for axis, name in enumerate("xyz"):
        where, drag = ("body", "linear_drag_n_s_per_m", axis), body.linear_drag_n_s_per_m[axis]
        how_ = f"flights at {0.7 * robot.limits.linear_velocity_m_s:.2g} m/s along {name}"
        needed = max(0.1 * drag, 0.005 * most)
        found.append(
            Parameter(f"drag_{name}", "N s/m", drag, where, False, most, needed, how_, least=0.0, floor=1e-4 * most)
        )
    for name in "xy":
        needed, floor = 0.02 * arm, 1e-7 * arm
        found.append(Parameter(f"centre_{name}", "m", 0.0, ("rotors",), False, 0.2 * arm, needed, _STEPS, floor=floor))
    found.append(Parameter("balance", "", 0.0, ("rotors",), False, 0.1, 0.02, _TURNS, floor=_FLOOR))
    return found


def rotor_range(robot: Quadrotor, low: float, high: float) -> list[Parameter]:
    """Return the ends of the rotors' range that the recordings show to be others than the file's."""
    found = []
    for name, key, seen in (("speed_min", "speed_min_rad_s", low), ("speed_max", "speed_max_rad_s", high)):
        file = getattr(robot.rotor_model, key)
        if seen != file:
            how: dict[str, Any] = {"given": "as it was commanded", "observed": seen, "least": 0.0}
            found.append(Parameter(name, "rad/s", file, ("rotor_model", key), False, 1.0, 1.0, "", **how))
    return found
