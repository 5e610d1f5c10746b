"""Visualization: transforms on /tf and /tf_static, models on robot_description, and markers of the world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.frames import map_of
from rlstack.nodes.markers import MovedMarkers, world_markers
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.robots import RobotSpec
from rlstack.robots.frame_tree import TURNING, FrameTree, Joint, read_frames
from rlstack.robots.urdf import to_urdf
from rlstack.sim.simulated_robot import SimulatedRobot

MOST_PER_SECOND = 50.0
"""Period on the stamps' time; viewers draw no faster, and tf interpolates."""

_FULL_TURN = 6.283185307179586


class Transforms:
    """Broadcasts the frames of a node's robots, and latches each robot's model.

    /tf has ``odom`` to each robot's root frame and every moving joint; fixed joints, including those of cameras and
    lidars, are published once on /tf_static. All frames come from the URDF, so that they match the model. Where a ROS
    has no type for /tf there are only the models, and one log line.

    Args:
        node: Creates the publishers, :class:`rlstack.nodes.runtime.ManagedNode`; they last until its cleanup.
        robots: The node's robots.
        prefixes: Frame prefix of each robot, such as ``cf1/``; empty by default. Robots in one world need different
            ones.
        namespaces: Namespace of each one's ``robot_description``, relative to the node's, which is the default.
        world: The frame of positions.
        fixed: More transforms that never change.

    Raises:
        UserError: Two robots have a frame of the same name.
    """

    def __init__(
        self,
        node: Any,
        robots: Sequence[RobotSpec],
        prefixes: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        world: str = topics.WORLD_FRAME,
        fixed: Sequence[Transform] = (),
    ) -> None:
        prefixes = list(prefixes) or [""] * len(robots)
        namespaces = list(namespaces) or [""] * len(robots)
        urdfs = [_urdf(node, robot, prefix) for robot, prefix in zip(robots, prefixes, strict=True)]
        trees = [
            read_frames(urdf) if urdf else FrameTree(prefix + topics.BODY_FRAME, (), ())
            for urdf, prefix in zip(urdfs, prefixes)
        ]
        check_distinct(trees)
        text = topics.type_of(topics.ROBOT_DESCRIPTION)
        for namespace, urdf in zip(namespaces, urdfs, strict=True):
            topic = f"{namespace}/{topics.ROBOT_DESCRIPTION}" if namespace else topics.ROBOT_DESCRIPTION
            if urdf:
                node.publisher(text, topic, "latched").publish(text(data=urdf))
        self._robots: list[_Moving] = []
        self._publisher: Any = None
        try:
            kind = tf_type()
        except UserError as error:
            node.get_logger().warning(str(error))
            return
        self._robots = [_Moving(tree, prefix, world) for tree, prefix in zip(trees, prefixes)]
        self._publisher = node.publisher(kind, topics.TF, "tf")
        static = [*(_transform(joint) for tree in trees for joint in tree.fixed), *fixed]
        if static:  # an empty message would only hide that there is none
            node.publisher(kind, topics.TF_STATIC, "latched").publish(TfMessage(static).data)

    def publish(
        self,
        stamp_ns: int,
        robot: int,
        position: Array,
        orientation: Array,
        joints: Mapping[str, float] | None = None,
        speeds: Mapping[str, float] | None = None,
    ) -> bool:
        """Publish a robot's transforms, unless it is too soon or there are no subscribers.

        Args:
            stamp_ns: Stamp of its odometry, ns.
            robot: Index of the robot.
            position: (3,) of its root frame in the world, m.
            orientation: (4,) xyzw.
            joints: Positions by name, as in the robot file, rad or m; a missing joint stays where it was.
            speeds: Speeds by name, rad/s, of spinning joints without sensed positions, such as rotors, which are
                integrated.

        Returns:
            Whether anything was published.
        """
        if not self.is_due(stamp_ns, robot):
            return False
        self._publisher.publish(self._robots[robot].at(stamp_ns, position, orientation, joints or {}, speeds or {}))
        return True

    def is_due(self, stamp_ns: int, robot: int) -> bool:
        """Return whether :meth:`publish` would publish anything."""
        if self._publisher is None or not self._robots[robot].is_due(stamp_ns):
            return False
        return bool(self._publisher.get_subscription_count())


