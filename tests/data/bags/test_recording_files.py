"""What a recorder writes is read again, by rlstack, rosbags and MCAP's own library, and so is what is left of it."""

from __future__ import annotations

import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.data.bags.bag import Bag
from rlstack.data.bags.bag_info import bag_info, described
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.definitions import definition_of
from rlstack.data.bags.mcap_file import McapFile, Message
from rlstack.data.bags.writing_thread import WritingThread
from rlstack.errors import UserError

pytest.importorskip("mcap")
pytest.importorskip("rosbags")

_START_NS = 1_700_000_000_000_000_000
_LATCHED = {
    "history": "keep_last",
    "depth": 1,
    "reliability": "reliable",
    "durability": "transient_local",
    **{name: {"sec": 9223372036, "nsec": 854775807} for name in ("deadline", "lifespan", "liveliness_lease_duration")},
    "liveliness": "automatic",
    "avoid_ros_namespace_conventions": False,
}
_TOPICS = (
    BagTopic("/robot/goal/reached", "std_msgs/msg/Bool", "bool data\n", "", (_LATCHED,)),
    BagTopic("/robot/mode", "std_msgs/msg/String", "string data\n"),
)


def said(text: str) -> bytes:
    """Return a serialized ``std_msgs/String``."""
    data = text.encode() + b"\0"
    return b"\0\1\0\0" + struct.pack("<I", len(data)) + data


def write(folder: Path, count: int, *, flush_every: int = 10, close: bool = True, **options: object) -> list[Message]:
    """Write a bag of two topics, and return its messages."""
    bag = BagWriter(folder, **options)  # type: ignore[arg-type]
    bag.note({"/robot/policy_sha256": "abc"})
    for topic in _TOPICS:
        bag.add_topic(topic)
    bag.attach("/robot/robot.yaml", "application/yaml", b"mass_kg: 1\n")
    messages = []
    for k in range(count):
        at_ns = _START_NS + k * 10_000_000
        topic = _TOPICS[k % 2]
        data = said(f"number {k}") if k % 2 else b"\0\1\0\0" + bytes([k % 4 == 0])
        messages.append(Message(topic.name, at_ns, at_ns - 1000, k + 1, data))
        bag.write(*messages[-1])
        if k % flush_every == flush_every - 1:
            bag.flush()
    if close:
        bag.note({"lost": '{"/robot/mode": 3}'})
        bag.close()
    else:
        bag._file.output._file.close()  # as a kill does
    return messages


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_everything_is_read_again_by_every_library(tmp_path: Path, compression: str) -> None:
    from mcap.reader import make_reader
    from rosbags.highlevel import AnyReader

    messages = write(tmp_path / "bag", 100, compression=compression, split_s=0.5)
    with Bag(tmp_path / "bag") as bag:
        assert list(bag.messages()) == messages
        assert [path.name for path in bag.files] == ["bag_0.mcap", "bag_1.mcap"]
        assert (
            list(bag.messages(["/robot/mode"], messages[40].received_ns, messages[60].received_ns)) == messages[41:60:2]
        )
        reached, mode = (bag.topics[topic.name] for topic in _TOPICS)
        assert (reached.count, mode.count) == (50, 50) and mode.rate_hz == pytest.approx(50.0)
        assert reached.is_latched and not mode.is_latched
        assert bag.deserialize(messages[3]).data == "number 3"
        assert bag.facts["/robot/policy_sha256"] == "abc" and bag.lost() == {"/robot/mode": 3}
        assert bag.attachments == {"/robot/robot.yaml": b"mass_kg: 1\n"} and not bag.damage
    with AnyReader([tmp_path / "bag"]) as reader:
        assert [(at, bytes(data)) for _, at, data in reader.messages()] == [(m.received_ns, m.data) for m in messages]
    read = []
    for path in sorted((tmp_path / "bag").glob("*.mcap")):
        with path.open("rb") as file:
            read += [(c.topic, m.log_time, m.publish_time, m.sequence, m.data)
                     for _, c, m in make_reader(file, validate_crcs=True).iter_messages()]  # fmt: skip
    assert [Message(*one) for one in read] == messages
    told = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert told["message_count"] == 100 and [file["message_count"] for file in told["files"]] == [51, 49]
    assert told["custom_data"]["/robot/policy_sha256"] == "abc"


def test_a_bag_of_a_killed_recorder_is_read_up_to_its_last_flush(tmp_path: Path) -> None:
    messages = write(tmp_path / "bag", 95, close=False)
    with Bag(tmp_path / "bag") as bag:
        assert list(bag.messages()) == messages[:90]
        assert {name: topic.count for name, topic in bag.topics.items()} == {t.name: 45 for t in _TOPICS}
        assert bag.facts == {"/robot/policy_sha256": "abc"} and "/robot/robot.yaml" in bag.attachments
        (sentence,) = bag.damage
        assert "its index is missing" in sentence
        text = described(bag_info(bag))
    assert "messages              90" in text and "bag_0.mcap is readable up to byte" in text
    told = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert [one["topic_metadata"]["name"] for one in told["topics_with_message_count"]] == [t.name for t in _TOPICS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Message]]:
    """Return the bytes of a bag's file, and its messages."""
    folder = tmp_path_factory.mktemp("whole") / "bag"
    messages = write(folder, 20)
    return (folder / "bag_0.mcap").read_bytes(), messages


def test_a_file_that_is_cut_anywhere_is_read_as_far_as_it_goes(
    whole: tuple[bytes, list[Message]], tmp_path: Path
) -> None:
    data, messages = whole
    most = 0
    for length in range(0, len(data), 13):
        path = tmp_path / "cut.mcap"
        path.write_bytes(data[:length])
        file = McapFile(path)
        read = list(file.messages())
        assert read == messages[: len(read)] and len(read) % 10 == 0
        assert len(read) >= most and file.damage is not None and file.damage.at_byte <= length
        assert sum(count for count, _, _ in file.spans().values()) == len(read)
        most = len(read)
        file.close()
    assert most == 20


