"""A wheeled base in a simulator behind the common topics: what it says, what it takes, and what stops it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import Trigger

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.twist_messages import TwistMessage
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.robots import frames
from tests.support.bases import turtlebot, write_driving_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = turtlebot()
Start = Callable[..., Any]


@pytest.fixture
def start(listener: Listener) -> Iterator[Start]:
    """Return a function that starts a node in this process."""
    started: list[Any] = []

    def begin(kind: Any, **overrides: Any) -> Any:
        node = kind(overrides=overrides, context=listener.context)
        listener.executor.add_node(node)
        started.append(node)
        node.start()
        return node

    yield begin
    for node in started:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


class Driver:
    """Drives one base by hand."""

    def __init__(self, listener: Listener, prefix: str = "", plain: bool = False) -> None:
        self.listener = listener
        self.message = TwistMessage(plain=plain)
        name = f"{prefix}/" if prefix else ""
        self.odom = listener.hear(topics.ODOM, depth=100, robot=prefix)
        self.scans: list[Any] = []
        kind = topics.message_type(topics.SCAN_TYPE)
        quality = topics.quality("sensor_in_reliable")
        listener.node.create_subscription(kind, f"{name}scan", self.scans.append, quality)
        self.sender = listener.node.create_publisher(
            self.message.type, name + topics.TWIST_COMMAND, topics.quality("command")
        )
        listener.until(lambda: self.odom and self.scans, "odometry and a scan")

    @property
    def stamp_ns(self) -> int:
        return stamp_to_ns(self.odom[-1].header.stamp)

    @property
    def speed(self) -> float:
        return float(self.odom[-1].twist.twist.linear.x)

    def send(self, forward: float, turn: float, stamp_ns: int | None = None) -> None:
        stamp = self.stamp_ns if stamp_ns is None else stamp_ns
        self.sender.publish(self.message.fill(stamp, np.array([forward, turn])))

    def drive(self, forward: float, turn: float, seconds: float) -> None:
        """Send commands for so much of the robot's time."""
        end = self.stamp_ns + seconds * NANOSECONDS
        while self.stamp_ns < end:
            self.send(forward, turn)
            self.listener.spin(0.03)


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_base_says_where_it_is_and_what_it_sees_and_stops_without_commands(
    listener: Listener, start: Start, engine: str
) -> None:
    pytest.importorskip(engine)
    node = start(RobotNode, robot=ROBOT.name, backend=engine, world="room:3", real_time_factor=2.0)
    joints, imu = listener.hear(topics.JOINT_STATES), listener.hear(topics.IMU)
    markers = listener.hear(topics.MARKERS, "event")
    description = listener.hear(topics.ROBOT_DESCRIPTION, "latched")
    driver = Driver(listener)
    driver.drive(0.15, 0.5, 1.5)
    listener.until(lambda: joints and imu and markers and description, "everything that it senses")
    assert driver.speed == pytest.approx(0.15, rel=0.15)
    assert driver.odom[-1].twist.twist.angular.z == pytest.approx(0.5, rel=0.15)
    assert list(joints[-1].name) == ["wheel_left_joint", "wheel_right_joint"]
    left, right = joints[-1].position
    assert 1.0 < left < right and max(joints[-1].velocity) < ROBOT.wheel_drive.velocity_max_rad_s
    assert "wheel_left_joint" in description[0].data
    scan, stamps = driver.scans[-1], {stamp_to_ns(m.header.stamp) for m in driver.odom}
    assert scan.header.frame_id == "scan_link" and len(scan.ranges) == ROBOT.lidars["scan"].rays
    assert {stamp_to_ns(m.header.stamp) for m in driver.scans[1:]} <= stamps
    assert np.diff([stamp_to_ns(m.header.stamp) for m in driver.scans[-3:]]).mean() == pytest.approx(1e8, rel=0.35)
    began = driver.stamp_ns
    listener.until(lambda: abs(driver.speed) < 0.01, "a stop")
    stopped_s = (driver.stamp_ns - began) / NANOSECONDS
    # it goes on for the limit, and brakes at the drive's own pace
    assert stopped_s < ROBOT.limits.command_timeout_s + 0.6
    assert node.status()[1]["watchdog"] == 1 and "commands have ended" in node.status()[0]


