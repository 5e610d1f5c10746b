"""Wheeled bases: a chassis on wheels with a differential or an Ackermann drive, or a holonomic disc."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec_response import Response
from rlstack.robots.footprint import Disc, FootprintShape, cover, hull, rectangle
from rlstack.robots.goal_limits import GoalLimits
from rlstack.robots.inertia import Inertial, inertial, is_physical, of_sphere, together
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.spec import RobotSpec
from rlstack.robots.urdf import BODY, link_of
from rlstack.schema import check_boxes, to_data, value


@dataclass(frozen=True, kw_only=True)
class Chassis:
    """Everything but wheels and casters, as one rigid body in ``base_link`` (FLU)."""

    mass_kg: float = value(unit="kg", above=0.0)
    centre_of_mass_m: tuple[float, float, float] = value(unit="m")
    inertia_kg_m2: tuple[float, float, float] = value(unit="kg m^2", above=0.0)
    """ixx, iyy, izz about the centre of mass."""
    products_of_inertia_kg_m2: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="kg m^2")
    """ixy, ixz, iyz, as in URDF: entries of the matrix."""
    collision_size_m: tuple[float, float, float] = value(unit="m", above=0.0)
    """Size of the collision box, along x, y, z."""
    collision_centre_m: tuple[float, float, float] = value(unit="m")

    def __post_init__(self) -> None:
        if not is_physical(self.inertia):
            raise ValueError(
                f"inertia_kg_m2: {list(self.inertia_kg_m2)} with products {list(self.products_of_inertia_kg_m2)} is not"
                " allowed: no body has it (each principal moment is above 0 and at most the sum of the other two)."
            )

    @property
    def inertia(self) -> NDArray[np.float64]:
        """(3, 3)."""
        (xx, yy, zz), (xy, xz, yz) = self.inertia_kg_m2, self.products_of_inertia_kg_m2
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One wheel; its axis is +y, so that a positive speed rolls forward on either side."""

    name: str
    """Name of its joint."""
    position_m: tuple[float, float, float] = value(unit="m")
    """Its centre, in ``base_link``."""
    radius_m: float = value(unit="m", above=0.0)
    width_m: float = value(unit="m", above=0.0)
    mass_kg: float = value(unit="kg", above=0.0)
    spin_inertia_kg_m2: float = value(unit="kg m^2", above=0.0)
    """About its axis."""
    transverse_inertia_kg_m2: float = value(unit="kg m^2", above=0.0)
    """About any perpendicular axis."""
    driven: bool = True
    """Without a motor it rolls freely."""
    steering: str = ""
    """Name of the joint that steers it about z; empty if it is not steered."""

    def __post_init__(self) -> None:
        if self.spin_inertia_kg_m2 > 2.0 * self.transverse_inertia_kg_m2 * (1.0 + 1e-9):
            raise ValueError(
                f"spin_inertia_kg_m2: {self.spin_inertia_kg_m2} is not allowed: at most twice"
                f" transverse_inertia_kg_m2 ({self.transverse_inertia_kg_m2})."
            )


@dataclass(frozen=True, kw_only=True)
class Caster:
    """A frictionless support: a ball fixed to the chassis."""

    name: str
    position_m: tuple[float, float, float] = value(unit="m")
    """Its centre, in ``base_link``."""
    radius_m: float = value(unit="m", above=0.0)
    mass_kg: float = value(unit="kg", above=0.0)


@dataclass(frozen=True, kw_only=True)
class WheelDrive:
    """Drive of each powered wheel: a velocity loop."""

    velocity_max_rad_s: float = value(unit="rad/s", above=0.0)
    effort_max_n_m: float = value(unit="N m", above=0.0)
    damping_n_m_s_per_rad: float = value(unit="N m s/rad", above=0.0)
    """Torque per rad/s of speed error."""
    armature_kg_m2: float = value(0.0, unit="kg m^2", at_least=0.0)
    """Reflected inertia of the motor at the wheel: its rotor's times the gear ratio squared."""


