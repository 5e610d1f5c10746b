"""What nodes say of others on their topics, with real publishers and subscriptions of other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.duration import Duration
from std_msgs.msg import String

from rlstack.interfaces import topics
from rlstack.nodes.goal_subscriptions import QUALITIES
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.shutdown import shut_down
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


class Reader(ManagedNode):
    NAME: ClassVar[str] = "reader"

    def configure(self) -> None:
        self.subscriber(Odometry, topics.ODOM, lambda message: None, "command")
        self.watch.single(topics.ODOM, is_error=True)
        for use in QUALITIES:
            self.subscriber(PoseStamped, topics.GOAL, lambda message: None, use)
        self.publisher(String, "said", "sensor_in")
        self.publisher(String, "heard", "command")
        self.publisher(String, "late", "command")


@pytest.fixture
def reader(listener: Listener) -> Iterator[Reader]:
    made = Reader(context=listener.context)
    listener.executor.add_node(made)
    made.start()
    yield made
    made.stop()
    listener.executor.remove_node(made)
    made.destroy_node()


@pytest.fixture
def other() -> Iterator[Any]:
    context = rclpy.Context()
    rclpy.init(context=context)
    made = rclpy.create_node("other", namespace="/far", context=context, enable_rosout=False)
    yield made
    shut_down(made)


def test_others_are_named_with_what_does_not_fit(listener: Listener, reader: Reader, other: Any) -> None:
    other.create_publisher(Odometry, "/odom", topics.quality("sensor_in"))
    other.create_publisher(PoseStamped, "/goal", topics.quality("command"))  # fits one of the two subscriptions
    other.create_subscription(String, "/said", lambda message: None, topics.quality("command"))
    other.create_subscription(String, "/heard", lambda message: None, topics.quality("command"))  # fits
    late = topics.quality("command")
    late.deadline = Duration(seconds=1.0)
    other.create_subscription(String, "/late", lambda message: None, late)
    listener.until(lambda: len(reader.watch.problems) == 3, "the other's discovery", 20.0)
    said = [problem.sentence for problem in reader.watch.problems]
    unread, unheard, late_one = (
        next(one for one in said if topic in one) for topic in ("publishes /odom", "to /said", "to /late")
    )
    assert unread.startswith("/far/other publishes /odom with a quality of service from which this node receives")
    assert "reliability: the publisher's is best effort, the subscription's reliable" in unread
    assert unheard.startswith("/far/other subscribes to /said with a quality of service that this node's does not")
    assert "deadline: the subscription asks for 1 s" in late_one


def test_another_type_is_named(listener: Listener, reader: Reader, other: Any) -> None:
    other.create_publisher(String, "/odom", topics.quality("command"))
    heard: list[Any] = []
    listener.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    listener.until(lambda: reader.watch.problems, "the other's discovery", 20.0)
    (problem,) = reader.watch.problems
    assert problem.sentence.startswith(
        "/far/other publishes /odom as std_msgs/msg/String, and this node reads nav_msgs/msg/Odometry: nothing arrives"
    )
    listener.until(lambda: any(problem.sentence in m.status[0].message for m in heard), "the diagnostics", 20.0)


def test_a_second_publisher_is_named_until_it_is_gone(listener: Listener, reader: Reader, other: Any) -> None:
    listener.node.create_publisher(Odometry, "/odom", topics.quality("command"))
    second = other.create_publisher(Odometry, "/odom", topics.quality("command"))
    heard: list[Any] = []
    listener.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    named = "2 nodes publish /odom: /far/other and /listener. Stop all but one of them."
    listener.until(lambda: any(named in m.status[0].message for m in heard), "the second's discovery", 20.0)
    assert heard[-1].status[0].level == DiagnosticStatus.ERROR
    other.destroy_publisher(second)
    listener.until(lambda: heard[-1].status[0].level == DiagnosticStatus.OK, "its end", 20.0)
