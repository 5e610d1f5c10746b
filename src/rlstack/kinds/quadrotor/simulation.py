"""Quadrotors in a simulation: rotor speeds in, odometry, IMU, rotor speeds and battery out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.sim.input_checks import checked_command
from rlstack.sim.kind_simulation import MOTION, KindSimulation

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class QuadrotorSimulation(KindSimulation):
    """One quadrotor."""

    commanded = ("rotor_speed",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        super().__init__(simulation, index)
        self._slot = simulation.slot(index)
        self._battery = simulation.models[self._slot].battery
        battery = ("battery_voltage", "battery_current", "battery_percentage") if self._battery else ()
        self.sensed = (*MOTION, "measured_rotor_speed", *battery)

    def read(self) -> dict[str, Array]:
        """Return the present state; ``linear_acceleration`` is what an accelerometer at the centre of mass measures."""
        slot, rotorcraft = self._slot, self._simulation.rotorcraft
        signals = self.read_motion()
        signals["measured_rotor_speed"] = rotorcraft.speed[:, slot].copy()
        batteries = rotorcraft.batteries
        if self._battery and batteries is not None:
            signals["battery_voltage"] = batteries.voltage[slot : slot + 1].copy()
            signals["battery_current"] = -batteries.current[slot : slot + 1]
            signals["battery_percentage"] = batteries.charge[slot : slot + 1].copy()
        return signals

    def write(self, command: Signals) -> Signals:
        """Command ``rotor_speed`` (rotors,) in rad/s; return it clipped to the rotors' range."""
        slot, rotors = self._slot, len(self._simulation.flying[self._slot].rotors)
        wanted = checked_command(command, "rotor_speed", rotors)
        sent = self._simulation.rotorcraft.command(slice(slot, slot + 1), wanted[:, None])
        return {"rotor_speed": sent[:, 0]}

    def stop(self) -> None:
        """Cut the motors, bypassing the command delay."""
        self._simulation.rotorcraft.stop(slice(self._slot, self._slot + 1))


SIMULATION = QuadrotorSimulation
