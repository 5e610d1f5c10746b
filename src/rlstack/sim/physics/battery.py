"""Battery sag: what is left in a lithium polymer battery, and what is drawn from it, limit the rotors' speed.

- Open-circuit voltage of a cell by state of charge s: Chen and Rincon-Mora, "Accurate Electrical Battery Model Capable
  of Predicting Runtime and I-V Performance", IEEE Trans. Energy Conversion 21(2), 2006, eq. 2, for a polymer
  lithium-ion cell: -1.031 exp(-35 s) + 3.685 + 0.2156 s - 0.1178 s^2 + 0.3201 s^3.
- At the motors it is V = V_open - R I, with one resistance R (the two slower time constants there are left out) and the
  current that gives the power, P = V I: I = (V_open - sqrt(V_open^2 - 4 R P)) / (2 R).
- Power by momentum theory (Leishman, "Principles of Helicopter Aerodynamics", 2nd ed. 2006, section 2.3): T^(3/2) for
  each rotor, scaled to what hover takes: the efficiency of rotors and motors counts as constant.
- A motor's speed at full throttle goes with the voltage: top speed = speed_max min(1, V / V_full). Below it the speed
  controller holds what was commanded.

Valid from full to some 5% of charge and at room temperature.
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
    """Return the voltage of a cell without load, V, at a state of charge from 0 to 1."""
    return -1.031 * np.exp(-35.0 * charge) + 3.685 + charge * (0.2156 + charge * (-0.1178 + charge * 0.3201))


def current(power: Any, open_voltage: Any, resistance: Any) -> Any:
    """Return the current that a power takes, A; for more than the battery can give, that at which it gives most.

    Args:
        power: W.
        open_voltage: V.
        resistance: Above 0 ohm.
    """
    left = maximum(open_voltage * open_voltage - 4.0 * resistance * power, 0.0)
    return (open_voltage - np.sqrt(left)) * (0.5 / resistance)


def electrical_power(thrust: Vector, hover_thrust: Any, hover_power: Any) -> Any:
    """Return what the rotors take, W.

    Args:
        thrust: (rotors,) at least 0 N.
        hover_thrust: Of one rotor in hover, N.
        hover_power: Of all rotors there, W.
    """
    share = thrust * np.sqrt(thrust)
    return hover_power * share.sum(axis=0) / (len(thrust) * hover_thrust * np.sqrt(hover_thrust))


def top_speed(voltage: Any, full_voltage: Any, highest: Any) -> Any:
    """Return the rotor speed that can be reached, rad/s, of the highest at full voltage."""
    return highest * minimum(voltage / full_voltage, 1.0)


class Batteries:
    """The batteries of N quadrotors.

    Args:
        robots: N quadrotors; those whose file has no battery never run low.
        on: (N,) whose battery is computed; None: of all that have one.
    """

    def __init__(self, robots: Sequence[Quadrotor], on: Sequence[bool] | None = None) -> None:
        chosen = [True] * len(robots) if on is None else on
        self.present: NDArray[np.bool_] = np.array([r.battery is not None and c for r, c in zip(robots, chosen)])
        """(N,) who has one."""

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
        """(N,) 0 to 1."""
        self.current: Array = np.zeros(len(robots))
        """(N,) A that is drawn."""
        self.voltage: Array = self._cells * open_circuit_voltage(self.charge)
        """(N,) V at the motors."""
        self.top_speed: Array = self._highest.copy()
        """(N,) rad/s that the rotors can reach; the file's where there is no battery."""

    def reset(self, index: Any = slice(None), charge: float = 1.0) -> None:
        """Put batteries in that hold a share ``charge`` and have rested."""
        self.charge[index], self.current[index] = charge, 0.0
        self.voltage[index] = (self._cells * open_circuit_voltage(self.charge))[index]
        self._limit()

    def advance(self, duration_s: float, speed: Array) -> None:
        """Draw for ``duration_s`` what rotors at ``speed`` (rotors, N) rad/s take."""
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