@dataclass(frozen=True, kw_only=True)
class Steering:
    """Drive of each steered wheel about z: a position loop, and the knuckle that holds the wheel."""

    position_max_rad: float = value(unit="rad", above=0.0, at_most=1.5)
    """In either direction."""
    velocity_max_rad_s: float = value(unit="rad/s", above=0.0)
    effort_max_n_m: float = value(unit="N m", above=0.0)
    stiffness_n_m_per_rad: float = value(unit="N m/rad", above=0.0)
    damping_n_m_s_per_rad: float = value(unit="N m s/rad", at_least=0.0)
    knuckle_mass_kg: float = value(unit="kg", above=0.0)
    knuckle_radius_m: float = value(unit="m", above=0.0)
    """The knuckle, modelled as a solid ball around the wheel's centre."""
    armature_kg_m2: float = value(0.0, unit="kg m^2", at_least=0.0)


@dataclass(frozen=True, kw_only=True)
class Contact:
    """Contact of the wheels with the floor."""

    wheel_friction: float = value(unit="1", above=0.0)
    """Coefficient of friction along the floor, in all directions: beyond it the wheel slips."""
    rolling_resistance_m: float = value(0.0, unit="m", at_least=0.0)
    """Rolling resistance: torque per newton of load."""


@dataclass(frozen=True, kw_only=True)
class WheeledBaseLimits:
    """Limits that the guard enforces; a recipe or an operator may only tighten them."""

    linear_velocity_m_s: float = value(unit="m/s", above=0.0, text="Largest speed")
    """Forward and backward; for a holonomic base, in any direction."""
    angular_velocity_rad_s: float = value(unit="rad/s", above=0.0, text="Largest angular velocity")
    linear_acceleration_m_s2: float = value(unit="m/s^2", above=0.0, text="Fastest change of the commanded speed")
    angular_acceleration_rad_s2: float = value(
        unit="rad/s^2", above=0.0, text="Fastest change of the commanded angular velocity"
    )
    geofence_min_m: tuple[float, float] = value(unit="m", text="Lower corner of the geofence in odom")
    geofence_max_m: tuple[float, float] = value(unit="m", text="Upper corner of the geofence in odom")

    def __post_init__(self) -> None:
        check_boxes(self)


@dataclass(frozen=True, kw_only=True)
class WheeledBaseCommandLimits(WheeledBaseLimits):
    """Limits of a base: the guard's, and further ones of its commands."""

    linear_jerk_m_s3: float | None = value(None, unit="m/s^3", above=0.0)
    angular_jerk_rad_s3: float | None = value(None, unit="rad/s^3", above=0.0)
    """Limits of the published command; by default none."""
    command_timeout_s: float = value(0.5, unit="s", above=0.0)
    """Age of a command that stops the base; 0.5 s is the default of ros2_controllers' diff_drive_controller."""


