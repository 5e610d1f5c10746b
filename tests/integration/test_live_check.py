"""The live check over topics: a robot whose odometry is late is told so, and its guard does not arm it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import SetBool

from rlstack.bringup.verification_check import file_sha256, record_path
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, OdometryMessage, set_stamp
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.policy import PolicyNode
from rlstack.policies import find_policy
from tests.support.deployed import Up
from tests.support.policies import write_hover_policy
from tests.support.records import write_record
from tests.support.ros import PATIENCE_S, Listener

pytestmark = pytest.mark.integration

RATE_HZ = 20.0
MARGIN_S = 0.06


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy that is proven for 60 ms of delay."""
    path = write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"), RATE_HZ)
    axes = {"observation_delay_s": {"margin": MARGIN_S}}
    write_record(path, {"sha256": file_sha256(path), "reality": {"axes": axes}})
    return path


@pytest.fixture
def system(listener: Listener, policy: Path) -> Iterator[Listener]:
    """A policy node that checks its inputs, and a guard that requires it."""
    checks = {"policy": str(policy), "live_check": True, "goal_position": [0.0, 0.0, 1.0]}
    nodes = [
        PolicyNode(overrides=checks, context=listener.context),
        GuardNode({"require_live_check": True}, context=listener.context),
    ]
    for node in nodes:
        listener.executor.add_node(node)
        node.start()
    yield listener
    for node in nodes:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_a_policy_or_record_that_was_swapped_after_the_check_is_not_loaded(listener: Listener, policy: Path) -> None:
    checked = {"policy": str(policy), "live_check": True, "policy_sha256": file_sha256(policy)}
    checked["record_sha256"] = file_sha256(record_path(policy))
    good, record = policy.read_bytes(), record_path(policy).read_bytes()
    for file, other, said in (
        (policy, find_policy("quadrotor_hover").read_bytes(), "is not the one that was checked: its SHA-256 is"),
        (record_path(policy), record + b" ", "verify.json is not the one that was checked"),
    ):
        policy.write_bytes(good)
        record_path(policy).write_bytes(record)
        file.write_bytes(other)
        node = PolicyNode(overrides=checked, context=listener.context)
        try:
            with pytest.raises(UserError, match=said):
                node.start()
        finally:
            node.stop()
            node.destroy_node()


def publish_odometry(listener: Listener, late_ns: list[int]) -> Any:
    """Publish the odometry of a robot at rest, with stamps that are late by as much as the list says at that time."""
    odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME)
    publisher = listener.node.create_publisher(topics.type_of(topics.ODOM), topics.ODOM, topics.quality("sensor_out"))
    still = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), np.zeros(3)
    listener.node.create_timer(
        1.0 / RATE_HZ, lambda: publisher.publish(odometry.fill(time.time_ns() - late_ns[0], *still))
    )
    return publisher


def test_late_odometry_is_told_before_arming_and_the_guard_refuses(system: Listener) -> None:
    told, late_ns = system.hear(topics.LIVE_CHECK, "latched"), [round(0.15 * NANOSECONDS)]
    publisher = publish_odometry(system, late_ns)
    system.until(lambda: publisher.get_subscription_count() >= 2, "the nodes' ears")
    system.spin(0.5)
    early = system.call(SetBool, "arm", SetBool.Request(data=True))
    assert not early.success and "still measuring its inputs" in early.message

    system.until(lambda: told, "the live check")
    assert "old on arrival, proven up to 85 ms (verified)" in told[-1].data  # the margin and half a period
    refused = system.call(SetBool, "arm", SetBool.Request(data=True))
    assert not refused.success and "outside of what the policy is proven for: odom: messages are" in refused.message

    late_ns[0] = 0
    system.until(lambda: told[-1].data == "", "a live check without findings")
    armed = system.call(SetBool, "arm", SetBool.Request(data=True))
    assert armed.success, armed.message


@pytest.mark.parametrize(("late_s", "said"), [(0.0, ""), (0.15, "old on arrival, proven up to 85 ms (verified)")])
def test_where_time_is_simulated_ages_are_on_its_clock(system: Listener, late_s: float, said: str) -> None:
    told, began = system.hear(topics.LIVE_CHECK, "latched"), time.monotonic_ns()
    clock_type = topics.type_of(topics.CLOCK)
    clock = system.node.create_publisher(clock_type, topics.CLOCK, topics.quality("sensor_out"))

    def tell_time() -> None:
        message = clock_type()
        set_stamp(message.clock, time.monotonic_ns() - began)
        clock.publish(message)

    system.node.create_timer(0.01, tell_time)
    publisher = publish_odometry(system, [time.time_ns() - time.monotonic_ns() + began + round(late_s * NANOSECONDS)])
    system.until(lambda: publisher.get_subscription_count() >= 2, "the nodes' ears")
    system.until(lambda: told, "the live check")
    assert said in told[-1].data and (said or told[-1].data == "")
    armed = system.call(SetBool, "arm", SetBool.Request(data=True))
    assert armed.success == (not said), armed.message


def test_a_deployment_of_a_real_robot_ends_with_the_finding(listener: Listener, policy: Path) -> None:
    facts = {"sha256": file_sha256(policy), "robot": "crazyflie", "robot_sha256": load_quadrotor("crazyflie").sha256}
    flown = {"passed": True, "backends": {"mujoco": {"flown_in": "mujoco (topics)"}}}
    axes = {"observation_delay_s": {"margin": MARGIN_S}}
    write_record(policy, {**facts, **flown, "reality": {"axes": axes}})
    publish_odometry(listener, [round(0.15 * NANOSECONDS)])
    with Up("deploy", "--policy", str(policy), "--backend", "topics") as deployment:
        end = time.monotonic() + PATIENCE_S
        while deployment.popen.poll() is None and time.monotonic() < end:
            listener.spin(0.1)
        assert deployment.end() == 2, deployment.seen
    assert "rlstack: Not armed: outside of what the policy is proven for: odom: messages are 1" in deployment.seen
    assert "Correct the topics, or run it anyway with --force." in deployment.seen
