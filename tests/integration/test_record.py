"""What is said on a robot's topics lies in a bag, and becomes an episode."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from rlstack.data.lerobot import Dataset, DatasetWriter
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration
pytest.importorskip("rosbags")

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)
NAMES = tuple(drive.name for drive in PANDA.drives)


def arrived(node: Any) -> list[int | None]:
    return [node.counts.get(f"/arm/{name}") for name in (topics.JOINT_STATES, topics.JOINT_COMMAND)]


def test_topics_become_a_bag_and_an_episode(listener: Listener, tmp_path: Path) -> None:
    from rlstack.data.bags import add_bag, features_of, open_bag
    from rlstack.data.bags.bag import Bag
    from rlstack.nodes.record import RecordNode

    states, commands = JointMessage(topics.type_of(topics.JOINT_STATES)(), NAMES), TrajectoryMessage(NAMES)
    sender = listener.node.create_publisher(type(states.message), "/arm/joint_states", topics.quality("sensor_out"))
    guard = listener.node.create_publisher(commands.type, "/arm/cmd/joints", topics.quality("command"))
    mode_type = topics.type_of(topics.GUARD_MODE)
    mode = listener.node.create_publisher(mode_type, f"/arm/{topics.GUARD_MODE}", topics.quality("latched"))
    mode.publish(mode_type(data="policy"))
    picture_type = topics.message_type(topics.CAMERA_TYPES[topics.IMAGE])
    pictures = listener.node.create_publisher(picture_type, "/arm/wrist/image_raw", topics.quality("sensor_out"))
    bag = tmp_path / "bags" / "one"
    node = RecordNode({"out": str(bag)}, namespace="/arm", context=listener.context)
    listener.executor.add_node(node)
    node.start()
    listener.until(lambda: sender.get_subscription_count() and guard.get_subscription_count(), "it listens")
    listener.until(lambda: node.counts.get("/arm/guard/mode") == 1, "it hears what was said before")
    for k in range(1, 11):
        sender.publish(states.fill(k * 50_000_000, np.full(9, 0.1 * k), np.zeros(9)))
        guard.publish(commands.fill(k * 50_000_000, np.full(9, 0.1 * k + 1.0)))
        pictures.publish(picture_type())
        listener.until(lambda k=k: arrived(node) == [k, k], "it is recorded")
    node._recorded["/arm/joint_states"]._count(b"another", 5)
    node._recorded["/arm/joint_states"]._count(b"another", 9)
    warning, figures = node.status()
    assert warning == "Messages did not arrive: 3 of /arm/joint_states." and figures["lost"] == 3
    node.stop()
    listener.executor.remove_node(node)
    node.destroy_node()
    with Bag(bag) as read:
        counts = {name: topic.count for name, topic in read.topics.items()}
        assert read.lost() == {"/arm/joint_states": 3} and read.facts["version of mcap"]
        assert "/arm/wrist/image_raw" not in counts
        assert read.topics["/arm/guard/mode"].is_latched and not read.topics["/arm/joint_states"].is_latched
        sent = [message.sequence for message in read.messages(["/arm/joint_states"])]
        assert sent == list(range(1, 11))
    recording = open_bag(bag, NAMES)
    assert recording.namespace == "/arm"
    with DatasetWriter(tmp_path / "shown", 20, "panda", features_of(recording, NAMES)) as writer:
        add_bag(writer, recording, 20, "")
    (frames,) = Dataset(tmp_path / "shown")
    np.testing.assert_allclose(frames["observation.state"][:, 0], 0.1 * np.arange(1, 11), atol=1e-6)
    np.testing.assert_allclose(frames["action"][:, 8], 0.1 * np.arange(1, 11) + 1.0, atol=1e-6)
    again = RecordNode({"out": str(bag)}, context=listener.context)
    with pytest.raises(UserError, match="exists already: give a folder that does not exist yet"):
        again.start()
    again.destroy_node()


def test_a_disk_that_fills_ends_the_recording_in_a_sentence(listener: Listener, tmp_path: Path) -> None:
    from rlstack.data.bags.bag import Bag
    from rlstack.data.bags.mcap_file import Message
    from rlstack.nodes.record import RecordNode

    bag = tmp_path / "bag"
    sender = listener.node.create_publisher(topics.type_of(topics.ODOM), "/odom", topics.quality("sensor_out"))
    node = RecordNode({"out": str(bag), "topics": ["odom"], "compression": "none"}, context=listener.context)
    listener.executor.add_node(node)
    node.start()
    listener.until(lambda: sender.get_subscription_count() == 1, "it listens")
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (1_000_000, limits[1])
    )  # as a full disk: a write comes back with an error
    try:
        for k in range(10):
            node._thread.put([Message("/odom", k, k, k, bytes(1_000_000))])
        with pytest.raises(
            UserError, match=r"^The recording ended: cannot write to the bag .*: File too large\. .*room"
        ):
            listener.until(lambda: False, "it ends")
        node.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
        listener.executor.remove_node(node)
        node.destroy_node()
    with Bag(bag) as read:
        assert "/odom" not in read.topics or not read.topics["/odom"].count
        assert read.facts["version of mcap"] and read.damage


def test_a_bag_that_cannot_be_created_is_refused(listener: Listener, tmp_path: Path) -> None:
    from rlstack.nodes.record import RecordNode

    (tmp_path / "file").write_text("")
    node = RecordNode({"out": str(tmp_path / "file" / "bag")}, context=listener.context)
    with pytest.raises(UserError, match=r"Cannot write the bag .*file/bag: Not a directory"):
        node.start()
    node.destroy_node()


def test_a_bag_is_played_with_its_stamps_and_not_over_a_live_robot(listener: Listener, tmp_path: Path) -> None:
    from rlstack.data.bags.bag_writer import BagTopic, BagWriter
    from rlstack.nodes.play import PlayNode

    kinds = {f"/arm/{name}": topics.TYPES[name] for name in (topics.JOINT_STATES, topics.JOINT_COMMAND)}
    states, commands = JointMessage(topics.type_of(topics.JOINT_STATES)(), NAMES), TrajectoryMessage(NAMES)
    writer = BagWriter(tmp_path / "bag")
    for name, kind in kinds.items():
        writer.add_topic(BagTopic(name, kind))
    for k in range(1, 21):
        at_ns = 10**18 + k * 10_000_000
        for name, message in zip(
            kinds, (states.fill(k, np.full(9, 0.1 * k), np.zeros(9)), commands.fill(k, np.full(9, 0.1 * k)))
        ):
            writer.write(name, at_ns, at_ns, k, serialize_message(message))
    writer.close()

    def play(**parameters: object) -> PlayNode:
        return PlayNode({"bag": str(tmp_path / "bag"), **parameters}, context=listener.context)

    def refused(why: str, **parameters: object) -> None:
        node = play(**parameters)
        with pytest.raises(UserError, match=why):
            node.start()
        node.stop()
        node.destroy_node()

    refused(r"Unknown topic of .*: 'odom'|Unknown topic of .* 'odom'\.", topics=["odom"])
    refused("give from:=to", remap=["/arm"])
    heard = listener.hear(topics.JOINT_COMMAND, robot="arm")
    refused(r"/arm/cmd/joints commands .*/\w+\. Play it where no robot is live")
    seen = listener.hear(topics.JOINT_STATES, robot="replay")
    clock = listener.hear(topics.CLOCK)
    node = play(remap=["/arm:=/replay"], rate=2.0, from_s=0.045)
    node._end = lambda: None
    listener.executor.add_node(node)
    node.start()
    listener.until(
        lambda: node._next is None and len(seen) > 0 and seen[-1].header.stamp.nanosec == 20, "it has played"
    )
    listener.executor.remove_node(node)
    node.stop()
    node.destroy_node()
    assert {message.header.stamp.nanosec for message in seen} <= set(range(6, 21))
    assert clock and clock[0].clock.sec == 10**9 and not heard
