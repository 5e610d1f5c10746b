"""Manipulators in a simulation: joint targets in, joint states out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces.backend import Signals
from rlstack.sim.drives import joint_positions
from rlstack.sim.state import checked_command

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation

Array = NDArray[np.float64]


class ManipulatorKind:
    """One arm; see :class:`rlstack.sim.kinds.Kind`."""

    sensed = ("joint_position", "joint_velocity", "joint_effort")
    commanded = ("joint_target",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        self._simulation, self._index = simulation, index
        self._robot = simulation.robots[index]

    def read(self) -> dict[str, Array]:
        """Return the joints' state (joints,) in the robot file's order, rad or m, and N m or N."""
        joints = self._simulation.engine.joints(self._index)
        return {
            "joint_position": np.array(joints.position),
            "joint_velocity": np.array(joints.velocity),
            "joint_effort": np.array(joints.effort),
        }

    def write(self, command: Signals) -> Signals:
        """Command ``joint_target`` (joints,) rad or m; return it clipped to the joints' ranges."""
        wanted = checked_command(command, "joint_target", len(self._robot.drives))
        sent = joint_positions(self._robot, wanted)
        self._simulation.engine.drive(self._index, "file", sent)
        return {"joint_target": sent}

    def restart(self) -> None:
        """Do nothing: the simulation has reset all that it takes."""

    def stop(self) -> None:
        """Hold the joints where they are: an arm that goes limp falls."""
        self._simulation.engine.drive(self._index, "file", self._simulation.engine.joints(self._index).position)


KIND = ManipulatorKind
