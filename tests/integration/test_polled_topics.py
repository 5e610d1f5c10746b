from __future__ import annotations

from typing import Any

import pytest
import rclpy

from rlstack.interfaces import topics
from rlstack.nodes.polled_topics import PolledTopics
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


def test_a_message_that_a_callback_cannot_read_is_refused_and_ends_nothing(listener: Listener) -> None:
    refused: list[tuple[str, str]] = []
    node = rclpy.create_node("polled", context=listener.context, enable_rosout=False)
    try:
        polled = PolledTopics(node, lambda topic, error: refused.append((topic, str(error))))

        def read(message: Any) -> None:
            raise ValueError("the encoding 'yuv422' is not one of colours")

        polled.subscribe(topics.type_of(topics.GUARD_MODE), "/cf/guard/mode", read, "latched")
        kept = listener.node.create_publisher(
            topics.type_of(topics.GUARD_MODE), "/cf/guard/mode", topics.quality("latched")
        )
        kept.publish(topics.type_of(topics.GUARD_MODE)(data="policy"))

        def polls() -> bool:
            polled.poll()
            return bool(refused)

        listener.until(polls, "the refusal")
        assert refused == [("/cf/guard/mode", "the encoding 'yuv422' is not one of colours")]
        polled.close()
    finally:
        node.destroy_node()
