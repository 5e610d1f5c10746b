"""Manipulators in a simulation: joint targets in; joint states and the handled object's pose out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.sim.kind_simulation import JointTargetSimulation
from rlstack.sim.obstacle import OBJECT

if TYPE_CHECKING:
    from rlstack.sim.simulation import Simulation


class ManipulatorSimulation(JointTargetSimulation):
    """One arm. A stop keeps the grippers' last targets, because fingers commanded to where an object is lose grip.

    Where the world has a movable obstacle called ``object``, its pose is sensed as well.
    """

    def __init__(self, simulation: Simulation, index: int) -> None:
        super().__init__(simulation, index)
        robot: Any = self.robot
        self._keeps_target = np.array(robot.gripping)
        things = simulation.world.obstacles if simulation.world else ()
        self._handles = any(thing.is_handled for thing in things)
        if self._handles:
            self.sensed = (*self.sensed, "object_position", "object_orientation")

    def read(self) -> dict[str, Array]:
        """Return the joints' state, and the object's pose (3,) m and (4,) xyzw in ``base_link``.

        An arm's ``odom`` frame is at its base.
        """
        signals = self.read_joints()
        if self._handles:
            place, turn = self._simulation.engine.obstacle_pose(OBJECT)
            base = self._simulation.motion(self._index)
            signals["object_position"] = frames.rotate_inverse(base["orientation"], place - base["position"])
            signals["object_orientation"] = frames.multiply(frames.inverse(base["orientation"]), turn)
        return signals


SIMULATION = ManipulatorSimulation
