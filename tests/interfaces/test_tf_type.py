"""The type of /tf without tf2_msgs: other programs hear it like the released one."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import pytest

from rlstack.errors import UserError
from rlstack.interfaces import tf2_messages, tf_type, topics
from rlstack.interfaces.tf_messages import TfMessage, Transform, read_tf
from tests.support.ros import Listener

TRANSFORMS = [Transform("odom", "base_link", (1.5, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8), 7_000_000_001)]


@pytest.fixture
def wheels() -> None:
    try:
        importlib.metadata.version("ros-rosidl-runtime-c")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("this ROS is not that of the wheels")


@pytest.mark.integration
def test_messages_of_the_own_type_reach_others_and_come_back(listener: Listener, wheels: None) -> None:
    kind, heard = tf_type._make(), list[bytes]()
    publisher = listener.node.create_publisher(kind, topics.TF, topics.quality("tf"))
    listener.node.create_subscription(kind, topics.TF, heard.append, topics.quality("tf"), raw=True)
    released = listener.hear(topics.TF, "tf") if importlib.util.find_spec("tf2_msgs") is not None else None

    def both() -> bool:
        publisher.publish(TfMessage(TRANSFORMS).data)
        return bool(heard and (released is None or released))

    listener.until(both, "a message")
    assert read_tf(heard[0]) == TRANSFORMS
    (info, *_) = listener.node.get_publishers_info_by_topic(topics.TF)
    assert (info.topic_type, str(info.topic_type_hash)) == ("tf2_msgs/msg/TFMessage", tf2_messages.TYPE_HASH)
    if released:
        (moved,) = released[0].transforms
        assert (moved.header.frame_id, moved.child_frame_id, moved.header.stamp.nanosec) == ("odom", "base_link", 1)
        assert (moved.transform.translation.x, moved.transform.rotation.z) == (1.5, 0.6)


@pytest.mark.integration
def test_objects_of_the_own_type_are_refused_not_misread(listener: Listener, wheels: None) -> None:
    from rclpy.serialization import deserialize_message

    data = TfMessage(TRANSFORMS).data
    with pytest.raises(Exception, match="deserialize"):
        deserialize_message(data, tf_type._make())


def test_another_ros_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch, wheels: None) -> None:
    monkeypatch.setattr(tf_type, "_MAJOR", "99.")
    with pytest.raises(UserError, match="apt install ros-jazzy-tf2-msgs"):
        tf_type._make()


def test_structures_that_differ_are_refused_before_they_are_used(monkeypatch: pytest.MonkeyPatch, wheels: None) -> None:
    monkeypatch.setattr(tf_type, "_NESTED", 17)
    with pytest.raises(UserError, match="structures are not Jazzy's"):
        tf_type._make()
