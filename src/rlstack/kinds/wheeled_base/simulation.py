"""Wheeled bases in a simulation: a twist in, odometry, IMU and joints out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.drives import TwistRamp, base_twist, measured, wheel_speeds
from rlstack.sim.simulated_kind import MOVING, moving
from rlstack.sim.state import checked_command

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class WheeledBaseKind:
    """One base; see :class:`rlstack.sim.simulated_kind.Kind`."""

    sensed = (*MOVING, "joint_position", "joint_velocity", "wheel_twist")
    commanded = ("twist",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        self._simulation, self._index = simulation, index
        robot = simulation.robots[index]
        assert isinstance(robot, WheeledBase)
        self._robot, self._ramp = robot, TwistRamp(robot)
        simulation.before_step.append(self._drive)

    def read(self) -> dict[str, Array]:
        """Return the present state; ``wheel_twist`` (2,) m/s and rad/s is what the wheels tell, slip and all."""
        simulation, index = self._simulation, self._index
        joints = simulation.engine.joints(index)
        return {
            **moving(simulation, index),
            "joint_position": np.array(joints.position),
            "joint_velocity": np.array(joints.velocity),
            "wheel_twist": base_twist(self._robot, measured(self._robot, joints.position, joints.velocity)),
        }

    def write(self, command: Signals) -> Signals:
        """Command ``twist`` (2,): forward m/s and turning rad/s; return what the limits of speed leave of it.

        The wheels come to it within the limits of acceleration and jerk, ``command_delay_s`` from now on.
        """
        wanted = base_twist(self._robot, wheel_speeds(self._robot, checked_command(command, "twist", 2)))
        self._ramp.command(wanted, self._simulation.time_s)
        return {"twist": wanted}

    def stop(self) -> None:
        """Brake at once."""
        self._ramp.restart(np.zeros(2))
        self._simulation.engine.drive(self._index, "file", np.zeros(len(self._robot.drives)))

    def restart(self) -> None:
        """Forget what was commanded, and go on from how the wheels turn."""
        joints = self._simulation.engine.joints(self._index)
        self._ramp.restart(base_twist(self._robot, measured(self._robot, joints.position, joints.velocity)))

    def _drive(self, begin_s: float, step_s: float) -> None:
        if self._ramp.step(begin_s, step_s):
            self._simulation.engine.drive(self._index, "file", wheel_speeds(self._robot, self._ramp.twist))


SIMULATION = WheeledBaseKind
