"""Two nodes that command one robot: the guard lets neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
from std_srvs.srv import SetBool

from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.shutdown import shut_down
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
COMMANDS = topics.POLICY_PREFIX + topics.ROTOR_COMMAND


class Flight:
    """A guard, and two policies of which one commands."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        patient = {"staleness_periods": 100.0, "observation_timeout_s": 2.0}  # all of it runs in one process
        self.guard = GuardNode(patient, context=listener.context)
        listener.executor.add_node(self.guard)
        self.guard.start()
        kind = topics.type_of(topics.ODOM)
        self.odometry = OdometryMessage(kind(), topics.WORLD_FRAME, topics.BODY_FRAME)
        self.sender = listener.node.create_publisher(kind, topics.ODOM, topics.quality("sensor_out"))
        self.policies: list[Any] = []
        self.nodes: list[Any] = []
        self.add("policy")
        listener.node.create_timer(0.01, self.fly)

    def add(self, name: str) -> None:
        context = rclpy.Context()
        rclpy.init(context=context)
        node = rclpy.create_node(name, context=context, enable_rosout=False)
        kind = topics.type_of(COMMANDS)
        self.policies.append(node.create_publisher(kind, COMMANDS, topics.quality("command")))
        self.nodes.append(node)

    def fly(self) -> None:
        still, stamp = np.zeros(3), self.listener.node.get_clock().now()
        at, upright = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0])
        self.sender.publish(self.odometry.fill(stamp.nanoseconds, at, upright, still, still))
        command = topics.type_of(COMMANDS)(name=list(ROBOT.rotor_names), velocity=[ROBOT.hover_speed_rad_s] * 4)
        command.header.stamp = stamp.to_msg()
        self.policies[0].publish(command)

    def close(self) -> None:
        self.guard.stop()
        self.listener.executor.remove_node(self.guard)
        self.guard.destroy_node()
        for node in self.nodes:
            shut_down(node)


@pytest.fixture
def flight(listener: Listener) -> Iterator[Flight]:
    made = Flight(listener)
    yield made
    made.close()


def arm(flight: Flight) -> Any:
    return flight.listener.call(SetBool, topics.ARM, SetBool.Request(data=True))


def test_a_second_policy_ends_the_flight_of_the_first_and_bars_arming(flight: Flight, listener: Listener) -> None:
    listener.until(lambda: flight.guard.guard.in_a_row > 20, "observations", 20.0)
    assert arm(flight).success
    listener.until(lambda: str(flight.guard.guard.mode) == "policy", "the policy's flight", 20.0)
    flight.add("intruder")
    listener.until(lambda: str(flight.guard.guard.mode) == "hover", "the guard's taking over", 20.0)
    assert flight.guard.guard.reason == f"2 nodes publish /{COMMANDS}: /intruder and /policy"
    listener.call(SetBool, topics.ARM, SetBool.Request(data=False))
    answer = arm(flight)
    assert not answer.success and answer.message == f"{flight.guard._policies.rivals()}: stop all but one of them"
    shut_down(flight.nodes.pop())
    listener.until(lambda: arm(flight).success, "arming once it is gone", 20.0)
