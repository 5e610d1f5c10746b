from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.serialization import serialize_message
from std_srvs.srv import Trigger

from rlstack.interfaces import topics
from rlstack.interfaces.cdr import compile_reader
from rlstack.nodes.executor import ControlExecutor, serve

pytestmark = pytest.mark.integration

TEXT = topics.type_of(topics.GUARD_MODE)


class World:
    """A node and its executor."""

    def __init__(self) -> None:
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("world", context=self.context)
        self.executor = ControlExecutor(context=self.context)
        self.executor.add_node(self.node)

    def until(self, condition: Callable[[], Any]) -> None:
        assert self.executor.spin_until(condition, 60.0)


@pytest.fixture
def world(_ros_environment: None) -> Iterator[World]:
    made = World()
    yield made
    made.executor.shutdown()
    made.node.destroy_node()
    rclpy.try_shutdown(context=made.context)


def test_what_has_held_once_is_not_asked_again_and_what_never_does_ends_in_time(world: World) -> None:
    answers = iter([False, True, False])
    assert world.executor.spin_until(lambda: next(answers), 60.0)
    assert next(answers) is False, "the third answer was not asked for"
    begun = time.monotonic()
    assert not world.executor.spin_until(lambda: False, 0.05)
    assert time.monotonic() - begun < 30.0


def test_messages_timers_and_services_are_served(world: World) -> None:
    heard: list[str] = []
    ticks: list[int] = []
    world.node.create_subscription(TEXT, "in", lambda message: heard.append(message.data), 10)
    publisher = world.node.create_publisher(TEXT, "in", 10)
    world.node.create_timer(0.01, lambda: (ticks.append(1), publisher.publish(TEXT(data="x"))))
    world.node.create_service(Trigger, "do", lambda request, response: Trigger.Response(success=True))
    client = world.node.create_client(Trigger, "do")
    world.until(client.service_is_ready)
    future = client.call_async(Trigger.Request())
    world.until(future.done)
    assert future.result().success
    world.until(lambda: len(ticks) > 20 and len(heard) > 5)


def test_raw_subscriptions_get_bytes(world: World) -> None:
    heard: list[bytes] = []
    world.node.create_subscription(TEXT, "in", heard.append, 10, raw=True)
    publisher = world.node.create_publisher(TEXT, "in", 10)
    world.node.create_timer(0.02, lambda: publisher.publish(TEXT(data="hello")))
    world.until(lambda: heard)
    assert isinstance(heard[0], bytes) and b"hello" in heard[0]


def test_what_is_created_and_destroyed_while_spinning_is_noticed(world: World) -> None:
    late: list[int] = []
    made: list[Any] = []

    def create() -> None:
        first.cancel()
        made.append(world.node.create_timer(0.01, lambda: late.append(1)))

    first = world.node.create_timer(0.01, create)
    world.until(lambda: len(late) > 3)
    world.node.destroy_timer(made[0])
    count = len(late)
    end = time.monotonic() + 1.5  # past the time at which entities are looked at anew
    world.executor.spin_while(lambda: time.monotonic() < end)
    assert len(late) == count


def test_what_a_callback_raises_comes_out_and_spinning_can_go_on(world: World) -> None:
    ticks: list[int] = []

    def fail() -> None:
        ticks.append(1)
        raise ValueError("from the callback")

    world.node.create_timer(0.01, fail)
    for count in (1, 2):
        with pytest.raises(ValueError, match="from the callback"):
            world.until(lambda: False)
        assert len(ticks) == count


def test_a_context_that_is_shut_down_ends_it_quietly(world: World) -> None:
    world.node.create_timer(0.05, lambda: rclpy.shutdown(context=world.context))
    begun = time.monotonic()
    world.executor.spin_while(lambda: time.monotonic() < begun + 60.0)
    assert time.monotonic() < begun + 30.0


def test_a_malformed_message_ends_nothing_and_is_told(world: World) -> None:
    heard: list[str] = []
    kind = topics.type_of(topics.ODOM)
    read = compile_reader(kind, ["pose.pose.position.x"])
    refused: list[tuple[str, str]] = []
    world.node.refuse = lambda where, why: refused.append((where, why))
    world.node.create_subscription(TEXT, "typed", lambda message: heard.append(message.data), 10)
    world.node.create_subscription(kind, "raw", lambda data: heard.append(str(read(data)[0])), 10, raw=True)
    typed = world.node.create_publisher(TEXT, "typed", 10)
    raw = world.node.create_publisher(kind, "raw", 10)
    cut = [(typed, bytes(serialize_message(TEXT(data="hello")))[:6]), (raw, bytes(serialize_message(kind()))[:20])]

    def send() -> None:
        for publisher, data in cut:
            publisher.publish(data)
        typed.publish(TEXT(data="good"))
        raw.publish(kind())

    world.node.create_timer(0.02, send)
    world.executor.general_period_s = 0.1
    world.until(lambda: heard.count("good") > 50 and heard.count("0.0") > 50 and len(refused) > 50)
    assert set(heard) == {"good", "0.0"}
    # Fast DDS drops the typed one itself; another middleware may raise an error, which is told as well
    assert ("/raw", "its 20 bytes are no Odometry") in refused


def test_a_malformed_message_does_not_block_rclpys_own_loop(world: World) -> None:
    refused: list[str] = []
    world.node.refuse = lambda where, why: refused.append(where)
    kind = topics.type_of(topics.ODOM)
    read = compile_reader(kind, ["pose.pose.position.x"])
    world.node.create_subscription(kind, "raw", lambda data: read(data), 10, raw=True)
    world.node.create_service(Trigger, "do", lambda request, response: Trigger.Response(success=True))
    publisher, client = world.node.create_publisher(kind, "raw", 10), world.node.create_client(Trigger, "do")
    world.until(client.service_is_ready)
    publisher.publish(b"\x00\x01\x00\x00\xff\xff")
    end = time.monotonic() + 30.0
    while not refused and time.monotonic() < end:
        world.executor._serve_general()
    assert refused == ["/raw"]
    future = client.call_async(Trigger.Request())
    while not future.done() and time.monotonic() < end:
        world.executor._serve_general()
    assert future.done() and future.result().success


def test_what_the_middleware_cannot_read_is_refused() -> None:
    class Unreadable:
        handle = property(lambda self: self)
        msg_type, raw = TEXT, False

        def take_message(self, kind: Any, raw: bool) -> Any:
            raise rclpy_implementation.RMWError("failed to deserialize")

    refused: list[str] = []
    assert serve(Unreadable(), lambda subscription, error: refused.append(str(error)))
    assert refused == ["failed to deserialize"]
