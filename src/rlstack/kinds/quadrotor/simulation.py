"""Quadrotors in a simulation: rotor speeds, or rates and thrust in; odometry, IMU, rotor speeds and battery out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.signals import MOTION
from rlstack.sim.input_checks import checked_command
from rlstack.sim.kind_simulation import KindSimulation

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class QuadrotorSimulation(KindSimulation):
    """One quadrotor."""

    def __init__(self, simulation: Simulation, index: int) -> None:
        super().__init__(simulation, index)
        self._slot = simulation.slot(index)
        self.commanded = (command_of(self.robot).name,)
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
        """Command ``rotor_speed`` (rotors,) rad/s, or ``rates_thrust`` (4,) of a robot with a rate loop.

        Returns it clipped to its range.
        """
        slot, (name,) = self._slot, self.commanded
        wanted = checked_command(command, name, len(self._simulation.flying[slot].rotors))
        sent = self._simulation.rotorcraft.command(slice(slot, slot + 1), wanted[:, None])
        return {name: sent[:, 0]}

    def stop(self) -> None:
        """Cut the motors, bypassing the command delay."""
        self._simulation.rotorcraft.stop(slice(self._slot, self._slot + 1))


SIMULATION = QuadrotorSimulation
