"""Markers that show a quadrotor in any viewer that has no robot model."""

from __future__ import annotations

from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Array
from rlstack.robots import RobotSpec


def quadrotor_markers(robot: RobotSpec) -> Any:
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


def place_markers(array: Any, robot: RobotSpec, position: Array, orientation: Array, stamp: Any) -> Any:
    """Move the markers to a pose (m, xyzw) in ``odom`` and return them."""
    from rlstack.robots.frames import rotate

    offsets = [(0.0, 0.0, 0.0), *(rotor.position_m for rotor in robot.rotors)]
    for marker, offset in zip(array.markers, offsets):
        marker.header.stamp = stamp
        place = position + rotate(orientation, offset)
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = place.tolist()
        q = marker.pose.orientation
        q.x, q.y, q.z, q.w = orientation.tolist()
    return array
