"""The family of quadrotors on which RAPTOR's foundation policy was trained, as scaled versions of one robot file.

All constants are from the source published with "RAPTOR: A Foundation Policy for Quadrotor Control" (Eschmann, Albani,
Loianno, arXiv 2509.11481). Thrust to weight, torque to inertia, motor lag and torque constant determine a vehicle's
motion; without drag, mass and size alone only scale the length of ten arms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.schema import in_order, value
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.sampling import Starts
from rlstack.tasks.quadrotor.scenario import Scenario

Range = tuple[float, float]
Start = Literal["ten_arms", "ten_arms_each_axis", "hover"]

THRUST_CURVE = (0.00352526, 0.01437313, 0.09223048)
"""N: thrust of one rotor = c0 + c1 f + c2 f^2 for a command fraction f, of the published nominal vehicle, which is a
Crazyflie 2.1 with decks. Its shape is that of every vehicle in the family."""

_NOMINAL_MASS_KG = 0.0306
_NOMINAL_ARM_M = 0.028 * np.sqrt(2.0)
_NOMINAL_INERTIA = (9.416556729130406e-6, 9.644051701582312e-6, 1.745951732253285e-5)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Distribution of vehicles; ranges are uniform and independent unless noted. Defaults are RAPTOR's."""

    thrust_to_weight: Range = value((1.5, 5.0), above=1.0)
    """Largest collective thrust over weight."""
    torque_to_inertia_rad_s2: Range = value((40.0, 1200.0), unit="rad/s^2", above=0.0)
    """Arm length times the largest thrust of one rotor over the roll inertia."""
    mass_kg: Range = value((0.02, 5.0), unit="kg", above=0.0)
    """Uniform in the cube root, that is, in size."""
    size_deviation: float = value(0.1, at_least=0.0)
    """Standard deviation of z: arms are ``0.1266 m * cbrt(mass in kg)`` times 1 + z; over 1 - z where z is negative."""
    torque_per_thrust_m: Range = value((0.005, 0.05), unit="m", above=0.0)
    rise_time_constant_s: Range = value((0.03, 0.10), unit="s", above=0.0)
    fall_time_constant_s: Range = value((0.03, 0.30), unit="s", above=0.0)
    """Drawn independently of the rise: motors may also slow down faster than they speed up."""
    delay_s: Range = value((0.0, 0.0), unit="s", at_least=0.0, at_most=0.05)
    """From a command's arrival to its effect on the motors; to the closed loop the same as late measurements."""
    force: float = value(0.3, at_least=0.0)
    """A vehicle's disturbing forces are normal for each axis with a standard deviation in N of
    ``u * thrust_to_weight * mass_kg / 3``, u uniform from 0 to this times (thrust_to_weight - 1)."""

    def __post_init__(self) -> None:
        in_order(self)

    @property
    def ranges(self) -> dict[str, Range]:
        """Ranges of the drawn parameters (:mod:`rlstack.kinds.quadrotor.spec_family`), for the policy file."""
        low, high = self.torque_to_inertia_rad_s2
        pitch = _NOMINAL_INERTIA[0] / _NOMINAL_INERTIA[1]
        return {
            "mass_kg": self.mass_kg,
            "thrust_to_weight": self.thrust_to_weight,
            "roll_torque_to_inertia_rad_s2": (low, high),
            "pitch_torque_to_inertia_rad_s2": (low * pitch, high * pitch),
            "torque_per_thrust_m": self.torque_per_thrust_m,
            "rise_time_constant_s": self.rise_time_constant_s,
            "fall_time_constant_s": self.fall_time_constant_s,
        }