@given(at=st.floats(0, 1), bits=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_file_with_any_byte_changed_is_read_or_refused(
    whole: tuple[bytes, list[Message]], at: float, bits: int
) -> None:
    data, messages = bytearray(whole[0]), whole[1]
    data[int(at * (len(data) - 1))] ^= bits
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"rlstack-changed-{os.getpid()}.mcap"
    path.write_bytes(data)
    try:
        with Bag(path) as bag:
            read = list(bag.messages())
            described(bag_info(bag, check=True))
        known = {message.data for message in messages}
        assert all(message.data in known for message in read if message.topic in {t.name for t in _TOPICS})
    except UserError as error:
        assert "is not an MCAP file" in str(error)
    finally:
        path.unlink()


@given(st.lists(st.tuples(st.integers(0, 2**40), st.binary(max_size=40)), max_size=30), st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_any_messages_in_any_order_come_back_in_the_order_of_their_receipt(
    tmp_path_factory: pytest.TempPathFactory, said_at: list[tuple[int, bytes]], flush_every: int
) -> None:
    folder = tmp_path_factory.mktemp("any") / "bag"
    bag = BagWriter(folder)
    bag.add_topic(_TOPICS[1])
    for k, (at_ns, data) in enumerate(said_at):
        bag.write(_TOPICS[1].name, at_ns, 0, 0, data)
        if k % flush_every == 0:
            bag.flush()
    bag.close()
    with Bag(folder) as read:
        assert [(m.received_ns, m.data) for m in read.messages()] == sorted(said_at, key=lambda one: one[0])


def test_other_files_and_folders_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.mcap").write_text("this is a text and no bag")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "bag", 10)
    for path, why in (
        (tmp_path / "none", "There is no bag"),
        (tmp_path / "text.mcap", "text.mcap is not an MCAP file"),
        (tmp_path / "empty", "cannot be read as a bag"),
    ):
        with pytest.raises(UserError, match=why):
            Bag(path)
    with pytest.raises(UserError, match="exists already: give a folder"):
        BagWriter(tmp_path / "bag")
    with pytest.raises(UserError, match=r"Cannot write the bag .*text\.mcap/bag: Not a directory"):
        BagWriter(tmp_path / "text.mcap" / "bag")
    with Bag(tmp_path / "bag") as bag, pytest.raises(UserError, match=r"Unknown topic .*'odom'.*Known: /robot/goal"):
        bag.choose(["odom"])


def test_the_definitions_of_installed_types_are_those_of_rosbags() -> None:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    known = get_typestore(Stores.ROS2_JAZZY)
    for kind in ("nav_msgs/msg/Odometry", "sensor_msgs/msg/CameraInfo", "visualization_msgs/msg/MarkerArray"):
        own = get_typestore(Stores.EMPTY)
        own.register(get_types_from_msg(definition_of(kind), kind))
        assert own.hash_rihs01(kind) == known.hash_rihs01(kind)
    assert definition_of("no_such_msgs/msg/Thing") == ""


def test_what_finds_no_room_is_dropped_and_counted_and_small_messages_are_kept(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "bag")
    for topic in _TOPICS:
        bag.add_topic(topic)
    thread = WritingThread(bag, most_bytes=300_000)
    thread.call(lambda bag: time.sleep(0.3))  # a slow disk
    time.sleep(0.05)
    large = Message(_TOPICS[0].name, _START_NS, _START_NS, 0, bytes(100_000))
    thread.put([large, large, large])
    thread.put([Message(_TOPICS[1].name, _START_NS + 1, _START_NS, 0, bytes(100))] * 50)
    thread.close()
    assert thread.dropped == {_TOPICS[0].name: 1}
    with Bag(tmp_path / "bag") as read:
        assert {name: topic.count for name, topic in read.topics.items()} == {_TOPICS[0].name: 2, _TOPICS[1].name: 50}


def test_a_full_disk_ends_the_thread_and_leaves_whole_records(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "bag", compression="none")
    bag.add_topic(_TOPICS[1])
    thread = WritingThread(bag)
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (5_000_000, limits[1])
    )  # as a full disk: a write comes back with an error
    try:
        for k in range(20):
            thread.put([Message(_TOPICS[1].name, _START_NS + k, _START_NS, 0, bytes(1_500_000))])
        with pytest.raises(OSError, match="File too large"):
            thread.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    with Bag(tmp_path / "bag") as read:
        assert read.topics[_TOPICS[1].name].count == 3 == len(list(read.messages()))


_WRITER = """
import sys, time
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.mcap_file import Message
from rlstack.data.bags.writing_thread import WritingThread
bag = BagWriter(sys.argv[1])
bag.add_topic(BagTopic("/odom", "std_msgs/msg/String", "string data\\n"))
thread, number = WritingThread(bag), 0
while True:
    now = time.time_ns()
    thread.put([Message("/odom", now, now, number + k, bytes(700)) for k in range(20)])
    number += 20
    print(now, flush=True)
    time.sleep(0.02)
"""


def test_a_killed_recorder_leaves_everything_but_its_last_second(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path / "bag")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first_ns = int(process.stdout.readline())
    time.sleep(1.2)
    process.kill()
    last_ns = [first_ns, *map(int, process.stdout.read().split())][-1]
    process.wait()
    with Bag(tmp_path / "bag") as bag:
        read = list(bag.messages())
    assert [message.sequence for message in read] == list(range(len(read)))
    assert read[0].received_ns == first_ns and last_ns - read[-1].received_ns < 1_000_000_000
