"""Wheeled bases in a simulation: a twist in, odometry, IMU and joints out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.signals import MOTION
from rlstack.kinds.wheeled_base.simulation_kinematics import TwistRamp, base_twist, measured, wheel_speeds
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.input_checks import checked_command
from rlstack.sim.kind_simulation import KindSimulation

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class WheeledBaseSimulation(KindSimulation):
    """One base."""

    sensed = (*MOTION, "joint_position", "joint_velocity", "wheel_twist")
    commanded = ("twist",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        super().__init__(simulation, index)
        robot: Any = self.robot
        self._robot: WheeledBase = robot
        self._ramp = TwistRamp(self._robot)
        simulation.before_step.append(self._drive)

    def read(self) -> dict[str, Array]:
        """Return the present state; ``wheel_twist`` (2,) m/s and rad/s is wheel odometry, including slip."""
        joints = self.read_joints()
        del joints["joint_effort"]
        return {**self.read_motion(), **joints, "wheel_twist": self._wheel_twist()}

    def write(self, command: Signals) -> Signals:
        """Command ``twist`` (2,): forward m/s and turning rad/s; return it within the speed limits.

        The wheels follow it within the limits of acceleration and jerk, after ``command_delay_s``.
        """
        wanted = base_twist(self._robot, wheel_speeds(self._robot, checked_command(command, "twist", 2)))
        self._ramp.command(wanted, self._simulation.time_s)
        return {"twist": wanted}

    def stop(self) -> None:
        """Brake at once."""
        self._ramp.restart(np.zeros(2))
        self._simulation.engine.drive(self._index, "file", np.zeros(len(self._robot.drives)))

    def restart(self) -> None:
        """Reset the commands, starting from the present wheel speeds."""
        self._ramp.restart(self._wheel_twist())

    def _wheel_twist(self) -> Array:
        joints = self._simulation.engine.joints(self._index)
        return base_twist(self._robot, measured(self._robot, joints.position, joints.velocity))

    def _drive(self, begin_s: float, step_s: float) -> None:
        if self._ramp.step(begin_s, step_s):
            self._simulation.engine.drive(self._index, "file", wheel_speeds(self._robot, self._ramp.twist))


SIMULATION = WheeledBaseSimulation