def test_old_and_foreign_stamps_are_refused_and_a_reset_brings_it_back(listener: Listener, start: Start) -> None:
    node = start(RobotNode, robot=ROBOT.name, real_time_factor=3.0)
    driver = Driver(listener)
    listener.until(lambda: driver.stamp_ns > 0.8 * NANOSECONDS, "some time")
    for stamp, words in (
        (driver.stamp_ns - round(0.6 * NANOSECONDS), "0.5 s are allowed"),
        (driver.stamp_ns + 10**6 * NANOSECONDS, "s ahead of the last observation: stamp it by /clock"),
    ):
        refused = node.status()[1]["refused"]
        driver.send(0.2, 0.0, stamp)
        listener.until(lambda refused=refused: node.status()[1]["refused"] > refused, "a refusal")
        assert words in node.status()[1]["last refusal"]
    driver.sender.publish(driver.message.fill(0, np.array([np.nan, 0.0])))
    listener.until(lambda: "finite" in node.status()[1]["last refusal"], "a refusal")
    assert driver.speed == pytest.approx(0.0, abs=1e-3)
    driver.sender.publish(driver.message.fill(0, np.array([0.2, 0.0])))  # no stamp is now
    listener.until(lambda: driver.speed > 0.15, "driving")
    driver.drive(0.2, 0.0, 1.0)
    assert driver.odom[-1].pose.pose.position.x > 0.1
    assert listener.call(Trigger, topics.RESET, Trigger.Request()).success
    listener.until(lambda: abs(driver.odom[-1].pose.pose.position.x) < 0.01, "its start")
    listener.spin(0.3)
    assert abs(driver.odom[-1].pose.pose.position.x) < 0.01, "what was commanded before the reset is forgotten"


def test_a_plain_twist_drives_it_where_that_is_asked_for(listener: Listener, start: Start) -> None:
    start(RobotNode, robot=ROBOT.name, real_time_factor=3.0, cmd_vel_type="Twist")
    driver = Driver(listener, plain=True)
    driver.drive(0.1, 0.0, 0.6)
    assert driver.speed == pytest.approx(0.1, rel=0.15)


def test_it_starts_as_the_map_of_its_world_says_heading_and_all(listener: Listener, start: Start) -> None:
    node = start(RobotNode, robot=ROBOT.name, world="doorways:4", lock_step=True)
    listener.until(lambda: node.robots[0].reading is not None, "odometry")
    drawn = node.robots[0].backend.simulation.world.floor_map
    reading = node.robots[0].reading.signals
    assert abs(float(drawn.start[2])) > 0.1, "a map that shows it"
    np.testing.assert_allclose(reading["position"][:2], drawn.start[:2], atol=1e-3)
    assert math.remainder(frames.yaw(reading["orientation"]) - drawn.start[2], 2 * math.pi) == pytest.approx(
        0, abs=1e-3
    )


def test_in_lock_step_what_is_said_again_comes_with_its_scan(listener: Listener, start: Start) -> None:
    start(RobotNode, robot=ROBOT.name, lock_step=True)
    driver = Driver(listener)
    before = len(driver.scans)
    listener.until(lambda: len(driver.scans) >= before + 2, "the same scan again")
    assert len({stamp_to_ns(m.header.stamp) for m in driver.scans}) == 1, "no time passes"
    first, *_, last = driver.scans
    assert first.ranges.tobytes() == last.ranges.tobytes(), "it is the same, and not another of the same time"


def test_two_bases_share_a_world_in_lock_step(listener: Listener, start: Start) -> None:
    start(RobotNode, robot=ROBOT.name, count=2, lock_step=True)
    drivers = [Driver(listener, f"{ROBOT.name}{k}") for k in (1, 2)]
    for _ in range(15):
        before = [driver.stamp_ns for driver in drivers]
        drivers[0].send(0.2, 0.0)
        drivers[1].send(0.0, 1.0)
        listener.until(lambda before=before: all(d.stamp_ns > b for d, b in zip(drivers, before)), "a period")
    assert {d.stamp_ns for d in drivers} == {round(1.5 * NANOSECONDS)}
    assert drivers[0].speed == pytest.approx(0.2, rel=0.1) and abs(drivers[1].speed) < 0.01
    # one scan a period, with its stamp
    for driver in drivers:
        assert stamp_to_ns(driver.scans[-1].header.stamp) == driver.stamp_ns


def test_policy_and_guard_drive_it_to_a_goal_in_lock_step(listener: Listener, start: Start, tmp_path: Any) -> None:
    policy = write_driving_policy(tmp_path / "drive.onnx", ROBOT)
    robot = start(RobotNode, robot=ROBOT.name, world="room:3", lock_step=True)
    common = {"robot": ROBOT.name, "lock_step": True}
    start(GuardNode, auto_arm=True, **common)
    odom = listener.hear(topics.ODOM)
    start(PolicyNode, policy=str(policy), goal_position=(0.9, 0.4, 0.0), **common)
    listener.until(lambda: odom and stamp_to_ns(odom[-1].header.stamp) > 12 * NANOSECONDS, "12 s of driving")
    last = odom[-1].pose.pose
    assert np.hypot(last.position.x - 0.9, last.position.y - 0.4) < 0.12
    assert robot.status()[1]["refused"] == 0 and robot.status()[1]["watchdog"] == 0
    assert abs(frames.yaw(np.array([0.0, 0.0, last.orientation.z, last.orientation.w]))) < 1.5


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"start_height_m": 1.0}, "which does not fly"),
        ({"cmd_vel_type": "Twist", "lock_step": True}, "Twist is not allowed in lock step"),
        ({"robot": "crowdnav_robot"}, "holonomic and has no wheels"),
    ],
)
def test_what_makes_no_sense_is_refused(listener: Listener, start: Start, overrides: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        start(RobotNode, **{"robot": ROBOT.name, **overrides})
