"""The error that ends a node, as other nodes read it."""

from __future__ import annotations

from typing import Any

import pytest
from rcl_interfaces.msg import Log
from rclpy.qos import DurabilityPolicy, QoSProfile

from tests.support.ros import Listener, NodeProcess, nodes

# Quiet, as a node that ends waits for a second only to be found by readers of its log, which beside the rest of the
# suite may take longer; its sentence on the console does not depend on that.
pytestmark = [pytest.mark.integration, pytest.mark.quiet]


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"tilt_rad": 9.0}, "tilt_rad: 9.0 is not allowed: must be between 0 and 3.15"),
        ({"robot": "crazyfly"}, "Unknown robot 'crazyfly'. Nearest: crazyflie"),
    ],
)
def test_a_fatal_error_is_on_rosout_and_printed(listener: Listener, parameters: dict[str, Any], words: str) -> None:
    logged: list[Any] = []
    # As `ros2 topic echo` asks for: what was logged before the two found each other comes as well.
    quality = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    listener.node.create_subscription(Log, "/rosout", logged.append, quality)
    with nodes(NodeProcess("guard", **parameters)) as started:
        guard = started["guard"]
        listener.until(lambda: guard.process.poll() is not None, "the end of the guard", 30.0)
        assert guard.wait() == 2 and words in guard.output.splitlines()[-1]
    listener.until(lambda: any(words in one.msg and one.level >= Log.ERROR for one in logged), "the log", 5.0)
