from __future__ import annotations

import numpy as np
from rclpy.serialization import serialize_message
from visualization_msgs.msg import Marker

from rlstack.interfaces.messages import path_message
from rlstack.nodes.markers import Markers
from rlstack.robots import frames, load_quadrotor

ROBOT = load_quadrotor("crazyflie")
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def path(*xs: float, frame: str = "odom") -> bytes:
    places = np.array([[x, 0.0, 1.0] for x in xs])
    message = path_message(np.arange(len(xs), dtype=float), places, np.tile(LEVEL, (len(xs), 1)), frame=frame)
    return bytes(serialize_message(message))


def test_body_and_rotors_are_where_the_robot_is() -> None:
    place, turned = np.array([1.0, 2.0, 3.0]), frames.from_yaw(np.pi / 2)
    shown = Markers(ROBOT).at(1_500_000_000, place, turned)
    body, *rotors = shown.markers
    assert len(rotors) == 4 and all(m.header.frame_id == "odom" for m in shown.markers)
    assert (body.header.stamp.sec, body.header.stamp.nanosec) == (1, 500_000_000)
    assert (body.pose.position.x, body.pose.position.y, body.pose.position.z) == (1.0, 2.0, 3.0)
    x, y, _ = ROBOT.rotors[0].position_m
    np.testing.assert_allclose([rotors[0].pose.position.x, rotors[0].pose.position.y], [1.0 - y, 2.0 + x])


def test_the_path_is_a_line_that_stays_until_another_comes() -> None:
    markers = Markers(ROBOT)
    assert all(m.type != Marker.LINE_STRIP for m in markers.at(0, np.zeros(3), LEVEL).markers)
    markers.take_path(path(0.0, 1.0, 2.0))
    for _ in range(2):
        *_, line = markers.at(0, np.zeros(3), LEVEL).markers
        assert line.type == Marker.LINE_STRIP and line.header.frame_id == "odom"
        assert [p.x for p in line.points] == [0.0, 1.0, 2.0] and line.points[0].z == 1.0
        assert line.pose.orientation.w == 1.0 and line.scale.x > 0.0
    markers.take_path(path(0.0, 5.0, frame="world"))  # refused: the one before stays
    assert len(markers.at(0, np.zeros(3), LEVEL).markers[-1].points) == 3
    markers.take_path(path(0.0, 5.0))
    lines = [m for m in markers.at(0, np.zeros(3), LEVEL).markers if m.type == Marker.LINE_STRIP]
    assert [[p.x for p in line.points] for line in lines] == [[0.0, 5.0]]
