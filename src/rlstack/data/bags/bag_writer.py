"""Write a bag as ``ros2 bag`` does, a folder of MCAP files with metadata.yaml, that a killed writer leaves readable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from rlstack.errors import UserError
from rlstack.libraries import import_library

Compression = Literal["zstd", "lz4", "none"]

FACTS = "rlstack"
"""Name of the MCAP metadata records with what is known of a recording: the newest has all of it."""

CHUNK_BYTES = 4 * 2**20
"""Size at which a chunk is written, if :meth:`BagWriter.flush` does not come first."""

_NANOSECONDS = 10**9
_PROFILE, _ENCODING, _VERSION = "ros2", "cdr", 9
"""What ROS 2 Jazzy's ``ros2 bag`` writes into its files, and the version of its metadata.yaml."""


@dataclass(frozen=True)
class BagTopic:
    """A topic of a bag.

    Args:
        name: Its absolute name.
        kind: Its message type, such as ``nav_msgs/msg/Odometry``.
        definition: The type's definition as .msg text, with those that it uses; empty: unknown.
        type_hash: Hash of the type, as ROS 2 states it (``RIHS01_...``); empty: unknown.
        qos: Its publishers' qualities of service, as in metadata.yaml.
    """

    name: str
    kind: str
    definition: str = ""
    type_hash: str = ""
    qos: tuple[Mapping[str, Any], ...] = ()


