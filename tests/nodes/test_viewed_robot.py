"""A robot's messages in a viser scene, without a browser or ROS graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.viewed_robot import ViewedRobot

viser = pytest.importorskip("viser")

URDF = """<robot name="{name}"><link name="base_link"/><link name="arm"><visual><geometry>
<sphere radius="0.1"/></geometry></visual></link>
<link name="finger"><visual><geometry><box size="{size}"/></geometry></visual></link>
<joint name="turn" type="revolute"><origin xyz="1 0 0"/><axis xyz="0 0 1"/><parent link="base_link"/><child link="arm"/>
<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="grip" type="prismatic"><axis xyz="1 0 0"/><parent link="arm"/><child link="finger"/>
<limit lower="0" upper="1" effort="1" velocity="1"/></joint></robot>"""
HERE = {
    "/cf/joint_states": [topics.TYPES[topics.JOINT_STATES]],
    "/cf/scan": [topics.SCAN_TYPE],
    "/cf/image_raw": ["sensor_msgs/msg/Image"],
    "/cf/front/image_raw": ["sensor_msgs/msg/Image"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    made = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield made
    made.stop()


HEADER = SimpleNamespace(stamp=SimpleNamespace(sec=1, nanosec=0), frame_id="odom")


def build(robot: ViewedRobot) -> None:
    """Have a robot's description built, which a thread does."""
    robot.build()
    deadline = time.monotonic() + 20.0
    while robot._builder is not None and time.monotonic() < deadline:
        time.sleep(0.002)
        robot.build()


class Topics:
    """Remembers what is subscribed to."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[Any], None]] = {}

    def subscribe(self, kind: Any, topic: str, callback: Callable[[Any], None], use: str) -> str:
        self.callbacks[topic] = callback
        return topic

    def unsubscribe(self, topic: str) -> None:
        del self.callbacks[topic]


@pytest.fixture
def polled() -> Topics:
    return Topics()


@pytest.fixture
def robot(server: Any, polled: Topics) -> ViewedRobot:
    made = ViewedRobot(server.scene, polled, "/cf")  # type: ignore[arg-type]
    made.discover(HERE)
    describe(polled, URDF.format(name="one", size="1 1 1"))
    build(made)
    return made


def describe(polled: Topics, urdf: str) -> None:
    polled.callbacks["/cf/robot_description"](SimpleNamespace(data=urdf))


def joints(polled: Topics, **positions: float) -> None:
    message = SimpleNamespace(name=list(positions), position=list(positions.values()), velocity=[], header=HEADER)
    polled.callbacks["/cf/joint_states"](message)


def scan(polled: Topics) -> None:
    header = SimpleNamespace(frame_id="arm")
    beams = {"angle_min": 0.0, "angle_increment": 0.1, "range_min": 0.0, "range_max": 9.0, "ranges": [1.0, 2.0]}
    polled.callbacks["/cf/scan"](SimpleNamespace(header=header, **beams))


def test_joints_of_several_publishers_are_kept_and_what_is_no_number_is_left_out(
    robot: ViewedRobot, polled: Topics
) -> None:
    joints(polled, turn=np.pi / 2)
    joints(polled, grip=0.5, turn=float("nan"))
    pose = robot.pose_of("finger")
    assert pose is not None
    np.testing.assert_allclose(pose[0], [1.0, 0.5, 0.0], atol=1e-9)


def test_a_robot_that_comes_back_as_another_keeps_its_joints_and_scans(
    robot: ViewedRobot, polled: Topics, server: Any
) -> None:
    joints(polled, turn=np.pi / 2)
    scan(polled)
    first = server.scene.get_handle_by_name("/robots/cf")
    describe(polled, URDF.format(name="one", size="1 1 1"))
    build(robot)
    assert server.scene.get_handle_by_name("/robots/cf") is first  # the same robot, again
    describe(polled, URDF.format(name="other", size="2 2 2"))
    build(robot)
    assert robot.model_name == "other"
    scan(polled)
    assert server.scene.get_handle_by_name("/robots/cf/arm/scan").points.shape == (2, 3)
    pose = robot.pose_of("arm")
    assert pose is not None
    np.testing.assert_allclose(pose[1], [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)], atol=1e-9)


def test_a_description_without_sense_is_refused_and_nothing_is_drawn(robot: ViewedRobot, polled: Topics) -> None:
    describe(polled, URDF.format(name="bad", size="1 1"))
    with pytest.raises(UserError, match="a number"):
        build(robot)
    joints(polled, turn=1.0)
    scan(polled)
    assert robot.pose_of("arm") is None


def test_a_camera_may_have_no_name(robot: ViewedRobot, polled: Topics) -> None:
    assert robot.cameras == ["", "front"]
    ends = [robot.watch(camera, lambda image: None) for camera in robot.cameras]
    assert {"/cf/image_raw", "/cf/front/image_raw"} <= polled.callbacks.keys()
    for end in ends:
        end()
    assert not {"/cf/image_raw", "/cf/front/image_raw"} & polled.callbacks.keys()


def test_an_arm_stands_at_the_origin_until_its_place_is_told(robot: ViewedRobot, polled: Topics) -> None:
    assert robot.joint_ranges() == [] and not robot.unplaced
    joints(polled, turn=1.5)
    assert robot.unplaced and robot.root == "base_link"
    assert robot.joint_ranges() == [("turn", 1.5, -3.0, 3.0)]
    robot.put(np.array([0.0, 2.0, 0.5]), np.array([0.0, 0.0, 0.0, 1.0]))
    pose = robot.pose_of("arm")
    assert pose is not None and not robot.unplaced
    np.testing.assert_allclose(pose[0], [1.0, 2.0, 0.5])
    joints(polled, turn=1.0)
    assert not robot.unplaced


def test_wheels_roll_by_the_way_and_rotors_turn_by_their_speed(server: Any, polled: Topics) -> None:
    from rlstack.robots import load_robot
    from rlstack.robots.urdf import to_urdf

    made = ViewedRobot(server.scene, polled, "/cf")  # type: ignore[arg-type]
    made.discover({"/cf/odom": [topics.TYPES[topics.ODOM]], "/cf/cmd/rotors": [topics.TYPES[topics.ROTOR_COMMAND]]})
    describe(polled, to_urdf(load_robot("turtlebot3_burger")))
    build(made)
    odometry = topics.type_of(topics.ODOM)()
    odometry.pose.pose.orientation.w = 1.0
    for x in (0.0, 0.0165):  # half a radius
        odometry.pose.pose.position.x = x
        polled.callbacks["/cf/odom"](odometry)
    wheel = server.scene.get_handle_by_name("/robots/cf/wheel_left_link")
    np.testing.assert_allclose(wheel.wxyz, [np.cos(0.25), 0.0, np.sin(0.25), 0.0], atol=1e-6)
    describe(polled, to_urdf(load_robot("crazyflie")))
    build(made)
    rotor = server.scene.get_handle_by_name("/robots/cf/m1_link")
    for _ in range(2):
        polled.callbacks["/cf/cmd/rotors"](SimpleNamespace(name=["m1"], velocity=[2000.0]))
        time.sleep(0.01)
    assert 0.0 < abs(rotor.wxyz[3]) < 0.5
