"""What a robot file says of the air: numbers of the models in :mod:`rlstack.sim.physics`, and which of them are on."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class GroundEffect:
    """The floor's share in the rotors' thrust; see :mod:`rlstack.sim.physics.ground_effect`."""

    enabled: bool = True
    coefficient: float = value(1.0, above=0.0, at_most=3.5)
    """c of T / T_far = 1 / (1 - c (r / 4z)^2)."""


@dataclass(frozen=True, kw_only=True)
class RotorDrag:
    """Drag that grows with the rotors' speed, in place of the linear drag; :mod:`rlstack.sim.physics.rotor_drag`."""

    enabled: bool = True
    coefficient_kg: tuple[float, float, float] = value(unit="kg", at_least=0.0)
    """Along x, y, z of the body, N for each m/s of air and rad/s of the sum of all rotors' speeds."""


@dataclass(frozen=True, kw_only=True)
class Downwash:
    """What vehicles above do to this one; see :mod:`rlstack.sim.physics.downwash`."""

    enabled: bool = True
    vertical_drag_n_s_per_m: float = value(unit="N s/m", at_least=0.0)
    """Force along body z for each m/s of wake; what is above the linear drag counts for the wake alone."""


@dataclass(frozen=True, kw_only=True)
class Aerodynamics:
    """Models of the air that a robot file has numbers for; each can be off, and be switched by a world or a caller."""

    ground_effect: GroundEffect | None = None
    rotor_drag: RotorDrag | None = None
    downwash: Downwash | None = None


@dataclass(frozen=True, kw_only=True)
class Battery:
    """A lithium polymer battery and what it drives."""

    enabled: bool = True
    """Whether simulators compute it unless told otherwise."""
    cells: int = value(at_least=1)
    """In series."""
    capacity_ah: float = value(unit="A h", above=0.0)
    internal_resistance_ohm: float = value(unit="ohm", above=0.0)
    """Of the whole battery with its wires."""
    hover_power_w: float = value(unit="W", above=0.0)
    """Electrical, in hover far from the floor, all included."""
    full_speed_voltage_v: float = value(unit="V", above=0.0)
    """At the motors, from which on they reach the rotor model's ``speed_max_rad_s``."""
