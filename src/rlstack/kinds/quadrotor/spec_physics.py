"""Aerodynamics and battery in a robot file: parameters of the models in :mod:`rlstack.sim.physics`."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class GroundEffect:
    """Ground effect on the rotors' thrust; see :mod:`rlstack.sim.physics.ground_effect`."""

    enabled: bool = True
    coefficient: float = value(1.0, above=0.0, at_most=3.5)
    """c of T / T_far = 1 / (1 - c (r / 4z)^2)."""


@dataclass(frozen=True, kw_only=True)
class RotorDrag:
    """Drag proportional to rotor speed, in place of linear drag; :mod:`rlstack.sim.physics.rotor_drag`."""

    enabled: bool = True
    coefficient_kg: tuple[float, float, float] = value(unit="kg", at_least=0.0)
    """Along x, y, z of the body, N per m/s of airspeed and per rad/s of the sum of all rotor speeds."""


@dataclass(frozen=True, kw_only=True)
class Downwash:
    """Effect of vehicles above on this one; see :mod:`rlstack.sim.physics.downwash`."""

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
    cells: int = value(at_least=1)
    """In series."""
    capacity_ah: float = value(unit="A h", above=0.0)
    internal_resistance_ohm: float = value(unit="ohm", above=0.0)
    """Resistance of the whole battery with its wires."""
    hover_power_w: float = value(unit="W", above=0.0)
    """Total electrical power in hover, out of ground effect."""
    full_speed_voltage_v: float = value(unit="V", above=0.0)
    """Lowest voltage at the motors at which they reach the rotor model's ``speed_max_rad_s``."""
