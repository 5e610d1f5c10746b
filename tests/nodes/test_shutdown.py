"""Leaving ROS: nobody is heard of any more, and every step is taken. Fast DDS's endless wait is told in the module."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import rclpy
from std_msgs.msg import String

from rlstack.nodes import shutdown
from rlstack.nodes.runtime import prepare_environment
from rlstack.nodes.shutdown import shut_down

pytestmark = pytest.mark.integration


@pytest.fixture
def nodes() -> Iterator[list[Any]]:
    """Three nodes with contexts, and so participants, of their own."""
    prepare_environment()
    made = []
    for name in ("one", "two", "three"):
        context = rclpy.Context()
        rclpy.init(context=context)
        made.append(rclpy.create_node(name, context=context))
    yield made
    for node in made:
        if node.context.ok():
            shut_down(node)


def heard_of(node: Any, topic: str) -> bool:
    end = time.monotonic() + 30.0
    while not node.count_publishers(topic) and time.monotonic() < end:
        time.sleep(0.01)
    return bool(node.count_publishers(topic))


def test_who_leaves_has_no_callbacks_that_its_end_would_wait_for(nodes: list[Any]) -> None:
    one, two, three = nodes
    three.create_publisher(String, "before", 1)
    assert heard_of(one, "/before") and heard_of(two, "/before")
    shutdown._remove_listener(one)  # the first step of `shut_down`: after the last there is nobody left to ask
    three.create_publisher(String, "after", 1)
    assert heard_of(two, "/after")
    assert not one.count_publishers("/after") and one.count_publishers("/before")


def test_all_nodes_of_a_context_leave_and_it_is_shut_down(nodes: list[Any]) -> None:
    one, two, three = nodes
    second = rclpy.create_node("second", context=one.context)
    assert "second" in one.get_node_names()
    shut_down(one, second)
    assert not one.context.ok() and two.context.ok()
    end = time.monotonic() + 30.0
    while {"one", "second"} & set(three.get_node_names()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not {"one", "second"} & set(three.get_node_names())


def test_a_step_that_raises_keeps_no_other_from_being_taken(nodes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, _ = nodes
    destroyed = []

    def fails() -> None:
        destroyed.append("one")
        raise RuntimeError("no")

    monkeypatch.setattr(one, "destroy_node", fails)
    with suppress(RuntimeError):
        shut_down(one, two)
    monkeypatch.undo()
    assert destroyed == ["one"] and not one.context.ok() and not two.context.ok()
    one.destroy_node()


def test_the_default_context_can_be_initialised_again() -> None:
    prepare_environment()
    for _ in range(2):
        rclpy.init(args=[])
        shut_down(rclpy.create_node("one"))
        assert not rclpy.ok()
