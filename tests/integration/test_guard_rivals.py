"""Two nodes that command one robot: the guard lets neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from std_srvs.srv import SetBool

from rlstack.interfaces import topics
from rlstack.nodes.shutdown import shut_down
from tests.support.guarded import COMMANDS, Flight
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


@pytest.fixture
def flight(listener: Listener) -> Iterator[Flight]:
    made = Flight(listener)
    yield made
    made.close()


def arm(flight: Flight) -> Any:
    return flight.listener.call(SetBool, topics.ARM, SetBool.Request(data=True))


def test_a_second_policy_ends_the_flight_of_the_first_and_bars_arming(flight: Flight, listener: Listener) -> None:
    intruder = flight.make("intruder")
    listener.until(lambda: flight.guard.guard.in_a_row > 20, "observations", 20.0)
    assert arm(flight).success
    listener.until(lambda: str(flight.guard.guard.mode) == "policy", "the policy's flight", 20.0)
    flight.publish_from(intruder)
    listener.until(lambda: str(flight.guard.guard.mode) == "hover", "the guard's taking over", 20.0)
    assert flight.guard.guard.reason == f"2 nodes publish /{COMMANDS}: /intruder and /policy"
    listener.call(SetBool, topics.ARM, SetBool.Request(data=False))
    answer = arm(flight)
    assert not answer.success and answer.message == f"{flight.guard._policies.rivals()}: stop all but one of them"
    shut_down(flight.nodes.pop())
    listener.until(lambda: arm(flight).success, "arming once it is gone", 20.0)