@dataclass(frozen=True)
class Vehicles:
    """N vehicles of a family.

    Args:
        perturbation: Departures of each vehicle from the reference robot, without disturbances.
        arm_m: (N,) distance of the rotors from the centre of mass.
        force_sigma_n: (N,) standard deviation of each vehicle's disturbing forces, per axis.
        parameters: Drawn values, (N,) each, under the names of :attr:`Family.ranges`.
    """

    perturbation: Perturbation
    arm_m: Array
    force_sigma_n: Array
    parameters: dict[str, Array]

    def __len__(self) -> int:
        return len(self.arm_m)

    def take(self, index: NDArray[np.integer] | slice) -> Vehicles:
        """Return the vehicles at ``index``."""
        return Vehicles(
            self.perturbation.take(index),
            self.arm_m[index],
            self.force_sigma_n[index],
            {name: array[index] for name, array in self.parameters.items()},
        )

    def scenario(
        self,
        rng: np.random.Generator,
        reference: Quadrotor,
        *,
        disturbances: bool = True,
        start: Start = "ten_arms",
        path: Paths | None = None,
        scale: float = 1.0,
    ) -> Scenario:
        """Draw one episode for each vehicle.

        Args:
            rng: Random generator.
            reference: The robot that the vehicles are scaled from.
            disturbances: Whether each vehicle's constant force pushes it, drawn for the episode.
            start: ``"ten_arms"``: uniform within a ball of ten arm lengths around the goal, turned up to 90 degrees
                about any axis, at up to 1 m/s and 1 rad/s for each axis, every rotor anywhere in the lower half of its
                speeds; a tenth at the goal, upright and at rest. ``"ten_arms_each_axis"``: the same in the cube
                around that ball, which RAPTOR's training draws from. ``"hover"``: at the goal, upright and at rest,
                every rotor at the speed that carries the vehicle.
            path: One path for each vehicle; without it the goal is the origin, heading 0.
            scale: Scale of start offsets and velocities, except for ``"hover"``.
        """
        count, model = len(self), reference.rotor_model
        first = np.zeros((count, 3)) if path is None else path.position[:, 0].copy()
        yaw = np.zeros(count) if path is None else path.yaw[:, 0].copy()
        if start == "hover":
            state = Starts(settled_share=1.0).sample(rng, count, reference)
            state["rotor_speed"] = self.hover_speed(reference)
        else:
            state = _TEN_ARMS.sample(rng, count, reference, scale)
            if start == "ten_arms":
                moved = state["position"].any(axis=1, keepdims=True)
                state["position"] = _in_ball(rng, count) * moved * scale
            state["position"] *= 10.0 * self.arm_m[:, None]
            low, high = model.speed_min_rad_s, model.speed_max_rad_s
            state["rotor_speed"] = rng.uniform(low, (low + high) / 2.0, (count, len(reference.rotors)))
        state["position"] += first
        force = rng.normal(size=(count, 3)) * self.force_sigma_n[:, None]
        return Scenario(
            state=state,
            goal_position=first,
            goal_yaw=yaw,
            perturbation=replace(self.perturbation, force_n=force) if disturbances else self.perturbation,
            labels=np.full(count, "constant force" if disturbances else "calm"),
            path=path,
        )

    def hover_speed(self, reference: Quadrotor) -> Array:
        """Return the rotor speeds (N, rotors) in rad/s that carry each vehicle."""
        p = self.perturbation
        share = reference.weight_n * p.mass_scale[:, None] / (len(reference.rotors) * p.thrust_scale)
        return np.asarray(reference.rotor_model.speed_for_thrust(share))


_TEN_ARMS = Starts(position_m=1.0, settled_share=0.1)
"""Starts with positions in units of ten arm lengths; the rest follows Learning to Fly in Seconds."""