@dataclass(frozen=True, kw_only=True)
class WheeledBase(RobotSpec):
    """A chassis on wheels. Twists refer to the point on the floor between the driven wheels.

    A ``holonomic`` base is a disc or polygon that moves in any direction about ``base_link``; it needs no chassis,
    wheels, motors and contact, and only the batch simulator supports it.
    """

    kind: Literal["wheeled_base"]
    drive: Literal["differential", "ackermann", "holonomic"]
    """``differential``: speeds of left and right wheels steer it; ``ackermann``: steered wheels do."""
    chassis: Chassis = value(None)
    wheels: tuple[Wheel, ...] = ()
    casters: tuple[Caster, ...] = ()
    wheel_drive: WheelDrive = value(None)
    steering: Steering | None = None
    contact: Contact = value(None)
    outline: FootprintShape | None = None
    """Its outline on the floor; by default the hull of its chassis' box, wheels and casters."""
    response: Response = field(default_factory=Response)
    limits: WheeledBaseCommandLimits
    track_scale: float = value(1.0, unit="1", at_least=1.0)
    """Apparent over true distance between left and right wheels, for skid-steered bases.

    The ``wheel_separation_multiplier`` of ROS' diff_drive_controller.
    """

    is_mobile_base = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drive == "holonomic":
            self._check_holonomic()
        else:
            self._check_wheels()

    def _check_holonomic(self) -> None:
        if self.wheels or self.casters or self.steering is not None:
            raise ValueError("drive: 'holonomic' is not allowed with wheels: leave out wheels, casters and steering.")
        if self.outline is None:
            raise ValueError("the key 'outline' is missing: a holonomic base has no chassis to derive it from.")

    def _check_wheels(self) -> None:
        for key in ("chassis", "wheel_drive", "contact"):
            if getattr(self, key) is None:
                raise ValueError(f"the key '{key}' is missing.")
        names = [name for wheel in self.wheels for name in (wheel.name, wheel.steering) if name]
        names += [caster.name for caster in self.casters]
        if len(set(names)) != len(names):
            raise ValueError(f"wheels: {names} is not allowed: every wheel, steering joint and caster needs its own.")
        driven = [wheel for wheel in self.wheels if wheel.driven]
        if not driven:
            raise ValueError("wheels: none is driven: at least one must be.")
        steered = [wheel for wheel in self.wheels if wheel.steering]
        if self.drive == "ackermann":
            if not steered or self.steering is None:
                raise ValueError("drive: 'ackermann' is not allowed without steered wheels and the key steering.")
            if len({wheel.position_m[0] for wheel in self.wheels if not wheel.steering}) != 1:
                raise ValueError("wheels: an ackermann base needs all wheels that are not steered on one axle.")
            if any(wheel.position_m[0] == self.axle_m for wheel in steered):
                raise ValueError("wheels: a steered wheel must be ahead of or behind those that are not.")
        else:
            if steered or self.steering is not None:
                raise ValueError("drive: 'differential' is not allowed with steered wheels: use drive: ackermann.")
            sides = {math.copysign(1.0, wheel.position_m[1]) for wheel in driven if wheel.position_m[1]}
            if len(sides) != 2 or any(wheel.position_m[1] == 0.0 for wheel in driven):
                raise ValueError("wheels: a differential base needs driven wheels left (y above 0) and right, only.")
            if len({(abs(wheel.position_m[1]), wheel.radius_m) for wheel in driven}) != 1:
                raise ValueError("wheels: a differential base's driven wheels need one radius and one distance |y|.")
        lowest = [wheel.position_m[2] - wheel.radius_m for wheel in self.wheels]
        if max(lowest) - min(lowest) > 1e-6:
            raise ValueError(f"wheels: their lowest points {lowest} m must be at one height.")
        for caster in self.casters:
            if caster.position_m[2] - caster.radius_m < lowest[0] - 1e-6:
                raise ValueError(f"casters: {caster.name} reaches below the wheels.")

    def goal_limits(self) -> GoalLimits:
        """Return the geofence."""
        limits = self.limits
        return GoalLimits(name="geofence", frame="odom", low_m=limits.geofence_min_m, high_m=limits.geofence_max_m)

    def output_numbers(self) -> dict[str, Any]:
        """Return footprint, response and limits: what a twist means, and what must not touch anything."""
        return {
            "drive": self.drive,
            "radius_m": self.radius_m,
            "corners_m": self.corners_m.tolist(),
            "response": to_data(self.response),
            "limits": to_data(self.limits),
        }

    @property
    def rest_height_m(self) -> float:
        """Height of ``base_link`` above a level floor."""
        if not self.wheels:
            return 0.0
        return self.wheels[0].radius_m - self.wheels[0].position_m[2]

    @property
    def axle_m(self) -> float:
        """x of the unsteered axle (mean of the driven wheels' on a differential base), in ``base_link``."""
        if not self.wheels:
            return 0.0
        if self.drive == "ackermann":
            return next(wheel.position_m[0] for wheel in self.wheels if not wheel.steering)
        return float(np.mean([wheel.position_m[0] for wheel in self.wheels if wheel.driven]))

    @cached_property
    def corners_m(self) -> NDArray[np.float64]:
        """(corners, 2) of its convex outline on the floor in ``base_link``, counter-clockwise; around a disc."""
        if self.outline is not None and self.outline.radius_m is not None:
            turn = np.linspace(0.0, 2.0 * math.pi, _AROUND, endpoint=False)
            radius = self.outline.radius_m / math.cos(math.pi / _AROUND)
            return np.stack((radius * np.cos(turn), radius * np.sin(turn)), axis=-1)
        if self.outline is not None:
            return hull(self.outline.corners_m)
        pieces = [rectangle(self.chassis.collision_centre_m, self.chassis.collision_size_m)]
        for wheel in self.wheels:
            most = self.steering.position_max_rad if wheel.steering and self.steering is not None else 0.0
            size = (2.0 * wheel.radius_m, wheel.width_m)
            pieces += [rectangle(wheel.position_m, size, angle) for angle in {0.0, most, -most}]
        for caster in self.casters:
            pieces.append(rectangle(caster.position_m, (2.0 * caster.radius_m,) * 2))
        return hull(np.concatenate(pieces))

    @cached_property
    def footprint(self) -> tuple[Disc, ...]:
        """Discs (x, y, radius) in ``base_link``, m, from back to front (or right to left), that cover its outline."""
        if self.outline is not None and self.outline.radius_m is not None:
            return ((0.0, 0.0, self.outline.radius_m),)
        return cover(self.corners_m)

    @property
    def radius_m(self) -> float:
        """Radius of the circle about ``base_link`` that encloses its outline: the room to turn on the spot."""
        if self.outline is not None and self.outline.radius_m is not None:
            return self.outline.radius_m
        return float(np.hypot(*self.corners_m.T).max())

    @property
    def link_friction(self) -> dict[str, float]:
        """The wheels' coefficient is the file's; casters, which are shapes of ``base_link``, have none."""
        wheels = {link_of(wheel.name): self.contact.wheel_friction for wheel in self.wheels}
        return {BODY: 0.0 if self.casters else 1.0, **wheels}

    def require_simulable(self) -> None:
        """Refuse a base without wheels, which only the batch simulator supports.

        Raises:
            UserError: It is holonomic.
        """
        if self.drive == "holonomic":
            raise UserError(
                f"{self.name} is holonomic and has no wheels, so no physics engine can move it: choose the batch"
                " simulator, or a base with wheels such as turtlebot3_burger."
            )

    @property
    def drives(self) -> tuple[DrivenJoint, ...]:
        """Its joints in the order of the wheels; a steering joint comes before its wheel."""
        joints: list[DrivenJoint] = []
        motor, steering = self.wheel_drive, self.steering
        for wheel in self.wheels:
            if wheel.steering and steering is not None:
                joints.append(
                    DrivenJoint(
                        name=wheel.steering,
                        type="revolute",
                        mode="position",
                        lower=-steering.position_max_rad,
                        upper=steering.position_max_rad,
                        velocity_max=steering.velocity_max_rad_s,
                        effort_max=steering.effort_max_n_m,
                        stiffness=steering.stiffness_n_m_per_rad,
                        damping=steering.damping_n_m_s_per_rad,
                        armature=steering.armature_kg_m2,
                    )
                )
            joints.append(
                DrivenJoint(
                    name=wheel.name,
                    type="continuous",
                    mode="velocity" if wheel.driven else "free",
                    lower=-math.inf,
                    upper=math.inf,
                    velocity_max=motor.velocity_max_rad_s,
                    effort_max=motor.effort_max_n_m if wheel.driven else 0.0,
                    damping=motor.damping_n_m_s_per_rad if wheel.driven else 0.0,
                    armature=motor.armature_kg_m2 if wheel.driven else 0.0,
                )
            )
        return tuple(joints)

    def chassis_inertial(self) -> Inertial:
        """Return mass properties of the chassis with its casters, in ``base_link``.

        Raises:
            UserError: It is holonomic and has none.
        """
        self.require_simulable()
        chassis = inertial(self.chassis.mass_kg, self.chassis.centre_of_mass_m, self.chassis.inertia)
        casters = [inertial(c.mass_kg, c.position_m, of_sphere(c.mass_kg, c.radius_m)) for c in self.casters]
        return together((chassis, *casters))

    def wheel_inertial(self, wheel: Wheel) -> Inertial:
        """Return one wheel's mass properties about its own centre."""
        across = wheel.transverse_inertia_kg_m2
        return inertial(wheel.mass_kg, (0.0, 0.0, 0.0), (across, wheel.spin_inertia_kg_m2, across))

    def knuckle_inertial(self) -> Inertial:
        """Return mass properties of the parts that a steering joint rotates, about the wheel's centre."""
        assert self.steering is not None
        mass, radius = self.steering.knuckle_mass_kg, self.steering.knuckle_radius_m
        return inertial(mass, (0.0, 0.0, 0.0), of_sphere(mass, radius))


_AROUND = 32
"""Number of corners of the polygon around a disc."""

SPEC = WheeledBase
