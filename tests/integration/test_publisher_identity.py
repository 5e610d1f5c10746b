from __future__ import annotations

from typing import Any

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from rlstack.nodes import publisher_identity
from rlstack.nodes.publisher_identity import IdentifiedTake, why_unknown
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


def test_each_message_comes_with_its_publisher(listener: Listener) -> None:
    heard: list[tuple[bytes, bytes]] = []
    node = listener.node
    subscription: Any = node.create_subscription(
        String, "said", lambda data, gid=b"": heard.append((data, gid)), 10, raw=True
    )
    subscription.take_identified = IdentifiedTake(subscription)
    first, second = (node.create_publisher(String, "said", 10) for _ in range(2))
    gids = {bytes(info.endpoint_gid) for info in node.get_publishers_info_by_topic("said")}
    long = String(data="x" * 5000)  # longer than the memory it begins with
    for publisher in (first, second, first, second):
        publisher.publish(long)
    listener.until(lambda: len(heard) == 4, "four messages")
    assert all(data == serialize_message(long) for data, _ in heard)
    a, b, c, d = (gid for _, gid in heard)
    assert (a, b) == (c, d) and {a, b} == gids


def test_the_check_at_the_start_leaves_nothing_behind(listener: Listener) -> None:
    assert why_unknown(listener.node) == ""
    assert not listener.node.get_publishers_info_by_topic("listener/_identity")


def test_another_layout_is_found_out(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shifted(IdentifiedTake):
        def __call__(self) -> tuple[bytes, bytes] | None:
            taken = super().__call__()
            return taken and (taken[0], bytes(8) + taken[1][:8])

    monkeypatch.setattr(publisher_identity, "IdentifiedTake", Shifted)
    assert "another way" in why_unknown(listener.node)


def test_a_library_without_the_functions_is_named(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise OSError("librcl.so: cannot open shared object file")

    monkeypatch.setattr(publisher_identity, "_functions", missing)
    assert why_unknown(listener.node) == "librcl.so: cannot open shared object file"
