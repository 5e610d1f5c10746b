"""A simulated base takes twists with stamps and without, by the type that their publisher has."""

from __future__ import annotations

from typing import Any

import pytest

from rlstack.interfaces import topics
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = pytest.mark.integration


def test_a_base_follows_the_type_of_its_commands(listener: Listener) -> None:
    odometry = listener.hear(topics.ODOM, "sensor_in")
    base = NodeProcess("robot", robot="turtlebot3_burger", cmd_vel_type="auto", noise_seed=-1)
    with nodes(base) as processes:
        for kind in (topics.message_type(topics.PLAIN_TWIST), topics.type_of(topics.TWIST_COMMAND)):
            sender = listener.node.create_publisher(kind, topics.TWIST_COMMAND, topics.quality("command"))
            message = kind()
            getattr(message, "twist", message).linear.x = 0.2

            def drive(sender: Any = sender, message: Any = message) -> bool:
                sender.publish(message)
                return bool(odometry) and odometry[-1].twist.twist.linear.x > 0.1

            listener.until(drive, f"driving by {kind.__name__}")
            listener.node.destroy_publisher(sender)
            listener.until(lambda: odometry[-1].twist.twist.linear.x < 0.02, "its stop without commands")
        assert "cmd_vel is read as geometry_msgs/msg/TwistStamped" in processes["robot"].output
