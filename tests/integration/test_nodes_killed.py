"""Killing any of the three nodes leaves the robot hovering on the fallback or disarmed, never on the last command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from std_srvs.srv import Trigger

from rlstack.interfaces import topics
from rlstack.interfaces.messages import seconds_to_ns, stamp_to_ns
from tests.support.ros import Listener, NodeProcess, heights, nodes

pytestmark = pytest.mark.integration


@pytest.fixture
def flight(hover_policy: Path, listener: Listener) -> Iterator[dict[str, NodeProcess]]:
    """Three nodes in real time, the policy flying at 1 m."""
    # with a depth: who is not run for a while must not miss a mode that has passed
    odometry, modes = listener.hear(topics.ODOM), listener.hear(topics.GUARD_MODE, "latched", depth=10)
    listener.hear(topics.GUARD_INTERVENTIONS, "latched", depth=10)
    listener.hear(topics.JOINT_STATES)
    listener.hear(topics.ROTOR_COMMAND, "command")
    # Much slower than real time: a busy machine must not be what stops the policy. What ages, ages in simulated time.
    late = {"staleness_periods": 20.0, "recover_after_s": 0.1}
    landing = {"hover_before_landing_s": 0.5, "landing_speed_m_s": 0.8}
    with nodes(
        NodeProcess("robot", start_height_m=1.0, real_time_factor=0.4, command_timeout_periods=40.0),
        NodeProcess("guard", auto_arm=True, **late, **landing),
        NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", stale_after_periods=20.0),
    ) as processes:
        for _ in range(5):
            # who has found the guard may not have found the robot yet
            listener.until(lambda: odometry and modes and modes[-1].data == "policy", "the policy's flight")
            listener.spin(1.0)
            if modes[-1].data == "policy" and 0.8 < heights(odometry)[-1] < 1.2:
                break
            # A process that was not run for a second has stopped the flight: begin another.
            assert listener.call(Trigger, topics.RESET, Trigger.Request()).success
        else:
            raise AssertionError("The policy did not fly for a second, five times.")
        yield processes


def test_without_the_policy_the_guard_hovers_and_then_lands(flight: dict[str, NodeProcess], listener: Listener) -> None:
    odometry, modes = listener.heard[topics.ODOM], listener.heard[topics.GUARD_MODE]
    interventions = listener.heard[topics.GUARD_INTERVENTIONS]
    before, killed, counted = len(modes) - 1, len(odometry), interventions[-1].data
    flight["policy"].signal(signal.SIGKILL)
    for mode, what in (("hover", "the fallback"), ("land", "the end of hovering"), ("disarmed", "the landing")):
        listener.until(lambda mode=mode: mode in [message.data for message in modes[before:]], what)
    # from the last one before: who was not run for a while hears the first one after when it lands already
    until_ns = stamp_to_ns(odometry[killed - 1].header.stamp) + seconds_to_ns(0.5)
    after = [message for message in odometry[killed - 1 :] if stamp_to_ns(message.header.stamp) < until_ns]
    assert min(heights(after)) > 0.8, "it hovers for that long at least"
    assert heights(odometry)[-1] < 0.1
    assert interventions[-1].data == counted + 1


def test_without_the_guard_the_robot_is_disarmed(flight: dict[str, NodeProcess], listener: Listener) -> None:
    speeds = listener.heard[topics.JOINT_STATES]
    assert min(speeds[-1].velocity) > 500.0
    flight["guard"].signal(signal.SIGKILL)
    listener.until(lambda: max(abs(v) for v in speeds[-1].velocity) < 50.0, "stopping the rotors", timeout_s=10.0)
    assert "disarmed" in flight["robot"].output


def test_without_the_robot_the_guard_disarms_and_falls_silent(
    flight: dict[str, NodeProcess], listener: Listener
) -> None:
    modes, commands = listener.heard[topics.GUARD_MODE], listener.heard[topics.ROTOR_COMMAND]
    flight["robot"].signal(signal.SIGKILL)
    listener.until(lambda: modes[-1].data == "disarmed", "disarming", timeout_s=10.0)
    listener.spin(0.5)
    assert not commands[-1].name  # "off"
    count = len(commands)
    listener.spin(0.5)
    assert len(commands) == count
    assert flight["policy"].process.poll() is None and flight["guard"].process.poll() is None


def test_in_lock_step_the_flight_goes_on_without_the_policy(hover_policy: Path, listener: Listener) -> None:
    odometry, modes = listener.hear(topics.ODOM), listener.hear(topics.GUARD_MODE, "latched", depth=10)
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("guard", auto_arm=True, lock_step=True, policy_timeout_s=0.5),
        NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ) as processes:
        listener.until(lambda: modes and odometry and odometry[-1].header.stamp.sec >= 1, "the policy's flight")
        processes["policy"].signal(signal.SIGKILL)
        listener.until(lambda: modes[-1].data == "disarmed", "the landing")
        assert [mode.data for mode in modes][-4:] == ["policy", "hover", "land", "disarmed"]
        landed = odometry[-1]
        assert landed.pose.pose.position.z < 0.1
        listener.until(lambda: odometry[-1].header.stamp.sec > landed.header.stamp.sec + 1, "time that goes on")


def test_in_lock_step_the_robot_disarms_without_the_guard(hover_policy: Path, listener: Listener) -> None:
    odometry = listener.hear(topics.ODOM)
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True, lock_step_timeout_s=1.0),
        NodeProcess("guard", auto_arm=True, lock_step=True),
        NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ) as processes:
        listener.until(lambda: odometry and odometry[-1].header.stamp.sec >= 1, "the policy's flight")
        processes["guard"].signal(signal.SIGKILL)
        listener.until(lambda: "disarmed" in processes["robot"].output, "disarming", timeout_s=10.0)
