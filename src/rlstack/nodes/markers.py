"""Markers that show a quadrotor, and the path that it is to follow, in any viewer that has no robot model."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Array
from rlstack.interfaces.messages import set_stamp
from rlstack.interfaces.path_data import read_path_data
from rlstack.robots import Quadrotor
from rlstack.robots.frames import rotate

PATH_WIDTH_M = 0.01


class Markers:
    """A ``visualization_msgs/MarkerArray`` that is filled again for every pose.

    Args:
        robot: What is shown.
    """

    def __init__(self, robot: Quadrotor) -> None:
        self._array = quadrotor_markers(robot)
        self._offsets = [(0.0, 0.0, 0.0), *(rotor.position_m for rotor in robot.rotors)]
        self._new_path: bytes | None = None

    def take_path(self, data: bytes) -> None:
        """Take in a serialized message of ``goal_path``; it is read when it is shown, off the control path."""
        self._new_path = data

    def at(self, stamp_ns: int, position: Array, orientation: Array) -> Any:
        """Return the markers with the robot at a pose (m, xyzw) in ``odom``."""
        if self._new_path is not None:
            self._show_path(self._new_path)
            self._new_path = None
        for marker, offset in zip(self._array.markers, self._offsets):
            set_stamp(marker.header.stamp, stamp_ns)
            place = position + rotate(orientation, offset)
            marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = place.tolist()
            q = marker.pose.orientation
            q.x, q.y, q.z, q.w = orientation.tolist()
        return self._array

    def _show_path(self, data: bytes) -> None:
        try:
            _, path = read_path_data(data)
        except ValueError:
            return  # the policy node says what is wrong with it
        self._array.markers[len(self._offsets) :] = [path_marker(path.position)]


def quadrotor_markers(robot: Quadrotor) -> Any:
    """Return a ``visualization_msgs/MarkerArray`` of body and rotors, fixed in ``base_link``."""
    from visualization_msgs.msg import Marker, MarkerArray

    array = MarkerArray()
    body = robot.body
    parts = [((0.0, 0.0, 0.0), body.collision_radius_m, body.collision_height_m, (0.2, 0.2, 0.25))]
    for rotor in robot.rotors:
        colour = (0.85, 0.3, 0.2) if rotor.position_m[0] > 0.0 else (0.3, 0.3, 0.3)  # the front ones are red
        parts.append((rotor.position_m, robot.rotor_model.radius_m, 0.2 * body.collision_height_m, colour))
    for number, (position, radius, height, colour) in enumerate(parts):
        marker = Marker(ns=robot.name, id=number, type=Marker.CYLINDER, action=Marker.ADD, frame_locked=True)
        marker.header.frame_id = topics.WORLD_FRAME
        scale = radius if number == 0 else 2.0 * radius
        marker.scale.x, marker.scale.y, marker.scale.z = scale, scale, height
        marker.color.r, marker.color.g, marker.color.b = colour
        marker.color.a = 1.0 if number == 0 else 0.7
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = position
        array.markers.append(marker)
    return array


def path_marker(position: Array) -> Any:
    """Return a ``visualization_msgs/Marker`` of the line through ``position`` (points, 3) m in ``odom``."""
    from geometry_msgs.msg import Point
    from visualization_msgs.msg import Marker

    marker = Marker(ns=topics.GOAL_PATH, id=0, type=Marker.LINE_STRIP, action=Marker.ADD)
    marker.header.frame_id = topics.WORLD_FRAME
    marker.pose.orientation.w = 1.0
    marker.scale.x = PATH_WIDTH_M
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = 0.1, 0.5, 0.9, 0.8
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in position.tolist()]
    return marker
