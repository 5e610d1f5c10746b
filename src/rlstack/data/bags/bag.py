"""Open any ROS 2 bag: MCAP as far as it goes, and the other formats through rosbags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from rlstack.data.bags.bag_writer import FACTS
from rlstack.data.bags.mcap_file import McapFile, Message
from rlstack.errors import UserError, unknown_name
from rlstack.libraries import import_library

_LAST_NS = 2**63 - 1


@dataclass
class Topic:
    """A topic of a bag.

    Args:
        kind: Its message type.
        count: Number of its messages.
        first_ns: Receipt of the first, ns since 1970; 0 without messages.
        last_ns: Receipt of the last, likewise.
        encoding: Of its messages; ROS 2's is ``cdr``.
        qos: Its publishers' qualities of service, as in metadata.yaml.
    """

    kind: str
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    encoding: str = "cdr"
    qos: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def rate_hz(self) -> float:
        """Mean rate of its messages; 0: fewer than two."""
        span_ns = self.last_ns - self.first_ns
        return 1e9 * (self.count - 1) / span_ns if span_ns else 0.0

    @property
    def is_latched(self) -> bool:
        """Whether its last message is for those who come later, too."""
        return bool(self.qos) and all(one.get("durability") in ("transient_local", 1) for one in self.qos)

    def add(self, count: int, first_ns: int, last_ns: int) -> None:
        """Count messages of one file."""
        self.first_ns = min(first_ns, self.first_ns) if self.count else first_ns
        self.last_ns = max(last_ns, self.last_ns)
        self.count += count


class Bag:
    """A bag that is open for reading; leave its context to close it.

    Args:
        path: Its folder, or one of its files.

    Raises:
        UserError: There is none, it is something else, or its format needs ``rosbags``, which is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise UserError(f"There is no bag {self.path}: check the path.")
        files = mcap_files(self.path)
        self._source: _McapFiles | _Rosbags = _McapFiles(files) if files else _Rosbags(self.path)

    def __enter__(self) -> Bag:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its files."""
        self._source.close()

    @property
    def files(self) -> list[Path]:
        """Its files, in their order."""
        return self._source.files

    @cached_property
    def topics(self) -> dict[str, Topic]:
        """Its topics by name, sorted."""
        return dict(sorted(self._source.topics().items()))

    @property
    def first_ns(self) -> int:
        """Receipt of the first message, ns since 1970; 0: there is none."""
        return min((topic.first_ns for topic in self.topics.values() if topic.count), default=0)

    @property
    def last_ns(self) -> int:
        """Receipt of the last message, likewise."""
        return max((topic.last_ns for topic in self.topics.values()), default=0)

    @property
    def facts(self) -> dict[str, str]:
        """What its recorder noted: the policy's SHA-256, versions, lost messages, ..."""
        return self._source.facts()

    @property
    def attachments(self) -> dict[str, bytes]:
        """What is attached, by name."""
        return self._source.attachments()

    @property
    def damage(self) -> list[str]:
        """Sentences about where it cannot be read, as far as it has been."""
        return self._source.damage()

    def lost(self, which: str = "lost") -> dict[str, int]:
        """Return how many messages its recorder ``lost`` (they did not arrive) or ``dropped``, by topic."""
        try:
            found = json.loads(self.facts.get(which, "{}"))
            return {str(topic): int(count) for topic, count in found.items()}
        except (ValueError, AttributeError, TypeError):
            return {}

    def choose(self, topics: Collection[str]) -> list[str]:
        """Return those of its topics that are named, absolute or by their ends.

        Raises:
            UserError: It has no such topic.
        """
        chosen = []
        for name in topics:
            found = [topic for topic in self.topics if topic == name or topic.endswith(f"/{name.strip('/')}")]
            exact = [topic for topic in found if topic == name]
            if not found:
                raise unknown_name(f"topic of {self.path}", name, self.topics)
            chosen += exact or found
        return list(dict.fromkeys(chosen))

    def messages(
        self, topics: Collection[str] | None = None, first_ns: int = 0, last_ns: int = _LAST_NS
    ) -> Iterator[Message]:
        """Yield messages in the order of their receipt.

        Args:
            topics: Their topics; None: all.
            first_ns: Receipt of the earliest, ns.
            last_ns: Receipt of the latest, ns.
        """
        return self._source.messages(lambda topic: topics is None or topic in topics, first_ns, last_ns)

    def deserialize(self, message: Message) -> Any:
        """Return a message as rosbags' dataclass of its type.

        Raises:
            UserError: Its type is unknown, or its bytes are no message of that type.
        """
        topic = self.topics[message.topic]
        try:
            return self._source.typestore.deserialize_cdr(message.data, topic.kind)
        except Exception as error:  # rosbags raises its own errors and those of its decoders
            raise UserError(f"{self.path}: {message.topic} has bytes that are no {topic.kind} ({error}).") from error


