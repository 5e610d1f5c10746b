"""Quadrotors: one rigid body, four rotors and the motors that turn them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec_family import QuadrotorFamily
from rlstack.robots.goal_limits import GoalLimits
from rlstack.robots.spec import STANDARD_GRAVITY, RobotSpec
from rlstack.schema import check_boxes, to_data, value


@dataclass(frozen=True, kw_only=True)
class RigidBody:
    """The rigid body, in its FLU ``base_link`` frame with the origin at the centre of mass."""

    mass_kg: float = value(unit="kg", above=0.0)
    inertia_kg_m2: tuple[float, float, float] = value(unit="kg m^2", above=0.0)
    """Principal moments about x, y, z."""
    linear_drag_n_s_per_m: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="N s/m", at_least=0.0)
    """Drag force per body-frame velocity, along x, y, z."""
    collision_radius_m: float = value(unit="m", above=0.0)
    collision_height_m: float = value(unit="m", above=0.0)

    def __post_init__(self) -> None:
        largest, others = max(self.inertia_kg_m2), sum(self.inertia_kg_m2) - max(self.inertia_kg_m2)
        if largest > others * (1.0 + 1e-9):
            raise ValueError(
                f"inertia_kg_m2: {list(self.inertia_kg_m2)} is not allowed:"
                " no moment may exceed the sum of the other two."
            )


@dataclass(frozen=True, kw_only=True)
class Rotor:
    """One rotor: its position and the direction of its reaction torque on the body."""

    name: str
    position_m: tuple[float, float, float] = value(unit="m")
    """In ``base_link`` (FLU)."""
    yaw_torque_sign: Literal[-1, 1]
    """+1: its reaction torque on the body is about +z (the rotor spins clockwise seen from above)."""
    thrust_factor: float = value(1.0, above=0.0)
    """Its thrust over that of the rotor model at the same commanded speed, such as 0.8 for a worn motor or propeller;
    its reaction torque changes alike."""


@dataclass(frozen=True, kw_only=True)
class RotorModel:
    """The motor and propeller model that all rotors share; speeds in rad/s."""

    speed_min_rad_s: float = value(unit="rad/s", at_least=0.0)
    speed_max_rad_s: float = value(unit="rad/s", above=0.0)
    thrust_coefficients: tuple[float, float, float] = value(unit="N, N s/rad, N s^2/rad^2")
    """c0, c1, c2 of thrust = c0 + c1 w + c2 w^2 for a rotor speed w; never below 0, and rising over the speeds.

    Published fits may have a negative c0, c1 or c2; ``speed_min_rad_s`` must then be at least where thrust reaches 0.
    """
    torque_per_thrust_m: float = value(unit="m", at_least=0.0)
    """Reaction torque about z per newton of thrust."""
    rise_time_constant_s: float = value(unit="s", above=0.0)
    fall_time_constant_s: float = value(unit="s", above=0.0)
    """Time constants of the first-order lag when the rotor speeds up and slows down."""
    spin_inertia_kg_m2: float = value(0.0, unit="kg m^2", at_least=0.0)
    """Inertia of rotor and motor bell about the spin axis, for the gyroscopic term."""
    radius_m: float = value(unit="m", above=0.0)

    def __post_init__(self) -> None:
        if self.speed_max_rad_s <= self.speed_min_rad_s:
            raise ValueError(
                f"speed_max_rad_s: {self.speed_max_rad_s} is not allowed: must be above speed_min_rad_s"
                f" ({self.speed_min_rad_s})."
            )
        (c0, c1, c2), low, high = self.thrust_coefficients, self.speed_min_rad_s, self.speed_max_rad_s
        least = c0 + low * (c1 + low * c2)
        if least < 0.0:
            raise ValueError(
                f"thrust_coefficients: {list(self.thrust_coefficients)} is not allowed: at speed_min_rad_s ({low}) the"
                f" thrust is {least:.3g} N: must be at least 0 N; raise speed_min_rad_s to where it is."
            )
        if min(c1 + 2.0 * c2 * low, c1 + 2.0 * c2 * high) < 0.0 or c1 == c2 == 0.0:
            raise ValueError(
                f"thrust_coefficients: {list(self.thrust_coefficients)} is not allowed: the thrust must rise with the"
                " speed all the way from speed_min_rad_s to speed_max_rad_s."
            )

    def thrust(self, speed: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return thrust in N for rotor speeds in rad/s, any shape; 0 where a fit is negative, at low speeds."""
        c0, c1, c2 = self.thrust_coefficients
        return np.maximum(c0 + speed * (c1 + speed * c2), 0.0)

    def speed_for_thrust(self, thrust: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the rotor speed in rad/s that gives ``thrust`` in N, clipped to the rotor's range."""
        c0, c1, c2 = self.thrust_coefficients
        wanted = np.asarray(thrust, dtype=float) - c0
        # Beyond the parabola's vertex no speed gives the thrust; the vertex is outside the range, so clipping is right.
        root = np.sqrt(np.maximum(c1 * c1 + 4.0 * c2 * wanted, 0.0))
        # two forms of the same root: each is exact where the other subtracts nearly equal terms
        speed = 2.0 * wanted / (c1 + root) if c1 > 0.0 else (root - c1) / (2.0 * c2)
        return np.clip(speed, self.speed_min_rad_s, self.speed_max_rad_s)


@dataclass(frozen=True, kw_only=True)
class GroundEffect:
    """Ground effect on the rotors' thrust; see :func:`rlstack.sim.physics.rotor.ground_effect`."""

    enabled: bool = True
    coefficient: float = value(1.0, above=0.0, at_most=3.5)
    """c of T / T_far = 1 / (1 - c (r / 4z)^2)."""


@dataclass(frozen=True, kw_only=True)
class RotorDrag:
    """Drag proportional to rotor speed, in place of linear drag; :func:`rlstack.sim.physics.rotor.rotor_drag`."""

    enabled: bool = True
    coefficient_kg: tuple[float, float, float] = value(unit="kg", at_least=0.0)
    """Along x, y, z of the body, N per m/s of airspeed and per rad/s of the sum of all rotor speeds."""


@dataclass(frozen=True, kw_only=True)
class Downwash:
    """Effect of vehicles above on this one; see :mod:`rlstack.sim.physics.air`."""

    enabled: bool = True
    vertical_drag_n_s_per_m: float = value(unit="N s/m", at_least=0.0)
    """Force along body z per m/s of wake; the part beyond linear drag applies to the wake alone."""


@dataclass(frozen=True, kw_only=True)
class Aerodynamics:
    """Aerodynamic models that a robot file has parameters for; a world or a caller can switch each on or off."""

    ground_effect: GroundEffect | None = None
    rotor_drag: RotorDrag | None = None
    downwash: Downwash | None = None


@dataclass(frozen=True, kw_only=True)
class Battery:
    """A lithium polymer battery and its loads."""

    enabled: bool = True
    """Whether simulators compute it by default."""
    cells: int = value(at_least=1, at_most=1000)
    """In series."""
    capacity_ah: float = value(unit="A h", above=0.0)
    internal_resistance_ohm: float = value(unit="ohm", above=0.0)
    """Resistance of the whole battery with its wires."""
    hover_power_w: float = value(unit="W", above=0.0)
    """Total electrical power in hover, out of ground effect."""
    full_speed_voltage_v: float = value(unit="V", above=0.0)
    """Lowest voltage at the motors at which they reach the rotor model's ``speed_max_rad_s``."""


@dataclass(frozen=True, kw_only=True)
class QuadrotorLimits:
    """Limits that the guard enforces; a recipe or an operator may only tighten them."""

    tilt_rad: float = value(unit="rad", above=0.0, at_most=math.pi, text="Largest tilt")
    linear_velocity_m_s: float = value(unit="m/s", above=0.0, text="Largest speed")
    angular_velocity_rad_s: float = value(unit="rad/s", above=0.0, text="Largest angular velocity")
    rotor_acceleration_rad_s2: float = value(
        unit="rad/s^2", above=0.0, text="Fastest change of a rotor speed command, of the fallback too"
    )
    geofence_min_m: tuple[float, float, float] = value(unit="m", text="Lower corner of the geofence in odom")
    geofence_max_m: tuple[float, float, float] = value(unit="m", text="Upper corner of the geofence in odom")

    def __post_init__(self) -> None:
        check_boxes(self)


@dataclass(frozen=True, kw_only=True)
class RateLoop:
    """The rate loop of an autopilot: the robot takes body rates and collective thrust instead of rotor speeds."""

    time_constant_s: float = value(unit="s", above=0.0)
    """Time in which the roll and pitch rate cover 63% of a step, with motors and mixer."""
    yaw_time_constant_s: float = value(unit="s", above=0.0)
    """The same of the yaw rate."""
    rates_max_rad_s: tuple[float, float, float] = value(unit="rad/s", above=0.0)
    """Largest commanded roll, pitch and yaw rate."""
    rate_change_rad_s2: float = value(unit="rad/s^2", above=0.0)
    """Fastest change of a commanded rate."""
    thrust_change_m_s3: float = value(unit="m/s^3", above=0.0)
    """Fastest change of the commanded thrust per mass."""


@dataclass(frozen=True, kw_only=True)
class Quadrotor(RobotSpec):
    """Four rotors on one rigid body; ``base_link`` has its origin at the centre of mass."""

    kind: Literal["quadrotor"]
    body: RigidBody
    rotors: tuple[Rotor, ...]
    rotor_model: RotorModel
    aerodynamics: Aerodynamics | None = None
    battery: Battery | None = None
    rate_loop: RateLoop | None = None
    limits: QuadrotorLimits

    family = QuadrotorFamily()
    has_rotors = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.rotors) != 4:
            raise ValueError(f"rotors: {len(self.rotors)} rotors are not allowed: a quadrotor has 4.")
        names = [rotor.name for rotor in self.rotors]
        if len(set(names)) != len(names):
            raise ValueError(f"rotors: {names} is not allowed: every rotor needs a name of its own.")
        if sum(rotor.yaw_torque_sign for rotor in self.rotors) != 0:
            raise ValueError("rotors: yaw_torque_sign must be +1 for one half of the rotors and -1 for the other.")
        if self.thrust_to_weight <= 1.0:
            raise ValueError(
                f"rotor_model: the rotors lift {self.thrust_to_weight:.2f} times the weight: must be above 1."
            )
        if self.rate_loop is not None and max(self.rate_loop.rates_max_rad_s) >= self.limits.angular_velocity_rad_s:
            raise ValueError(
                f"rate_loop.rates_max_rad_s: {list(self.rate_loop.rates_max_rad_s)} is not allowed: must be below"
                f" limits.angular_velocity_rad_s ({self.limits.angular_velocity_rad_s}), at which the guard takes over."
            )

    def identity(self) -> dict[str, Any]:
        """Return its identity; what a robot does not have is left out, as it was before there was any."""
        data = super().identity()
        if self.rate_loop is None:
            del data["rate_loop"]
        for rotor in data["rotors"]:
            if rotor["thrust_factor"] == 1.0:
                del rotor["thrust_factor"]
        return data

    @property
    def rotor_names(self) -> tuple[str, ...]:
        """Rotor names in file order, which is the order of every rotor array."""
        return tuple(rotor.name for rotor in self.rotors)

    @property
    def rotor_positions(self) -> NDArray[np.float64]:
        """Rotor positions in ``base_link``, shape (rotors, 3), m."""
        return np.array([rotor.position_m for rotor in self.rotors], dtype=float)

    @property
    def yaw_torque_signs(self) -> NDArray[np.float64]:
        """Shape (rotors,), +1 or -1."""
        return np.array([rotor.yaw_torque_sign for rotor in self.rotors], dtype=float)

    @property
    def thrust_factors(self) -> NDArray[np.float64]:
        """Shape (rotors,): each rotor's thrust over the rotor model's."""
        return np.array([rotor.thrust_factor for rotor in self.rotors], dtype=float)

    def goal_limits(self) -> GoalLimits:
        """Return the geofence, above the floor of ``odom``."""
        limits = self.limits
        return GoalLimits(
            name="geofence", frame="odom", low_m=limits.geofence_min_m, high_m=limits.geofence_max_m, floor_m=0.0
        )

    def output_numbers(self) -> dict[str, Any]:
        """Return what a command means: mass, inertia, rotors and limits, or the rate loop with thrust and limits."""
        body, model = self.body, self.rotor_model
        if self.rate_loop is not None:
            return {
                "rate_loop": to_data(self.rate_loop),
                "thrust_max_m_s2": self.thrust_max_m_s2,
                "limits": to_data(self.limits),
            }
        uneven = {rotor.name: rotor.thrust_factor for rotor in self.rotors if rotor.thrust_factor != 1.0}
        return {
            "mass_kg": body.mass_kg,
            "inertia_kg_m2": list(body.inertia_kg_m2),
            **({"rotor_thrust_factor": uneven} if uneven else {}),
            "rotor_position_m": {rotor.name: list(rotor.position_m) for rotor in self.rotors},
            "rotor_yaw_torque_sign": {rotor.name: rotor.yaw_torque_sign for rotor in self.rotors},
            "thrust_coefficients": list(model.thrust_coefficients),
            "torque_per_thrust_m": model.torque_per_thrust_m,
            "rise_time_constant_s": model.rise_time_constant_s,
            "fall_time_constant_s": model.fall_time_constant_s,
            "speed_min_rad_s": model.speed_min_rad_s,
            "speed_max_rad_s": model.speed_max_rad_s,
            "limits": to_data(self.limits),
        }

    @property
    def weight_n(self) -> float:
        """Mass times standard gravity, N."""
        return self.body.mass_kg * STANDARD_GRAVITY

    @property
    def thrust_to_weight(self) -> float:
        """Largest collective thrust over weight."""
        top = float(self.rotor_model.thrust(np.array(self.rotor_model.speed_max_rad_s)))
        return float(self.thrust_factors.sum()) * top / self.weight_n

    @property
    def hover_command(self) -> NDArray[np.float64]:
        """The command (4,) that hovers: rotor speeds, rad/s, or rates and thrust, rad/s and m/s^2."""
        if self.rate_loop is None:
            each = self.weight_n / len(self.rotors) / self.thrust_factors
            return np.asarray(self.rotor_model.speed_for_thrust(each), dtype=float)
        return np.array([0.0, 0.0, 0.0, STANDARD_GRAVITY])

    @property
    def thrust_max_m_s2(self) -> float:
        """Largest collective thrust per mass, m/s^2."""
        return self.thrust_to_weight * STANDARD_GRAVITY

    @property
    def hover_speed_rad_s(self) -> float:
        """Speed of all rotors at which the collective thrust equals the weight, rad/s."""
        return float(self.rotor_model.speed_for_thrust(np.array(self.weight_n / self.thrust_factors.sum())))


load_quadrotor = Quadrotor.load

SPEC = Quadrotor
