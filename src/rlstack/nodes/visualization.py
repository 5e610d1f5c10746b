"""What viewers need besides the common topics: transforms, robot models, and markers of the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlstack.interfaces import topics
from rlstack.nodes.markers import world_markers
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.nodes.transforms import Transforms
from rlstack.sim.robot import SimulatedRobot


class Visualization:
    """Latches the models and the world, and sends transforms after the odometry that they go with.

    Args:
        node: Makes what talks (:class:`rlstack.nodes.runtime.ManagedNode`).
        robots: All of the node's.
    """

    def __init__(self, node: Any, robots: Sequence[RobotTopics]) -> None:
        self._number = {robot: number for number, robot in enumerate(robots)}
        self._transforms = Transforms(
            node, [r.robot for r in robots], [r.prefix for r in robots], [r.name for r in robots]
        )
        backend = robots[0].backend
        world = backend.simulation.world if isinstance(backend, SimulatedRobot) else None
        if world is not None and world.mjcf is None:  # what is in a MuJoCo model only MuJoCo knows
            kind = topics.type_of(topics.WORLD_MARKERS)
            node.publisher(kind, topics.WORLD_MARKERS, "latched").publish(world_markers(world))

    def sent(self, robots: Sequence[RobotTopics]) -> None:
        """Send the transforms of robots whose odometry has just gone out."""
        for robot in robots:
            number = self._number[robot]
            if robot.reading is None or not self._transforms.is_due(robot.stamp_ns, number):
                continue
            signals = robot.reading.signals
            joints, speeds = robot.kind.joints(signals), robot.kind.speeds(signals)
            pose = robot.kind.pose(robot.backend, signals)
            self._transforms.publish(robot.stamp_ns, number, *pose, joints=joints, speeds=speeds)
