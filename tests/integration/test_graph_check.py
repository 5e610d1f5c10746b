"""`rlstack doctor --graph` beside a real robot node: what it measures, and what it finds wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from nav_msgs.msg import Odometry

from rlstack import cli
from rlstack.interfaces import topics
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = pytest.mark.integration


@pytest.fixture
def robot(_ros_environment: None) -> Iterator[None]:
    with nodes(NodeProcess("robot", "__ns:=/fleet/cf1", noise_seed=-1)):
        yield


def test_a_running_system_is_measured_and_what_is_wrong_comes_first(
    robot: None, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> tuple[int, str]:
        status = cli.main(["doctor", "--graph", "--seconds", "1.5"])
        said: Any = capsys.readouterr()
        return status, said.out + said.err

    end = time.monotonic() + 60.0
    while not (found := run())[1].startswith("Nothing is wrong.") and time.monotonic() < end:  # it is starting
        pass
    status, text = found
    assert (status, text.splitlines()[0]) == (0, "Nothing is wrong."), text
    (line,) = [line for line in text.splitlines() if line.startswith("/fleet/cf1/odom ")]
    assert float(line.split()[1]) > 20.0 and abs(float(line.split()[2])) < 1000.0, "its rate, Hz, and its age, ms"
    assert "/fleet/cf1/robot" in line

    listener.node.create_publisher(Odometry, "/fleet/cf1/odom", topics.quality("sensor_in"))
    listener.node.create_subscription(Odometry, "/fleet/cf1/odom", lambda message: None, topics.quality("latched"))
    end = time.monotonic() + 60.0
    while "2 nodes publish it" not in (found := run())[1] and time.monotonic() < end:  # both are being found
        pass
    status, text = found
    assert status == 1, text
    assert text.startswith("- /fleet/cf1/odom: /listener receives nothing from ")
    assert "2 nodes publish it: /fleet/cf1/robot and /listener" in text