def sample_family(rng: np.random.Generator, count: int, reference: Quadrotor, family: Family | None = None) -> Vehicles:
    """Draw vehicles as scaled versions of ``reference``.

    Rotors keep the reference's range of speeds: a command acts as a fraction of that range. The shape of the thrust
    curve is also the reference's: pass :func:`nominal_robot` for that of RAPTOR's family.

    Args:
        rng: Random generator.
        count: N.
        reference: A quadrotor with its rotors off both axes (an X).
        family: Distribution of vehicles; RAPTOR's by default.

    Raises:
        UserError: A rotor of the reference sits on its x or y axis.
    """
    family = Family() if family is None else family
    half = np.abs(reference.rotor_positions[:, :2])
    if not (half > 0.0).all():
        raise UserError(
            f"{reference.name} has a rotor on its x or y axis: a family is drawn from a robot whose rotors form an X."
        )
    body, model = reference.body, reference.rotor_model

    def uniform(limits: Range) -> Array:
        return rng.uniform(limits[0], limits[1], count)

    thrust_to_weight = uniform(family.thrust_to_weight)
    mass = uniform((float(np.cbrt(family.mass_kg[0])), float(np.cbrt(family.mass_kg[1])))) ** 3
    torque_to_inertia = uniform(family.torque_to_inertia_rad_s2)
    deviation = rng.normal(0.0, family.size_deviation, count)
    arm = _NOMINAL_ARM_M * np.cbrt(mass / _NOMINAL_MASS_KG)
    arm = arm * np.where(deviation < 0.0, 1.0 / (1.0 + np.abs(deviation)), 1.0 + deviation)
    torque_per_thrust = uniform(family.torque_per_thrust_m)
    rise, fall = uniform(family.rise_time_constant_s), uniform(family.fall_time_constant_s)
    force = rng.uniform(0.0, 1.0, count) * family.force * (thrust_to_weight - 1.0) * thrust_to_weight * mass / 3.0

    delay = uniform(family.delay_s)
    top = thrust_to_weight * mass * STANDARD_GRAVITY / len(reference.rotors)  # N, of one rotor
    roll_inertia = arm * top / torque_to_inertia
    ratios = np.array(_NOMINAL_INERTIA) / _NOMINAL_INERTIA[0]
    perturbation = replace(
        Perturbation.none(count, len(reference.rotors)),
        mass_scale=mass / body.mass_kg,
        inertia_scale=roll_inertia[:, None] * ratios / np.array(body.inertia_kg_m2),
        arm_scale=(arm / np.sqrt(2.0))[:, None] / half.mean(axis=0),
        thrust_scale=np.repeat((top / _top_thrust(reference))[:, None], len(reference.rotors), axis=1),
        torque_scale=torque_per_thrust / model.torque_per_thrust_m,
        time_constant_scale=np.stack([rise, fall], axis=1) / [model.rise_time_constant_s, model.fall_time_constant_s],
        drag_scale=np.zeros(count),
        delay_s=delay,
    )
    parameters = {
        "mass_kg": mass,
        "thrust_to_weight": thrust_to_weight,
        "roll_torque_to_inertia_rad_s2": torque_to_inertia,
        "pitch_torque_to_inertia_rad_s2": torque_to_inertia / ratios[1],
        "torque_per_thrust_m": torque_per_thrust,
        "rise_time_constant_s": rise,
        "fall_time_constant_s": fall,
    }
    return Vehicles(perturbation, arm, force, parameters)


def nominal_robot(reference: Quadrotor) -> Quadrotor:
    """Return ``reference`` with the shape of the family's thrust curve; its top thrust stays.

    Raises:
        UserError: Its rotors have a minimum speed.
    """
    model = reference.rotor_model
    if model.speed_min_rad_s > 0.0:
        raise UserError(
            f"{reference.name} has rotors that never turn slower than {model.speed_min_rad_s:g} rad/s: the family's"
            " thrust curve begins at rest; use a robot whose speed_min_rad_s is 0."
        )
    top = _top_thrust(reference) / sum(THRUST_CURVE)
    c0, c1, c2 = (top * c / model.speed_max_rad_s**order for order, c in enumerate(THRUST_CURVE))
    return replace(reference, rotor_model=replace(model, thrust_coefficients=(c0, c1, c2)))


def _in_ball(rng: np.random.Generator, count: int) -> Array:
    """Return points (count, 3), uniform within a ball of radius 1."""
    direction = rng.normal(size=(count, 3))
    return np.asarray(direction * np.cbrt(rng.random((count, 1))) / np.linalg.norm(direction, axis=1, keepdims=True))


def _top_thrust(robot: Quadrotor) -> float:
    """Return the largest thrust of one rotor, N."""
    return float(robot.rotor_model.thrust(np.array(robot.rotor_model.speed_max_rad_s)))
