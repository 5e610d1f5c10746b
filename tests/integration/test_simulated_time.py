"""Nodes on simulated time: their clocks follow /clock, and what keeps a robot safe does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from std_srvs.srv import SetBool

from rlstack.interfaces import topics
from tests.support.guarded import Flight
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


@pytest.fixture
def flight(listener: Listener) -> Iterator[Flight]:
    made = Flight(listener, simulated=True)
    yield made
    made.close()


def test_a_clock_that_stops_does_not_stop_the_guard(flight: Flight, listener: Listener) -> None:
    node, guard = flight.guard, flight.guard.guard
    assert node.get_parameter("use_sim_time").value is True
    listener.until(lambda: guard.in_a_row > 20, "observations", 20.0)
    assert 100.0 < 1e-9 * node.get_clock().now().nanoseconds < 200.0
    assert listener.call(SetBool, topics.ARM, SetBool.Request(data=True)).success
    listener.until(lambda: str(guard.mode) == "policy", "the policy's flight", 20.0)
    flight.flies = False
    listener.spin(0.1)
    stopped = node.get_clock().now()
    listener.until(lambda: guard.mode.role == "off", "the guard's stop without observations", 10.0)
    assert node.get_clock().now() == stopped and "observation" in guard.reason
