"""Quadrotors in a simulation: rotor speeds in, odometry, IMU, rotor speeds and battery out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.sim.simulated_kind import MOVING, moving
from rlstack.sim.state import checked_command

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class QuadrotorKind:
    """One quadrotor; see :class:`rlstack.sim.simulated_kind.Kind`."""

    commanded = ("rotor_speed",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        self._simulation, self._index = simulation, index
        slot = simulation.slot(index)
        self._rotors = len(simulation.flying[slot].rotors)
        self._battery = simulation.models[slot].battery
        battery = ("battery_voltage", "battery_current", "battery_percentage") if self._battery else ()
        self.sensed = (*_SENSED, *battery)

    def read(self) -> dict[str, Array]:
        """Return the present state; ``linear_acceleration`` is what an accelerometer at the centre of mass feels."""
        simulation, index = self._simulation, self._index
        slot = simulation.slot(index)
        signals = moving(simulation, index)
        signals["measured_rotor_speed"] = simulation.rotorcraft.speed[:, slot].copy()
        batteries = simulation.rotorcraft.batteries
        if self._battery and batteries is not None:
            signals["battery_voltage"] = batteries.voltage[slot : slot + 1].copy()
            signals["battery_current"] = -batteries.current[slot : slot + 1]
            signals["battery_percentage"] = batteries.charge[slot : slot + 1].copy()
        return signals

    def write(self, command: Signals) -> Signals:
        """Command ``rotor_speed`` (rotors,) in rad/s; return it clipped to the rotors' range."""
        wanted = checked_command(command, "rotor_speed", self._rotors)
        slot = self._simulation.slot(self._index)
        sent = self._simulation.rotorcraft.command(slice(slot, slot + 1), wanted[:, None])
        return {"rotor_speed": sent[:, 0]}

    def restart(self) -> None:
        """Do nothing: the simulation has reset all that it takes."""

    def stop(self) -> None:
        """Cut the motors, past the command delay."""
        slot = self._simulation.slot(self._index)
        self._simulation.rotorcraft.stop(slice(slot, slot + 1))


_SENSED = (*MOVING, "measured_rotor_speed")

SIMULATION = QuadrotorKind
