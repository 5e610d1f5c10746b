"""Manipulators in a simulation: joint targets in; joint states out, and where what they handle is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import Signals
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import frames
from rlstack.robots.kinematics import Chain, chain_of, tool_motion
from rlstack.sim.drives import joint_positions
from rlstack.sim.obstacle import OBJECT
from rlstack.sim.state import checked_command

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


"""The obstacle of a world that an arm handles."""


class ManipulatorKind:
    """One arm; see :class:`rlstack.sim.simulated_kind.Kind`."""

    commanded = ("joint_target",)

    def __init__(self, simulation: Simulation, index: int) -> None:
        self._simulation, self._index = simulation, index
        self._robot = simulation.robots[index]
        things = simulation.world.obstacles if simulation.world else ()
        self._handles = any(thing.is_handled for thing in things)
        self._chains: dict[str, Chain] = {}
        assert isinstance(self._robot, Manipulator)
        self._gripping = np.array(self._robot.gripping)
        self._target: Array | None = None
        """What :meth:`write` told the drives last, rad or m; None: nothing since the robot was put somewhere."""
        self._stopped = False
        self.sensed = (*_SENSED, *(("object_position", "object_orientation") if self._handles else ()))

    def read(self) -> dict[str, Array]:
        """Return the joints' state (joints,) in the robot file's order, rad or m, and N m or N.

        Where the world has an obstacle called ``object`` that can be pushed, also its pose (3,) m and (4,) xyzw in
        ``base_link``: an arm's ``odom`` is where it stands.
        """
        joints = self._simulation.engine.joints(self._index)
        signals = {
            "joint_position": np.array(joints.position),
            "joint_velocity": np.array(joints.velocity),
            "joint_effort": np.array(joints.effort),
        }
        if self._handles:
            place, turn = self._simulation.engine.obstacle_pose(OBJECT)
            base = self._simulation.motion(self._index)
            signals["object_position"] = frames.rotate_inverse(base["orientation"], place - base["position"])
            signals["object_orientation"] = frames.multiply(frames.inverse(base["orientation"]), turn)
        return signals

    def link(self, name: str) -> tuple[Array, Array]:
        """Return where one of the model's links is in the world: (3,) m and (4,) xyzw; a camera may sit on it.

        Raises:
            UserError: The model has no such link.
        """
        if name not in self._chains:
            assert isinstance(self._robot, Manipulator)
            self._chains[name] = chain_of(self._robot, name)
        chain = self._chains[name]
        joints = np.array(self._simulation.engine.joints(self._index).position)[list(chain.index)]
        base = self._simulation.motion(self._index)
        if not len(joints):  # it moves with the base: as the model has it
            place, turn = chain.screws.tool[:3, 3], chain.screws.tool[:3, :3]
        else:
            moved = tool_motion(chain.screws, joints[None])
            place, turn = moved.position[0], moved.rotation[0]
        found = base["position"] + frames.rotate(base["orientation"], place)
        return found, frames.multiply(base["orientation"], frames.from_matrix(turn))

    def write(self, command: Signals) -> Signals:
        """Command ``joint_target`` (joints,) rad or m; return it clipped to the joints' ranges."""
        wanted = checked_command(command, "joint_target", len(self._robot.drives))
        sent = joint_positions(self._robot, wanted)
        self._simulation.engine.drive(self._index, "file", sent)
        self._target, self._stopped = sent, False
        return {"joint_target": sent}

    def restart(self) -> None:
        """Forget commands and stops: the simulation drives the joints to where it has put them."""
        self._target, self._stopped = None, False

    def stop(self) -> None:
        """Hold the arm's joints where they are now, and leave grippers their last targets, until the next command.

        An arm that goes limp falls. Further calls change nothing: a target that is measured anew follows a load down.
        """
        if self._stopped:
            return
        hold = np.array(self._simulation.engine.joints(self._index).position)
        if self._target is not None:  # fingers that are to be where a thing is do not hold it
            hold = np.where(self._gripping, self._target, hold)
        self._simulation.engine.drive(self._index, "file", hold)
        self._stopped = True


_SENSED = ("joint_position", "joint_velocity", "joint_effort")

SIMULATION = ManipulatorKind
