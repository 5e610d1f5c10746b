"""What a robot file says of the battery; the model is :mod:`rlstack.sim.physics.battery`."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


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
