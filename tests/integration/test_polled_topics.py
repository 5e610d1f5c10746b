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


def test_what_comes_often_is_left_while_it_rests(listener: Listener) -> None:
    node = rclpy.create_node("polled", context=listener.context, enable_rosout=False)
    heard: list[Any] = []
    try:
        polled = PolledTopics(node, lambda topic, error: None)
        polled.subscribe(topics.type_of(topics.ODOM), "/cf/odom", heard.append, "sensor_in")
        polled.subscribe(topics.type_of(topics.GUARD_MODE), "/cf/guard/mode", heard.append, "latched")
        odom = listener.node.create_publisher(topics.type_of(topics.ODOM), "/cf/odom", topics.quality("sensor_out"))
        mode = listener.node.create_publisher(
            topics.type_of(topics.GUARD_MODE), "/cf/guard/mode", topics.quality("latched")
        )
        listener.until(lambda: odom.get_subscription_count() and mode.get_subscription_count(), "both")
        polled.rest(True)
        listener.until(lambda: not odom.get_subscription_count(), "leaving odometry")
        assert mode.get_subscription_count() == 1
        polled.poll()
        polled.rest(False)
        listener.until(odom.get_subscription_count, "coming back")

        def hears() -> bool:
            odom.publish(topics.type_of(topics.ODOM)())
            polled.poll()
            return bool(heard)

        listener.until(hears, "odometry again")
        polled.close()
    finally:
        node.destroy_node()
