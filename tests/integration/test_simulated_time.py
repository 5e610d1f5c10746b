"""Nodes on simulated time: their clocks follow /clock, and what keeps a robot safe does not."""

from __future__ import annotations

import time
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


def test_a_paused_simulator_stops_neither_policy_nor_guard(flight: Flight, listener: Listener) -> None:
    guard, kind = flight.guard.guard, topics.type_of(topics.REAL_TIME_FACTOR)
    pace = listener.node.create_publisher(kind, topics.REAL_TIME_FACTOR, topics.quality("latched"))
    listener.until(lambda: guard.in_a_row > 20, "observations", 20.0)
    assert listener.call(SetBool, topics.ARM, SetBool.Request(data=True)).success
    listener.until(lambda: str(guard.mode) == "policy", "the policy's flight", 20.0)
    pace.publish(kind(data=0.0))
    flight.flies, began = False, time.monotonic_ns()
    listener.spin(1.3)  # a policy may be late by 1 s here
    flight.pass_over(time.monotonic_ns() - began)
    pace.publish(kind(data=1.0))
    flight.flies, seen = True, guard.in_a_row
    listener.until(lambda: guard.in_a_row > seen + 10, "observations again", 20.0)
    assert str(guard.mode) == "policy" and guard.interventions == 0
