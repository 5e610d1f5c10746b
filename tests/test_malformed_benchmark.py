"""benchmarks/malformed_messages.py, cut short: no node of a quadrotor ends on messages that it cannot read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rclpy.serialization import serialize_message

from rlstack.interfaces import topics
from tests.support.benchmarks import load_benchmark

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("malformed_messages")


def test_a_quadrotors_nodes_survive_malformed_messages(_ros_environment: None, benchmark: Any) -> None:
    with benchmark.running(benchmark.systems()["quadrotor"]) as (executor, nodes):
        sent, failures = benchmark.attack(executor, nodes, 50, 0)
    assert sent > 400 and not failures


def test_what_ends_a_callback_is_counted(_ros_environment: None, benchmark: Any) -> None:
    with benchmark.running(benchmark.systems()["quadruped"][1:2]) as (executor, nodes):
        kind = topics.type_of(topics.GUARD_MODE)

        def fail(message: Any) -> None:
            raise ValueError("on purpose")

        nodes[0].create_subscription(kind, "extra", fail, 10)
        _, failures = benchmark.attack(executor, nodes, 20, 0)  # few mutations are still messages
    assert any("/extra: ValueError: on purpose" in failure for failure in failures)


def test_mutations_differ_from_the_message(benchmark: Any) -> None:
    sample = bytes(serialize_message(topics.type_of(topics.ODOM)()))
    chance = random.Random(0)
    made = [benchmark.mutated(sample, [b"other"], chance) for _ in range(200)]
    assert sum(data != sample for data in made) > 180 and len({len(data) for data in made}) > 20