@dataclass
class _Span:
    """Number of messages, and the times of the first and the last, ns."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, at_ns: int) -> None:
        if at_ns < self.first_ns or not self.count:
            self.first_ns = at_ns
        if at_ns > self.last_ns:
            self.last_ns = at_ns
        self.count += 1

    def described(self) -> dict[str, Any]:
        return {
            "duration": {"nanoseconds": self.last_ns - self.first_ns},
            "starting_time": {"nanoseconds_since_epoch": self.first_ns},
            "message_count": self.count,
        }


@dataclass
class _File:
    """A file of the bag."""

    name: str
    output: _Output
    writer: Any
    numbers: dict[str, int] = field(default_factory=dict)
    span: _Span = field(default_factory=_Span)


class BagWriter:
    """Writes a new bag. Not for several threads at once.

    Messages wait in a chunk until it is full or flushed. What was flushed is the kernel's: a process that is killed
    loses what came after the last :meth:`flush`, and its files, though without an index, are readable up to there.
    A write that fails, as on a full disk, leaves the file as it was before it; the writer is then of no more use.

    Args:
        folder: The bag's folder, which must not exist yet.
        compression: Of the chunks.
        split_bytes: Begin another file when one is as large as that; 0: never.
        split_s: The same for the time between its first and last message, s.

    Raises:
        UserError: The folder exists or cannot be made, or the library ``mcap`` is not installed.
    """

    def __init__(
        self, folder: str | Path, *, compression: Compression = "zstd", split_bytes: int = 0, split_s: float = 0.0
    ) -> None:
        self.folder = Path(folder)
        self._mcap = import_library("mcap.writer", "record")
        self._compression = self._mcap.CompressionType[compression.upper()]
        self._split_bytes, self._split_ns = split_bytes, round(split_s * _NANOSECONDS)
        self._topics: dict[str, BagTopic] = {}
        self._counts: dict[str, int] = {}
        self._facts: dict[str, str] = {}
        self._attachments: dict[str, tuple[str, bytes]] = {}
        self._closed: list[tuple[str, _Span]] = []
        self._span = _Span()
        if os.path.lexists(self.folder):
            raise UserError(f"{self.folder} exists already: give a folder that does not exist yet.")
        try:
            self.folder.mkdir(parents=True)
            self._file = self._next_file()
            self._describe()
        except OSError as error:
            raise UserError(
                f"Cannot write the bag {self.folder}: {error.strerror}. Check that its folder can be written and has"
                " room."
            ) from error

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of messages by topic."""
        return self._counts

    @property
    def size_bytes(self) -> int:
        """Size of the present file."""
        return self._file.output.tell()

    @property
    def files(self) -> int:
        """Number of files."""
        return len(self._closed) + 1

    def add_topic(self, topic: BagTopic) -> None:
        """Add a topic; one that is there already stays as it is."""
        if topic.name in self._topics:
            return
        self._topics[topic.name] = topic
        self._counts[topic.name] = 0
        self._register(self._file, topic)
        self._describe()

    def note(self, facts: Mapping[str, str]) -> None:
        """Add or change facts about the recording: they are written at once, and again into each later file."""
        if all(self._facts.get(name) == value for name, value in facts.items()):
            return
        self._facts |= facts
        self._file.writer.add_metadata(FACTS, dict(self._facts))

    def attach(self, name: str, media_type: str, data: bytes) -> None:
        """Attach a file, which each later file of the bag has as well."""
        if self._attachments.get(name) == (media_type, data):
            return
        self._attachments[name] = (media_type, data)
        self._file.writer.add_attachment(self._file.span.last_ns, self._file.span.last_ns, name, media_type, data)

    def write(self, topic: str, received_ns: int, sent_ns: int, sequence: int, data: bytes) -> None:
        """Write a message.

        Args:
            topic: One of :meth:`add_topic`.
            received_ns: When it was received, ns since 1970: the time by which bags are played.
            sent_ns: When it was sent, likewise.
            sequence: Its publisher's number of it; 0: unknown.
            data: The serialized message (CDR).
        """
        file = self._file
        number = file.numbers[topic]
        file.writer.add_message(number, received_ns, data, sent_ns, sequence & 0xFFFFFFFF)
        file.span.add(received_ns)
        self._span.add(received_ns)
        self._counts[topic] += 1
        is_long = 0 < self._split_ns <= file.span.last_ns - file.span.first_ns
        if is_long or 0 < self._split_bytes <= file.output.tell():
            self._finish(file)
            self._file = self._next_file()
            self._describe()

    def flush(self) -> None:
        """Hand everything to the kernel."""
        self._file.writer.flush()

    def close(self) -> None:
        """Complete the bag: indexes, and what metadata.yaml says."""
        self._finish(self._file)
        self._describe(durably=True)

    def abandon(self) -> None:
        """Close the bag after an error: without an index, as if the process had been killed."""
        with contextlib.suppress(OSError):
            self._file.output.close()
        with contextlib.suppress(OSError, UserError):
            self._closed.append((self._file.name, self._file.span))
            self._describe()

    def _next_file(self) -> _File:
        name = f"{self.folder.name}_{len(self._closed)}.mcap"
        output = _Output(self.folder / name)
        writer = self._mcap.Writer(output, chunk_size=CHUNK_BYTES, compression=self._compression)
        file = _File(name, output, writer)
        writer.start(profile=_PROFILE, library="rlstack")
        for topic in self._topics.values():
            self._register(file, topic)
        if self._facts:
            writer.add_metadata(FACTS, dict(self._facts))
        for attachment, (media_type, data) in self._attachments.items():
            writer.add_attachment(0, 0, attachment, media_type, data)
        return file

    def _register(self, file: _File, topic: BagTopic) -> None:
        encoding = "ros2msg" if topic.definition else ""
        schema = file.writer.register_schema(topic.kind, encoding, topic.definition.encode())
        metadata = {"offered_qos_profiles": _yaml(list(topic.qos)), "topic_type_hash": topic.type_hash}
        file.numbers[topic.name] = file.writer.register_channel(topic.name, _ENCODING, schema, metadata)

    def _finish(self, file: _File) -> None:
        self._closed.append((file.name, file.span))
        file.writer.add_metadata("rosbag2", {"serialized_metadata": _yaml(self._description(self._closed))})
        file.writer.finish()
        file.output.close()

    def _description(self, files: Sequence[tuple[str, _Span]]) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "storage_identifier": "mcap",
            **self._span.described(),
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": topic.name,
                        "type": topic.kind,
                        "serialization_format": _ENCODING,
                        "offered_qos_profiles": [dict(profile) for profile in topic.qos],
                        "type_description_hash": topic.type_hash,
                    },
                    "message_count": self._counts[topic.name],
                }
                for topic in self._topics.values()
            ],
            "compression_format": "",
            "compression_mode": "",  # of whole files or messages; that of MCAP's chunks is not told here
            "relative_file_paths": [name for name, _ in files],
            "files": [{"path": name, **span.described()} for name, span in files],
            "custom_data": dict(self._facts) or None,
            "ros_distro": os.environ.get("ROS_DISTRO", "jazzy"),
        }

    def _describe(self, durably: bool = False) -> None:
        """Write metadata.yaml; without it nothing but rlstack would find the topics of a recording that was killed."""
        files = self._closed if durably else [*self._closed, (self._file.name, self._file.span)]
        path, new = self.folder / "metadata.yaml", self.folder / ".metadata.yaml.tmp"
        with new.open("w", encoding="utf-8") as file:
            file.write(_yaml({"rosbag2_bagfile_information": self._description(files)}))
            if durably:
                file.flush()
                os.fsync(file.fileno())
        os.replace(new, path)


class _Output:
    """A new file, each write to which has reached the kernel when it returns, or was undone."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        self._at = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._at)
                self._file.seek(self._at)
            raise
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            finally:
                self._file.close()


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(data: Any) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True).rstrip() if data else ""
