"""Markers that show a robot, its path and the world, in any viewer without a robot model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp
from rlstack.interfaces.path_messages import read_path_data
from rlstack.robots import RobotSpec, frames
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Appearance
from rlstack.sim.world import World

PATH_WIDTH_M = 0.01

_UNKNOWN = '<robot name="unknown"><link name="base_link"><visual><geometry><sphere radius="0.1"/></geometry></visual>'
_UNKNOWN += "</link></robot>"


class Markers:
    """A ``visualization_msgs/MarkerArray`` that is refilled for every pose.

    All poses are in ``odom``, so that viewers need no transforms.

    Args:
        robot: The robot, shown by its model's shapes; a ball if it has none.
        name: Namespace of its markers; empty: the robot's name. Several robots in one viewer need different ones.
        frame: The frame of poses, ``odom`` with the robot's prefix.
    """

    def __init__(self, robot: RobotSpec, name: str = "", frame: str = topics.WORLD_FRAME) -> None:
        try:
            urdf = to_urdf(robot, meshes="uri", frames=False)
        except UserError:
            urdf = _UNKNOWN
        self.name = name or robot.name
        self._appearance = Appearance(urdf)
        self.frame = frame
        self._array = _shapes(self._appearance, self.name, frame)
        self._count = len(self._array.markers)
        self._resting = self._appearance.poses()
        self._new_path: bytes | None = None

    def take_path(self, data: bytes) -> None:
        """Store a serialized message of ``goal_path``; it is parsed when it is shown, off the control path."""
        self._new_path = data

    def at(self, stamp_ns: int, position: Array, orientation: Array, joints: Mapping[str, float] | None = None) -> Any:
        """Return the markers with the robot at a pose (m, xyzw) in ``odom``; joints without a position are at 0."""
        if self._new_path is not None:
            self._show_path(self._new_path)
            self._new_path = None
        offsets, turns = self._appearance.poses(joints) if joints else self._resting
        places = (position + frames.rotate(orientation, offsets)).tolist()
        turned = frames.multiply(orientation, turns).tolist()
        for marker, place, turn in zip(self._array.markers, places, turned):
            set_stamp(marker.header.stamp, stamp_ns)
            p, q = marker.pose.position, marker.pose.orientation
            p.x, p.y, p.z = place
            q.x, q.y, q.z, q.w = turn
        return self._array

    def _show_path(self, data: bytes) -> None:
        try:
            _, path = read_path_data(data)
        except ValueError:
            return  # the policy node reports what is wrong with it
        self._array.markers[self._count :] = [
            path_marker(path.position, f"{self.name}/{topics.GOAL_PATH}", path.frames[0] or self.frame)
        ]


def world_markers(world: World, frame: str = topics.WORLD_FRAME) -> Any:
    """Return a ``visualization_msgs/MarkerArray`` of a world's obstacles, for a latched topic.

    It starts with a marker that deletes earlier ones, so that another world replaces it. Movable obstacles are shown
    at their initial place, slightly transparent.
    """
    from visualization_msgs.msg import Marker, MarkerArray

    kinds = {"box": Marker.CUBE, "cylinder": Marker.CYLINDER, "sphere": Marker.SPHERE}
    clear = Marker(ns="world", action=Marker.DELETEALL)
    clear.header.frame_id = frame
    array = MarkerArray(markers=[clear])
    for number, obstacle in enumerate(world.obstacles):
        marker = _marker("world", number, kinds[obstacle.shape], obstacle.size_m)
        marker.header.frame_id = frame
        _place(marker, np.array(obstacle.position_m), frames.from_yaw(obstacle.yaw_rad))
        opacity = 0.7 if obstacle.can_move else 1.0
        _paint(marker, (*obstacle.colour, opacity))
        array.markers.append(marker)
    return array


class MovedMarkers:
    """A ``visualization_msgs/MarkerArray`` of a world's movable obstacles where they are now, by the numbers that
    :func:`world_markers` gives them.

    Args:
        world: The world.
        frame: The frame of positions.
    """

    def __init__(self, world: World, frame: str = topics.WORLD_FRAME) -> None:
        movable = {number: one.name for number, one in enumerate(world.obstacles) if one.can_move}
        self._array = world_markers(world, frame)
        self._array.markers = [marker for marker in self._array.markers[1:] if marker.id in movable]
        self.names = [movable[marker.id] for marker in self._array.markers]
        """The obstacles' names."""
        for marker in self._array.markers:
            marker.color.a = 1.0

    def at(self, stamp_ns: int, poses: Sequence[tuple[Array, Array]]) -> Any:
        """Return the markers with positions (3,) m and orientations (4,) xyzw, one for each name."""
        for marker, (position, orientation) in zip(self._array.markers, poses, strict=True):
            set_stamp(marker.header.stamp, stamp_ns)
            _place(marker, position, orientation)
        return self._array


def path_marker(position: Array, name: str = topics.GOAL_PATH, frame: str = topics.WORLD_FRAME) -> Any:
    """Return a ``visualization_msgs/Marker`` of the line through ``position`` (points, 3) m in ``frame``."""
    from geometry_msgs.msg import Point
    from visualization_msgs.msg import Marker

    marker = _marker(name, 0, Marker.LINE_STRIP, (PATH_WIDTH_M, 0.0, 0.0))
    marker.header.frame_id = frame
    _paint(marker, (0.1, 0.5, 0.9, 0.8))
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in position.tolist()]
    return marker


def _shapes(appearance: Appearance, name: str, frame: str) -> Any:
    from visualization_msgs.msg import Marker, MarkerArray

    kinds = {
        "box": Marker.CUBE,
        "cylinder": Marker.CYLINDER,
        "sphere": Marker.SPHERE,
        "mesh": Marker.MESH_RESOURCE,
    }
    array = MarkerArray()
    for number, visual in enumerate(appearance.visuals):
        marker = _marker(name, number, kinds[visual.shape], visual.size)
        marker.header.frame_id = frame
        _paint(marker, visual.colour)
        marker.mesh_resource = visual.mesh
        array.markers.append(marker)
    return array


def _marker(name: str, number: int, kind: int, size: tuple[float, float, float]) -> Any:
    from visualization_msgs.msg import Marker

    marker = Marker(ns=name, id=number, type=kind, action=Marker.ADD)
    marker.header.frame_id = topics.WORLD_FRAME
    marker.scale.x, marker.scale.y, marker.scale.z = size
    marker.pose.orientation.w = 1.0
    return marker


def _place(marker: Any, position: Array, orientation: Array) -> None:
    p, q = marker.pose.position, marker.pose.orientation
    p.x, p.y, p.z = position.tolist()
    q.x, q.y, q.z, q.w = orientation.tolist()


def _paint(marker: Any, colour: tuple[float, float, float, float]) -> None:
    c = marker.color
    c.r, c.g, c.b, c.a = map(float, colour)