def mcap_files(path: Path) -> list[Path]:
    """Return the MCAP files of a bag, in their order; none if it has another format."""
    if path.is_file():
        return [] if path.suffix in (".db3", ".zstd", ".bag") else [path]
    if _packed(path / "metadata.yaml"):
        return []
    return sorted(path.glob("*.mcap"), key=lambda file: [n.rjust(9, "0") for n in re.split(r"(\d+)", file.name)])


def _packed(metadata: Path) -> bool:
    """Return whether a bag's messages or files are compressed one by one, which rosbags undoes."""
    try:
        told = yaml.safe_load(metadata.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
        return str(told.get("compression_mode") or "none").lower() in ("message", "file")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return False  # a recording that was killed may have none, or an unfinished one


def message_definitions() -> Any:
    """Return rosbags' message definitions of ROS 2 Jazzy, for bags without their own."""
    typesys = import_library("rosbags.typesys", "record")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)


class _McapFiles:
    """The files of a bag in MCAP."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self._open: list[McapFile] = []
        try:
            for file in files:
                self._open.append(McapFile(file))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for file in self._open:
            file.close()

    def topics(self) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        for file in self._open:
            spans = file.spans()
            for number, channel in file.channels.items():
                topic = found.setdefault(channel.topic, Topic(channel.kind, encoding=channel.encoding))
                topic.qos = topic.qos or _profiles(channel.metadata.get("offered_qos_profiles", ""))
                if number in spans:
                    topic.add(*spans[number])
        return found

    def facts(self) -> dict[str, str]:
        """Return the newest facts; of a bag of ``ros2 bag``, its custom data."""
        facts: dict[str, str] = {}
        for file in self._open:
            for name, entries in file.metadata:
                if name == FACTS:
                    facts |= entries
        return facts

    def attachments(self) -> dict[str, bytes]:
        return {name: data for file in self._open for name, data in file.attachments()}

    def damage(self) -> list[str]:
        return [
            f"{file.path.name} is readable up to byte {file.damage.at_byte} of {file.bytes}: {file.damage.why}."
            for file in self._open
            if file.damage is not None
        ]

    def messages(self, wanted: Callable[[str], bool], first_ns: int, last_ns: int) -> Iterator[Message]:
        for file in self._open:
            yield from file.messages(wanted, first_ns, last_ns)

    @cached_property
    def typestore(self) -> Any:
        """The types of the bag, as it defines them; Jazzy's where it does not."""
        typesys, store = import_library("rosbags.typesys", "record"), message_definitions()
        own: dict[str, Any] = {}
        for file in self._open:
            for channel in file.channels.values():
                try:
                    if channel.definition_encoding == "ros2msg":
                        own |= typesys.get_types_from_msg(channel.definition, channel.kind)
                    elif channel.definition_encoding in ("ros2idl", "omgidl"):
                        for part in re.split(r"^={80}\nIDL: [^\n]*\n", channel.definition, flags=re.MULTILINE):
                            own |= typesys.get_types_from_idl(part) if part.strip() else {}
                except typesys.TypesysError:
                    continue  # its messages, if they are wanted, are then refused
        fresh = typesys.get_typestore(typesys.Stores.EMPTY)
        fresh.register({**store.fielddefs, **own})
        return fresh


def _profiles(text: str) -> list[Mapping[str, Any]]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


class _Rosbags:
    """A bag that rosbags reads."""

    def __init__(self, path: Path) -> None:
        highlevel = import_library("rosbags.highlevel", "record")
        try:
            self._reader = highlevel.AnyReader([path], default_typestore=message_definitions())
            self._reader.open()
        except UserError:
            raise
        except Exception as error:  # rosbags raises its own errors and those of its decoders
            raise UserError(f"{path} cannot be read as a bag ({error}): `ros2 bag reindex` may repair it.") from error
        self.files = [path]
        self._problem = ""

    def close(self) -> None:
        self._reader.close()

    @property
    def typestore(self) -> Any:
        return self._reader.typestore

    def topics(self) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        span = self._reader.start_time, self._reader.end_time  # of all: it tells no more without reading everything
        for one in self._reader.connections:
            profiles = [{"durability": profile.durability.name.lower()} for profile in one.ext.offered_qos_profiles]
            topic = found.setdefault(one.topic, Topic(one.msgtype, qos=list(profiles)))
            if one.msgcount:
                topic.add(one.msgcount, *span)
        return found

    def facts(self) -> dict[str, str]:
        return dict(self._reader.readers[0].metadata.custom or {})

    def attachments(self) -> dict[str, bytes]:
        return {}

    def damage(self) -> list[str]:
        return [self._problem] if self._problem else []

    def messages(self, wanted: Callable[[str], bool], first_ns: int, last_ns: int) -> Iterator[Message]:
        chosen = [one for one in self._reader.connections if wanted(one.topic)]
        try:
            for one, at_ns, data in self._reader.messages(chosen, start=first_ns, stop=last_ns) if chosen else ():
                yield Message(one.topic, at_ns, at_ns, 0, bytes(data))
        except Exception as error:  # as above
            self._problem = f"{self._reader.paths[0]} is readable up to there: {error}."
