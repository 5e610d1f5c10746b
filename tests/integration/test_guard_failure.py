"""A guard that fails in flight: what it sends last."""

from __future__ import annotations

import pytest

from rlstack.interfaces import topics
from rlstack.nodes.guard import GuardNode
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("robot", "topic", "falls"),
    [("crazyflie_rates", topics.RATES_COMMAND, True), ("turtlebot3_burger", topics.TWIST_COMMAND, False)],
)
def test_it_says_nothing_to_a_robot_that_off_would_drop_and_stops_any_other(
    listener: Listener, robot: str, topic: str, falls: bool
) -> None:
    """Silence leaves a quadrotor to its own failsafe, as where the guard was killed."""
    heard = listener.hear(topic, "command")
    node = GuardNode({"robot": robot}, context=listener.context)
    try:
        node.start()
        listener.until(lambda: node.count_subscribers(topic), "the listener")
        assert not node.fail(RuntimeError("a bug"))
        if falls:
            listener.spin(0.3)
            assert not heard
        else:
            listener.until(lambda: heard, "the stop")
        assert "the guard has failed" in node.guard.reason
    finally:
        node.stop()
        node.destroy_node()
