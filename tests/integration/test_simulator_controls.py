"""A simulation in real time that is paused, slowed down and whose robot is pushed, by its robot node's topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_srvs.srv import SetBool, Trigger

from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.nodes.robot import RobotNode
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


@pytest.fixture
def node(listener: Listener) -> Iterator[RobotNode]:
    made = RobotNode(overrides={"robot": "turtlebot3_burger", "noise_seed": -1}, context=listener.context)
    listener.executor.add_node(made)
    made.start()
    yield made
    made.stop()
    listener.executor.remove_node(made)
    made.destroy_node()


def change(listener: Listener, factor: float) -> Any:
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=factor)
    request = SetParameters.Request(parameters=[Parameter(name="real_time_factor", value=value)])
    return listener.call(SetParameters, "robot/set_parameters", request).results[0]


def test_time_stands_still_and_passes_slowly_and_a_push_moves_the_robot(listener: Listener, node: RobotNode) -> None:
    odometry = listener.hear(topics.ODOM, "sensor_in")
    pace = listener.hear(topics.REAL_TIME_FACTOR, "latched")
    kind = topics.type_of(topics.DISTURBANCE)
    pushes = listener.node.create_publisher(kind, topics.DISTURBANCE, topics.quality("command"))

    def stamp() -> int:
        return stamp_to_ns(odometry[-1].header.stamp)

    listener.until(lambda: odometry and pace and pushes.get_subscription_count(), "the robot")
    assert pace[-1].data == 1.0
    assert listener.call(SetBool, "robot/pause", SetBool.Request(data=True)).message == "Paused."

    def stands() -> bool:  # it is published again for viewers that come now
        return len(odometry) > 1 and odometry[-1].header.stamp == odometry[-2].header.stamp

    listener.until(stands, "the robot as it stands")
    assert pace[-1].data == 0.0
    assert change(listener, 0.25).successful
    assert not change(listener, 1000.0).successful
    listener.call(SetBool, "robot/pause", SetBool.Request(data=False))
    listener.until(lambda: pace[-1].data == 0.25, "the new pace")
    before = stamp()
    listener.spin(0.6)
    assert 0.05 < (stamp() - before) * 1e-9 < 0.25
    change(listener, 1.0)
    push, rests = kind(), odometry[-1].pose.pose.position.z
    push.header.frame_id, push.wrench.force.z = "base_link", 20.0  # N; it weighs 10 N
    pushes.publish(push)
    listener.until(lambda: odometry[-1].pose.pose.position.z > rests + 0.05, "the push")
    push.header.frame_id = "map"
    pushes.publish(push)
    listener.until(lambda: topics.DISTURBANCE in node._warned_at, "the refusal of a frame that is not the robot's")
    assert listener.call(Trigger, topics.RESET, Trigger.Request()).success


def test_in_lock_step_a_pause_keeps_the_next_period(listener: Listener) -> None:
    made = RobotNode(overrides={"robot": "turtlebot3_burger", "lock_step": True}, context=listener.context)
    listener.executor.add_node(made)
    made.start()
    try:
        odometry = listener.hear(topics.ODOM)
        kind = topics.type_of(topics.TWIST_COMMAND)
        sender = listener.node.create_publisher(kind, topics.TWIST_COMMAND, topics.quality("command"))
        listener.until(lambda: odometry and sender.get_subscription_count(), "the robot")
        assert "lock step" in change(listener, 0.5).reason
        listener.call(SetBool, "robot/pause", SetBool.Request(data=True))
        first = odometry[-1].header.stamp
        sender.publish(kind(header=odometry[-1].header))
        listener.spin(0.2)
        assert odometry[-1].header.stamp == first
        listener.call(SetBool, "robot/pause", SetBool.Request(data=False))
        listener.until(lambda: odometry[-1].header.stamp != first, "the next period")
    finally:
        made.stop()
        listener.executor.remove_node(made)
        made.destroy_node()
