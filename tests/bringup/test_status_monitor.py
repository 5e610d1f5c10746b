"""What a monitor makes of a flight's topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rlstack.bringup.kind_deployment import deployment_of
from rlstack.bringup.status_monitor import Monitor
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp
from rlstack.interfaces.path_messages import path_message
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.kinds.manipulator.guard_loop import panda
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


class World:
    """A monitor, and a node that says what a robot would."""

    def __init__(self) -> None:
        self.listener = Listener()
        self.monitor = Monitor({"/cf": (0.0, 0.0, 1.0)})
        self.odom = self.sender(topics.ODOM, "sensor_out", 1)
        self.goal = self.sender(topics.GOAL, "latched", 1)
        self.path = self.sender(topics.GOAL_PATH, "latched", 2)
        self.stamp_ns = 5 * 10**9

    def sender(self, topic: str, use: topics.Quality, listeners: int) -> Any:
        made = self.listener.node.create_publisher(topics.type_of(topic), f"/cf/{topic}", topics.quality(use))
        self.listener.until(lambda: made.get_subscription_count() >= listeners, f"the monitor hears {topic}")
        return made

    def at(self, x: float) -> float:
        """Say where the robot is, 10 ms later, and return how far that is from its goal."""
        message = topics.type_of(topics.ODOM)()
        self.stamp_ns += 10_000_000
        set_stamp(message.header.stamp, self.stamp_ns)
        message.pose.pose.position.x, message.pose.pose.position.z = x, 1.0
        seen = self.monitor.seconds, self.monitor.seen
        for _ in range(100):
            self.odom.publish(message)  # again, as a best-effort reader may have missed it
            self.monitor.spin(0.1)
            if (self.monitor.seconds, self.monitor.seen) != seen:
                return self.monitor.summaries()["cf"].error_m
        raise AssertionError("the odometry did not come")

    def send_path(self, start_ns: int) -> None:
        """From the origin to 1 m along x, in a second."""
        places, turns = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), np.tile([0.0, 0.0, 0.0, 1.0], (2, 1))
        self.path.publish(path_message(np.array([0.0, 1.0]), places, turns, start_ns=start_ns))
        for _ in range(10):
            self.monitor.spin(0.02)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.monitor.close()
    made.listener.close()


def test_the_distance_is_from_the_goal_and_then_from_where_the_path_is_due(world: World) -> None:
    assert world.at(0.25) == pytest.approx(0.25)
    message = topics.type_of(topics.GOAL)()
    message.pose.position.x, message.pose.position.z = 1.0, 1.0
    world.goal.publish(message)
    for _ in range(10):
        world.monitor.spin(0.02)
    assert world.at(0.25) == pytest.approx(0.75)
    world.send_path(world.stamp_ns - 490_000_000)  # half of it is over at the next observation
    assert world.at(0.25) == pytest.approx(0.25)
    assert world.at(0.51) == pytest.approx(0.0, abs=1e-6)
    assert "0.000 m from the goal" in world.monitor.line()


def test_a_path_without_a_stamp_begins_when_it_comes(world: World) -> None:
    world.at(0.0)
    world.send_path(0)
    assert world.at(0.01) == pytest.approx(0.0, abs=1e-6)
    world.stamp_ns += 10**9
    assert world.at(0.5) == pytest.approx(0.5)


def test_what_is_watched_of_an_arm_is_its_tool_or_what_it_handles() -> None:
    robot = panda()
    rest = np.array([drive.rest for drive in robot.drives])
    tool = deployment_of(robot).tracked(("joint_position", "goal_position"))
    assert (tool.signal, tool.names) == ("joint_position", tuple(drive.name for drive in robot.drives))
    np.testing.assert_allclose(tool.position(rest), (0.307, 0.0, 0.485), atol=1e-3)
    thing = deployment_of(robot).tracked(("joint_position", "object_position"))
    assert thing.signal == "object_position" and thing.position(rest[:3]).tolist() == rest[:3].tolist()
    assert deployment_of(load_quadrotor("crazyflie")).tracked().signal == "position"
