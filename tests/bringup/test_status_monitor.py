"""What a monitor makes of a flight's topics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from rlstack.bringup import status_monitor
from rlstack.bringup.status_monitor import Monitor
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp
from rlstack.nodes.dry_run import WOULD_SEND
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


class World:
    """A monitor, and a node that says what a robot's nodes would."""

    def __init__(self) -> None:
        self.listener = Listener()
        self.monitor = Monitor(["/cf"])
        self.odom = self.sender(topics.ODOM, "sensor_out")
        self.distance = self.sender(topics.GOAL_DISTANCE, "event")
        self.mode = self.sender(topics.GUARD_MODE, "latched")
        self.instruction = self.sender(topics.INSTRUCTION_ACTIVE, "latched")
        self.stamp_ns = 5 * 10**9

    def sender(self, topic: str, use: topics.Quality) -> Any:
        made = self.listener.node.create_publisher(topics.type_of(topic), f"/cf/{topic}", topics.quality(use))
        self.listener.until(lambda: made.get_subscription_count() >= 1, f"the monitor hears {topic}")
        return made

    def says(self, publisher: Any, topic: str, value: Any) -> None:
        publisher.publish(topics.type_of(topic)(data=value))
        for _ in range(10):
            self.monitor.spin(0.01)

    def observe(self) -> None:
        """Send an observation, half a second later."""
        message = topics.type_of(topics.ODOM)()
        self.stamp_ns += 500_000_000
        set_stamp(message.header.stamp, self.stamp_ns)
        before = self.monitor.seconds, self.monitor.seen
        for _ in range(100):
            self.odom.publish(message)  # again, as a best-effort reader may have missed it
            self.monitor.spin(0.1)
            if (self.monitor.seconds, self.monitor.seen) != before:
                return
        raise AssertionError("the observation did not come")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.monitor.close()
    made.listener.close()


def test_the_distance_is_the_published_one_and_the_time_that_of_the_observations(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.monitor.line() == "waiting for odom"
    world.observe()
    assert world.monitor.line() == "   0.0 s  no guard yet", "nothing measures a distance but the policy"
    summary = world.monitor.summaries()["cf"]
    assert summary.error_m is None and summary.text() == "Flew 0.0 s (no guard 100%)."

    world.says(world.mode, topics.GUARD_MODE, "policy")
    for distance in (4.0, 0.75, 0.25):
        world.says(world.distance, topics.GOAL_DISTANCE, distance)
    world.observe()
    assert world.monitor.line() == "   0.5 s  policy  0.250 m from the goal"
    summary = world.monitor.summaries()["cf"]
    assert (summary.error_m, summary.error_mean_m, summary.error_max_m) == (0.25, 0.5, 0.75)
    assert summary.mode == "policy" and math.isclose(sum(summary.modes.values()), 1.0)

    monkeypatch.setattr(status_monitor, "SILENT_S", 0.0)  # the policy has ended
    world.observe()
    assert world.monitor.line() == "   1.0 s  policy"
    assert "Distance from the goal: not known at the end, 0.500 m mean" in world.monitor.summaries()["cf"].text()


def test_a_policy_that_waits_for_a_sentence_is_shown_to_wait(world: World) -> None:
    world.observe()
    world.says(world.instruction, topics.INSTRUCTION_ACTIVE, "")
    world.says(world.mode, topics.GUARD_MODE, "disarmed")
    assert world.monitor.line() == "   0.0 s  disarmed  waiting for an instruction"
    world.says(world.instruction, topics.INSTRUCTION_ACTIVE, "push the red block")
    assert world.monitor.line() == "   0.0 s  disarmed"


def test_a_dry_run_shows_what_would_be_sent() -> None:
    listener = Listener()
    monitor = Monitor(["/cf"], dry_run=True)
    kind, event = topics.type_of(topics.DIAGNOSTICS), topics.quality("event")
    said = listener.node.create_publisher(kind, topics.DIAGNOSTICS, event)
    seen = listener.node.create_publisher(topics.type_of(topics.ODOM), "/cf/odom", topics.quality("sensor_out"))
    try:
        listener.until(lambda: said.get_subscription_count() and seen.get_subscription_count(), "the monitor hears")
        message = kind(status=[DiagnosticStatus(name="cf/robot", values=[KeyValue(key=WOULD_SEND, value="twist [1]")])])
        for _ in range(100):
            said.publish(message)
            seen.publish(topics.type_of(topics.ODOM)())
            monitor.spin(0.05)
            if monitor.line() == "DRY RUN    0.0 s  no guard yet  would send twist [1]":
                return
        raise AssertionError(monitor.line())
    finally:
        monitor.close()
        listener.close()