class _Moving:
    """One robot's message, refilled each time."""

    def __init__(self, tree: FrameTree, prefix: str, world: str) -> None:
        self._tree = tree
        self._message = TfMessage([Transform(world, tree.root), *(_transform(joint) for joint in tree.moving)])
        self._values = dict.fromkeys((joint.name for joint in tree.moving), 0.0)
        self._turning = {joint.name for joint in tree.moving if joint.kind in TURNING}
        self._prefix = prefix
        self._sent_ns: int | None = None

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether enough time has passed; time that goes backwards counts as enough."""
        least = NANOSECONDS / MOST_PER_SECOND - 1000  # stamps are rounded
        return self._sent_ns is None or not 0 <= stamp_ns - self._sent_ns < least

    def at(
        self,
        stamp_ns: int,
        position: Array,
        orientation: Array,
        joints: Mapping[str, float],
        speeds: Mapping[str, float],
    ) -> bytes:
        """Return the serialized message; see :meth:`Transforms.publish`."""
        values = self._values
        if self._sent_ns is not None and stamp_ns > self._sent_ns:
            passed_s = (stamp_ns - self._sent_ns) / NANOSECONDS
            for name, speed in speeds.items():
                if (joint := self._prefix + name) in self._turning:
                    values[joint] = (values[joint] + passed_s * float(speed)) % _FULL_TURN
        for name, value in joints.items():
            if (joint := self._prefix + name) in values:
                values[joint] = float(value)
        self._sent_ns = stamp_ns
        self._message.fill(0, stamp_ns, (*position.tolist(), *orientation.tolist()))
        where = self._tree.values(values)
        for k, moving in enumerate(self._tree.moving, 1):
            place, turn = moving.pose(where[moving.name])
            self._message.fill(k, stamp_ns, (*place, *turn))
        return self._message.data


def check_distinct(trees: Iterable[FrameTree]) -> None:
    """Refuse robots with equal frame names, which would be one frame on /tf.

    Raises:
        UserError: Two frames have one name.
    """
    seen: set[str] = set()
    for tree in trees:
        if doubled := seen.intersection(tree.frames):
            raise UserError(
                f"Two robots have a frame '{min(doubled)}', and on {topics.TF} they would be one: give each robot in a"
                " shared world a frame prefix of its own, such as its namespace and a slash."
            )
        seen.update(tree.frames)


def _urdf(node: Any, robot: RobotSpec, prefix: str) -> str:
    """Return a robot's model; empty with a warning if there is none: a robot can run without being shown."""
    try:
        return to_urdf(robot, prefix=prefix, meshes="uri")
    except UserError as error:
        node.get_logger().warning(
            f"No {topics.ROBOT_DESCRIPTION}, and only {topics.BODY_FRAME} on {topics.TF}: {error}"
        )
        return ""


def _transform(joint: Joint) -> Transform:
    """Return the transform of a joint at 0."""
    return Transform(joint.parent, joint.child, (*joint.position, *joint.orientation))


class Visualization:
    """Latches the models and the world, and publishes transforms after their odometry.

    Args:
        node: Creates publishers (:class:`rlstack.nodes.runtime.ManagedNode`).
        robots: All of the node's.
    """

    def __init__(self, node: Any, robots: Sequence[RobotTopics]) -> None:
        self._number = {robot: number for number, robot in enumerate(robots)}
        first = robots[0].frames
        specs, prefixes = [r.robot for r in robots], [r.frames.prefix for r in robots]
        fixed = [Transform(map_of(first.odom), first.odom)] if node.parameters["map_to_odom"] else []
        self._transforms = Transforms(node, specs, prefixes, [r.name for r in robots], first.odom, fixed)
        self._moved: MovedMarkers | None = None
        self._moved_publisher: Any = None
        backend = robots[0].backend
        world = backend.simulation.world if isinstance(backend, SimulatedRobot) else None
        if world is not None and world.mjcf is None:  # obstacles of a MuJoCo model are known to MuJoCo only
            kind = topics.type_of(topics.WORLD_MARKERS)
            node.publisher(kind, topics.WORLD_MARKERS, "latched").publish(world_markers(world, first.odom))
            moved = MovedMarkers(world, first.odom)
            if moved.names:
                self._moved, self._moved_publisher = moved, node.publisher(kind, topics.MOVED_MARKERS, "event")

    def publish_moved(self) -> None:
        """Publish where movable obstacles are, if there are some and somebody subscribes."""
        if self._moved is None or not self._moved_publisher.get_subscription_count():
            return
        robot = next(iter(self._number))
        engine = robot.backend.simulation.engine  # type: ignore[attr-defined]
        poses = [engine.obstacle_pose(name) for name in self._moved.names]
        self._moved_publisher.publish(self._moved.at(robot.stamp_ns, poses))

    def sent(self, robots: Sequence[RobotTopics]) -> None:
        """Publish the transforms of robots whose odometry was just published."""
        for robot in robots:
            number = self._number[robot]
            if robot.reading is None or not self._transforms.is_due(robot.stamp_ns, number):
                continue
            signals = robot.reading.signals
            joints, speeds = robot.kind.joints(signals), robot.kind.speeds(signals)
            pose = robot.kind.pose(robot.backend, signals)
            self._transforms.publish(robot.stamp_ns, number, *pose, joints=joints, speeds=speeds)
