"""Sensing and commanding one robot of a simulation: the part ``simulation`` of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.signals import MOTION
from rlstack.robots import RobotSpec, frames
from rlstack.robots.joints import clip_targets
from rlstack.robots.kinematics import Chain, chain_of, tool_motion
from rlstack.sim.input_checks import checked_command

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation

JOINTS = ("joint_position", "joint_velocity", "joint_effort")
"""Signals of every robot with joints."""


class KindSimulation:
    """One robot of a simulation; a kind's subclass implements sensing and commands, the defaults raise ``UserError``.

    Args:
        simulation: The simulation.
        index: Index of the robot.
    """

    sensed: tuple[str, ...] = ()
    commanded: tuple[str, ...] = ()

    def __init__(self, simulation: Simulation, index: int) -> None:
        self._simulation, self._index = simulation, index
        self.robot: RobotSpec = simulation.robots[index]
        self._chains: dict[str, Chain] = {}

    def read(self) -> dict[str, Array]:
        """Return the true value of each signal in ``sensed``."""
        raise self._refusal("sensed")

    def write(self, command: Signals) -> Signals:
        """Command the robot; return the command that was sent.

        Raises:
            ValueError: The command is not exactly one finite array of its shape; nothing was sent.
        """
        raise self._refusal("commanded")

    def stop(self) -> None:
        """Stop all actuators now, without command delay."""
        raise self._refusal("stopped")

    def restart(self) -> None:
        """Reset internal state after the robot was moved."""

    def link(self, name: str) -> tuple[Array, Array]:
        """Return the world pose of a link of the model, on which a camera may be mounted: (3,) m and (4,) xyzw.

        Raises:
            UserError: The model has no such link.
        """
        if name not in self._chains:
            self._chains[name] = chain_of(self.robot, name)
        chain = self._chains[name]
        base = self._simulation.motion(self._index)
        if not chain.joints:  # fixed to the base: the model's constant pose
            place, turn = chain.screws.tool[:3, 3], chain.screws.tool[:3, :3]
        else:
            joints = self._simulation.engine.joints(self._index).position[list(chain.index)]
            moved = tool_motion(chain.screws, np.array(joints)[None])
            place, turn = moved.position[0], moved.rotation[0]
        found = base["position"] + frames.rotate(base["orientation"], place)
        return found, frames.multiply(base["orientation"], frames.from_matrix(turn))

    def read_motion(self) -> dict[str, Array]:
        """Return the true value of each signal in :data:`MOTION`; the accelerometer is at the centre of mass."""
        motion = self._simulation.motion(self._index)
        return {
            "position": motion["position"],
            "orientation": motion["orientation"],
            "linear_velocity": frames.rotate_inverse(motion["orientation"], motion["linear_velocity"]),
            "angular_velocity": motion["angular_velocity"],
            "linear_acceleration": self._simulation.specific_force(self._index),
            "imu_angular_velocity": motion["angular_velocity"].copy(),
        }

    def read_joints(self) -> dict[str, Array]:
        """Return the true value of each signal in :data:`JOINTS` (joints,), in file order: rad or m, N m or N."""
        joints = self._simulation.engine.joints(self._index)
        return {
            "joint_position": np.array(joints.position),
            "joint_velocity": np.array(joints.velocity),
            "joint_effort": np.array(joints.effort),
        }

    def _refusal(self, what: str) -> UserError:
        return UserError(f"A {self.robot.kind} such as {self.robot.name} cannot be {what} in a simulation.")


class JointTargetSimulation(KindSimulation):
    """A robot with joint position commands: a fixed arm or a legged robot."""

    commanded = ("joint_target",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        super().__init__(simulation, index)
        self.sensed = JOINTS if self.robot.fixed_base else (*MOTION, *JOINTS)
        self._keeps_target = np.zeros(len(self.robot.drives), dtype=bool)
        """Whether a stop keeps each joint's last target instead of its present position."""
        self._target: Array | None = None
        """The last command, rad or m; None: none since the last reset."""
        self._stopped = False

    def read(self) -> dict[str, Array]:
        """Return the joints' state and, for a mobile robot, its motion."""
        return self.read_joints() if self.robot.fixed_base else {**self.read_motion(), **self.read_joints()}

    def write(self, command: Signals) -> Signals:
        """Command ``joint_target`` (joints,) rad or m; return it clipped to the joints' ranges."""
        wanted = checked_command(command, "joint_target", len(self.robot.drives))
        sent = clip_targets(self.robot.drives, wanted)
        self._simulation.engine.drive(self._index, "file", sent)
        self._target, self._stopped = sent, False
        return {"joint_target": sent}

    def restart(self) -> None:
        """Clear commands and stops; the simulation drives the joints to their reset positions."""
        self._target, self._stopped = None, False

    def stop(self) -> None:
        """Hold the joints at their present positions until the next command, as a limp robot would fall.

        Further calls change nothing: a target measured again would sag under load.
        """
        if self._stopped:
            return
        hold = np.array(self._simulation.engine.joints(self._index).position)
        if self._target is not None:
            hold = np.where(self._keeps_target, self._target, hold)
        self._simulation.engine.drive(self._index, "file", hold)
        self._stopped = True
