"""What is said on a robot's topics lies in a bag, and becomes an episode."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import numpy as np
import pytest

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


def test_topics_become_a_bag_and_an_episode(listener: Listener, tmp_path: Path) -> None:
    from rlstack.data.bags import add_bag, features_of, open_bag
    from rlstack.nodes.record import RecordNode

    states, commands = JointMessage(topics.type_of(topics.JOINT_STATES)(), NAMES), TrajectoryMessage(NAMES)
    sender = listener.node.create_publisher(type(states.message), "/arm/joint_states", topics.quality("sensor_out"))
    guard = listener.node.create_publisher(commands.type, "/arm/cmd/joints", topics.quality("command"))
    bag = tmp_path / "bags" / "one"
    node = RecordNode({"out": str(bag)}, namespace="/arm", context=listener.context)
    listener.executor.add_node(node)
    node.start()
    listener.until(lambda: sender.get_subscription_count() and guard.get_subscription_count(), "it listens")
    for k in range(1, 11):
        sender.publish(states.fill(k * 50_000_000, np.full(9, 0.1 * k), np.zeros(9)))
        guard.publish(commands.fill(k * 50_000_000, np.full(9, 0.1 * k + 1.0)))
        listener.until(lambda k=k: node.status()[1] == {"joint_states": k, "cmd/joints": k}, "it is recorded")
    node.stop()
    listener.executor.remove_node(node)
    node.destroy_node()
    recording = open_bag(bag, NAMES)
    assert recording.namespace == "/arm"
    with DatasetWriter(tmp_path / "shown", 20, "panda", features_of(recording, NAMES)) as writer:
        add_bag(writer, recording, 20, "")
    (frames,) = Dataset(tmp_path / "shown")
    np.testing.assert_allclose(frames["observation.state"][:, 0], 0.1 * np.arange(1, 11), atol=1e-6)
    np.testing.assert_allclose(frames["action"][:, 8], 0.1 * np.arange(1, 11) + 1.0, atol=1e-6)
    again = RecordNode({"out": str(bag)}, context=listener.context)
    with pytest.raises(UserError, match="must be a folder that does not exist yet"):
        again.start()
    again.destroy_node()


def test_a_disk_that_fills_ends_the_recording_in_a_sentence(listener: Listener, tmp_path: Path) -> None:
    from rlstack.nodes.record import RecordNode

    bag = tmp_path / "bag"
    node = RecordNode({"out": str(bag), "topics": ["joint_states"]}, context=listener.context)
    node.start()
    (heard,) = (s for s in node.subscriptions if s.topic_name == "/joint_states")
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (1_000_000, limits[1])
    )  # as a full disk: a write comes back with an error
    try:
        with pytest.raises(
            UserError, match=r"^The recording ended: cannot write to the bag .*: File too large\. .*room"
        ):
            for _ in range(100):
                heard.callback(bytes(1_000_000))
        node.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
        node.destroy_node()
    assert 0 < sum(path.stat().st_size for path in bag.iterdir()) <= 1_000_000


def test_a_bag_that_cannot_be_created_is_refused(listener: Listener, tmp_path: Path) -> None:
    from rlstack.nodes.record import RecordNode

    (tmp_path / "file").write_text("")
    node = RecordNode({"out": str(tmp_path / "file" / "bag")}, context=listener.context)
    with pytest.raises(UserError, match=r"out: cannot write the bag .*file/bag: File exists"):
        node.start()
    node.destroy_node()
