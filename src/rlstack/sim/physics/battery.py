"""Battery sag: charge and load of a lithium polymer battery limit the rotors' speed.

- Open-circuit voltage of a cell by state of charge s: Chen and Rincon-Mora, "Accurate Electrical Battery Model Capable
  of Predicting Runtime and I-V Performance", IEEE Trans. Energy Conversion 21(2), 2006, eq. 2, for a polymer
  lithium-ion cell: -1.031 exp(-35 s) + 3.685 + 0.2156 s - 0.1178 s^2 + 0.3201 s^3.
- The motor voltage is V = V_open - R I, with one resistance R (the paper's two slower time constants are omitted) and
  the current for the power P = V I: I = (V_open - sqrt(V_open^2 - 4 R P)) / (2 R).
- Power by momentum theory (Leishman, "Principles of Helicopter Aerodynamics", 2nd ed. 2006, section 2.3): T^(3/2) for
  each rotor, scaled to the hover power: the efficiency of rotors and motors is assumed constant.
- A motor's speed at full throttle is proportional to the voltage: top speed = speed_max min(1, V / V_full). Below it,
  the speed controller holds the command.

Valid from full charge to about 5% and at room temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.fused import clip, maximum, minimum
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.physics.body import Vector


def open_circuit_voltage(charge: Any) -> Any:
    """Return the open-circuit voltage of a cell, V, at a state of charge from 0 to 1."""
    return -1.031 * np.exp(-35.0 * charge) + 3.685 + charge * (0.2156 + charge * (-0.1178 + charge * 0.3201))


def current(power: Any, open_voltage: Any, resistance: Any) -> Any:
    """Return the current, A, for a power, W, at an open voltage, V, and a resistance above 0 ohm.

    Beyond the battery's greatest power, it is the current at that power.
    """
    left = maximum(open_voltage * open_voltage - 4.0 * resistance * power, 0.0)
    return (open_voltage - np.sqrt(left)) * (0.5 / resistance)


def electrical_power(thrust: Vector, hover_thrust: Any, hover_power: Any) -> Any:
    """Return the rotors' electrical power, W, at ``thrust`` (rotors,) N; in hover, one rotor's thrust and all power."""
    share = thrust * np.sqrt(thrust)
    return hover_power * share.sum(axis=0) / (len(thrust) * hover_thrust * np.sqrt(hover_thrust))


def top_speed(voltage: Any, full_voltage: Any, highest: Any) -> Any:
    """Return the reachable rotor speed, rad/s, from the highest at full voltage."""
    return highest * minimum(voltage / full_voltage, 1.0)


class Batteries:
    """The batteries of N quadrotors.

    Args:
        robots: N quadrotors; those without a battery in their file never run low.
        on: (N,) which batteries are simulated; None: all.
    """

    def __init__(self, robots: Sequence[Quadrotor], on: Sequence[bool] | None = None) -> None:
        chosen = [True] * len(robots) if on is None else on
        self.present: NDArray[np.bool_] = np.array([r.battery is not None and c for r, c in zip(robots, chosen)])
        """(N,) which robots have a simulated battery."""

        def rows(name: str) -> Array:
            return np.array([float(getattr(r.battery, name)) if r.battery else 1.0 for r in robots])

        self._cells, self._resistance, self._full = map(
            rows, ("cells", "internal_resistance_ohm", "full_speed_voltage_v")
        )
        self._capacity_as, self._hover_power = 3600.0 * rows("capacity_ah"), rows("hover_power_w")
        self._hover_thrust = np.array([r.weight_n / len(r.rotors) for r in robots])
        self._highest = np.array([r.rotor_model.speed_max_rad_s for r in robots])
        fits = np.array([r.rotor_model.thrust_coefficients for r in robots], dtype=float)
        self._c0, self._c1, self._c2 = np.ascontiguousarray(fits.T)
        self.charge: Array = np.ones(len(robots))
        """(N,) state of charge, 0 to 1."""
        self.current: Array = np.zeros(len(robots))
        """(N,) current, A."""
        self.voltage: Array = self._cells * open_circuit_voltage(self.charge)
        """(N,) voltage at the motors, V."""
        self.top_speed: Array = self._highest.copy()
        """(N,) reachable rotor speed, rad/s; without a battery, the file's limit."""

    def reset(self, index: Any = slice(None), charge: float = 1.0) -> None:
        """Insert rested batteries with a state of charge ``charge``."""
        self.charge[index], self.current[index] = charge, 0.0
        self.voltage[index] = (self._cells * open_circuit_voltage(self.charge))[index]
        self._limit()

    def advance(self, duration_s: float, speed: Array) -> None:
        """Discharge for ``duration_s`` by rotors at ``speed`` (rotors, N) rad/s."""
        thrust = np.maximum(self._c0 + speed * (self._c1 + speed * self._c2), 0.0)
        power = electrical_power(thrust, self._hover_thrust, self._hover_power)
        unloaded = self._cells * open_circuit_voltage(self.charge)
        self.current = current(power, unloaded, self._resistance)
        self.voltage = unloaded - self._resistance * self.current
        self.charge = clip(self.charge - self.current * (duration_s / self._capacity_as), 0.0, 1.0)
        self._limit()

    def _limit(self) -> None:
        reachable = top_speed(self.voltage, self._full, self._highest)
        self.top_speed = np.where(self.present, reachable, self._highest)
