"""Read an MCAP file, also one without an index, cut off or damaged, as far as it goes."""

from __future__ import annotations

import heapq
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from rlstack.errors import UserError
from rlstack.libraries import import_library

MAGIC = b"\x89MCAP0\r\n"
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX = range(1, 8)
_CHUNK_INDEX, _ATTACHMENT, _ATTACHMENT_INDEX, _STATISTICS, _METADATA, _METADATA_INDEX = range(8, 14)
_DATA_END = 15
_FOOTER_BYTES = 9 + 20 + len(MAGIC)
_MOST_BYTES = 2**30
"""Size of an uncompressed chunk: one beyond it is damaged. Writers make chunks of some MB."""

_RECORD, _MESSAGE_HEAD, _INDEX_ENTRY = struct.Struct("<BQ"), struct.Struct("<HIQQ"), struct.Struct("<QQ")

_UNREADABLE = (ValueError, struct.error, KeyError, IndexError, EOFError, OverflowError, MemoryError, RuntimeError)
"""What a damaged record raises in the libraries that read and decompress it, besides their own errors."""


class Message(NamedTuple):
    """A message of a bag: its topic, ns since 1970 at which it was received and sent, and its bytes."""

    topic: str
    received_ns: int
    sent_ns: int
    sequence: int
    data: bytes


class Damage(NamedTuple):
    """Where a file cannot be read, and why."""

    at_byte: int
    why: str


@dataclass(frozen=True)
class Channel:
    """A topic of a file.

    Args:
        topic: Its name.
        kind: Its message type.
        encoding: Of its messages; ROS 2's is ``cdr``.
        definition: The type's definition.
        definition_encoding: ``ros2msg``, ``ros2idl`` or another; empty: none.
        metadata: What the writer says of it, such as its publishers' qualities of service.
    """

    topic: str
    kind: str
    encoding: str
    definition: str
    definition_encoding: str
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class _Chunk:
    """Messages that are compressed together, or (``compression`` None) one message that is not in a chunk."""

    at_byte: int
    bytes: int
    unpacked_bytes: int
    crc: int
    compression: str | None
    first_ns: int
    last_ns: int
    indexes: Mapping[int, int] | None = None
    """Where the index of each channel is; None: it has none, and may hold messages of any."""


@dataclass
class _Found:
    """What a file has, besides its messages."""

    schemas: dict[int, Any] = field(default_factory=dict)
    channels: dict[int, Any] = field(default_factory=dict)
    chunks: list[_Chunk] = field(default_factory=list)
    metadata: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    attachments: dict[str, int] = field(default_factory=dict)
    """Where each begins."""
    counts: dict[int, int] | None = None
    damage: Damage | None = None


class McapFile:
    """An MCAP file. With its index, opening it reads no messages; without, it reads the headers of its chunks.

    Args:
        path: The file.

    Raises:
        UserError: It cannot be opened, or is something else than an MCAP file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = import_library("mcap.records", "record")
        self._data_stream = import_library("mcap.data_stream", "record").ReadDataStream
        self._unreadable = (*_UNREADABLE, import_library("mcap.exceptions", "record").McapError, _zstd().ZstdError)
        try:
            self._file = path.open("rb")
            self.bytes = path.stat().st_size
            begins = self._file.read(len(MAGIC))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
        if not MAGIC.startswith(begins):
            self._file.close()
            raise UserError(f"{path} is not an MCAP file: its first bytes are {begins!r}.")
        found = None
        with suppress(*self._unreadable):
            found = self._indexed()
        self._found = found or self._scanned()
        self.damage = self._found.damage
        """Where it cannot be read; None: nowhere yet. Reading messages may find it in the middle."""
        self.is_complete = found is not None
        """Whether its writer completed it."""
        self.channels: dict[int, Channel] = {}
        for number, one in self._found.channels.items():
            schema = self._found.schemas.get(one.schema_id)
            kind, form, text = ("", "", b"") if schema is None else (schema.name, schema.encoding, schema.data)
            definition = text.decode(errors="replace")
            self.channels[number] = Channel(one.topic, kind, one.message_encoding, definition, form, one.metadata)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def metadata(self) -> list[tuple[str, dict[str, str]]]:
        """Its metadata records, by name, in their order."""
        return self._found.metadata

    def attachments(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of what is attached."""
        for name, at in self._found.attachments.items():
            with suppress(*self._unreadable):
                yield name, self._parsed(self._records.Attachment, self._record(at)[2]).data

    def spans(self) -> dict[int, tuple[int, int, int]]:
        """Return for each channel with messages their number, and the times of the first and the last, ns."""
        counts: dict[int, int] = dict(self._found.counts or {})
        firsts: dict[int, int] = {}
        lasts: dict[int, int] = {}
        for chunk in self._found.chunks:
            times = self._times(chunk, counts, firsts)
            for number, at in times.items():
                if self._found.counts is None:
                    counts[number] = counts.get(number, 0) + len(at)
                if at:
                    firsts[number] = min([*at, firsts.get(number, at[0])])
                    lasts[number] = max([*at, lasts.get(number, at[0])])
        if self._found.counts is not None:
            lasts = self._lasts(lasts)
        return {number: (counts[number], firsts[number], lasts[number]) for number in firsts if number in lasts}

    def messages(
        self, wanted: Callable[[str], bool] = lambda topic: True, first_ns: int = 0, last_ns: int = 2**63 - 1
    ) -> Iterator[Message]:
        """Yield messages in the order of their receipt; a damaged chunk is left out, and noted in :attr:`damage`.

        Args:
            wanted: Whether a topic is wanted.
            first_ns: Receipt of the earliest, ns.
            last_ns: Receipt of the latest, ns.
        """
        names = {number: channel.topic for number, channel in self.channels.items() if wanted(channel.topic)}
        chunks = [
            chunk
            for chunk in sorted(self._found.chunks, key=lambda chunk: chunk.first_ns)
            if chunk.first_ns <= last_ns
            and chunk.last_ns >= first_ns
            and (chunk.indexes is None or names.keys() & chunk.indexes.keys())
        ]
        waiting: list[tuple[int, int, Message]] = []
        order = 0
        for position, chunk in enumerate(chunks):
            for number, sequence, received_ns, sent_ns, data in self._readable(chunk):
                if number in names and first_ns <= received_ns <= last_ns:
                    order += 1
                    message = Message(names[number], received_ns, sent_ns, sequence, data)
                    heapq.heappush(waiting, (received_ns, order, message))
            until_ns = chunks[position + 1].first_ns if position + 1 < len(chunks) else last_ns + 1
            while waiting and waiting[0][0] < until_ns:
                yield heapq.heappop(waiting)[2]

    # Records ----------------------------------------------------------------------------------------------------

    def _parsed(self, kind: Any, content: bytes) -> Any:
        return kind.read(self._data_stream(BytesIO(content)))

    def _record(self, at: int, most: int = _MOST_BYTES) -> tuple[int, int, bytes]:
        """Return opcode, length and content, up to ``most`` bytes of it, of the record that begins at a byte.

        Raises:
            EOFError: The file ends within it.
        """
        self._file.seek(at)
        head = self._file.read(_RECORD.size)
        if len(head) < _RECORD.size:
            raise EOFError
        opcode, length = _RECORD.unpack(head)
        if at + _RECORD.size + length > self.bytes:
            raise EOFError
        return opcode, length, self._file.read(min(length, most))

    def _indexed(self) -> _Found | None:
        """Return what the index at the file's end says; None: it has none."""
        self._file.seek(max(0, self.bytes - _FOOTER_BYTES))
        end = self._file.read()
        if not end.endswith(MAGIC) or len(end) < _FOOTER_BYTES or _RECORD.unpack_from(end) != (_FOOTER, 20):
            return None
        at, _, crc = struct.unpack_from("<QQI", end, _RECORD.size)
        stop = self.bytes - _FOOTER_BYTES
        if not len(MAGIC) < at < stop:
            return None
        self._file.seek(at)
        summary = self._file.read(self.bytes - at - 4 - len(MAGIC))
        if crc and zlib.crc32(summary) != crc:
            return None
        found = _Found()
        while at < stop:
            opcode, length, content = self._record(at)
            if opcode == _CHUNK_INDEX:
                one = self._parsed(self._records.ChunkIndex, content)
                found.chunks.append(self._chunk_at(one.chunk_start_offset, one.message_index_offsets or None))
            elif opcode == _METADATA_INDEX:
                self._take(_METADATA, self._parsed(self._records.MetadataIndex, content).offset, found)
            elif opcode == _ATTACHMENT_INDEX:
                one = self._parsed(self._records.AttachmentIndex, content)
                found.attachments[one.name] = one.offset
            elif opcode == _STATISTICS:
                one = self._parsed(self._records.Statistics, content)
                found.counts = dict(one.channel_message_counts)
            else:
                self._take(opcode, at, found)
            at += _RECORD.size + length
        complete = found.counts is not None and (found.chunks or not any(found.counts.values()))
        return found if complete and (found.channels or not found.chunks) else None

    def _has_none(self) -> bool:
        """Return whether the file's writer completed it without an index."""
        self._file.seek(max(0, self.bytes - _FOOTER_BYTES))
        end = self._file.read()
        return end.startswith(_RECORD.pack(_FOOTER, 20) + bytes(8)) and end.endswith(MAGIC)

    def _scanned(self) -> _Found:
        """Return what going through the file finds."""
        found, at = _Found(), len(MAGIC)
        indexes: dict[int, int] = {}
        while at < self.bytes:
            try:
                opcode, length, content = self._record(at, 64)
            except EOFError:
                found.damage = Damage(at, "it ends within a record")
                break
            if opcode in (_DATA_END, _FOOTER):  # what follows repeats what was
                if not self._has_none():
                    found.damage = found.damage or Damage(at, "its index is damaged, and all before it is there")
                break
            if opcode == 0:
                found.damage = Damage(at, "there is no record")
                break
            try:
                if opcode == _CHUNK:
                    indexes = {}
                    found.chunks.append(self._chunk_at(at, indexes))
                elif opcode == _MESSAGE_INDEX:
                    indexes[struct.unpack_from("<H", content)[0]] = at
                else:
                    self._take(opcode, at, found)
            except self._unreadable as error:
                found.damage = found.damage or Damage(at, f"a record is damaged ({_said(error)})")
            at += _RECORD.size + length
        else:
            found.damage = found.damage or Damage(self.bytes, "its index is missing")
        if found.chunks and found.chunks[-1].indexes is indexes:  # it may have lost some of them
            found.chunks[-1] = replace(found.chunks[-1], indexes=None)
        for chunk in found.chunks:  # channels and their types are within the chunk of their first message
            if chunk.indexes is None or chunk.indexes.keys() - found.channels.keys():
                with suppress(*self._unreadable):
                    for kind, begin, end in _records_of(data := self._unpacked(chunk)):
                        self._take_kind(kind, data[begin:end], found)
        return found

    def _chunk_at(self, at: int, indexes: Mapping[int, int] | None) -> _Chunk:
        _, length, head = self._record(at, 64)
        first_ns, last_ns, unpacked_bytes, crc, name = struct.unpack_from("<QQQII", head)
        (size,) = struct.unpack_from("<Q", head, 32 + name)
        begin = 40 + name
        if begin + size > length or unpacked_bytes > _MOST_BYTES:
            raise ValueError("the sizes of a chunk contradict each other")
        compression = head[32 : 32 + name].decode()
        start = at + _RECORD.size + begin
        return _Chunk(start, size, unpacked_bytes, crc, compression, first_ns, last_ns, indexes)

    def _take(self, opcode: int, at: int, found: _Found) -> None:
        """Take what a record outside of chunks says."""
        if opcode == _MESSAGE:
            _, length, head = self._record(at, _MESSAGE_HEAD.size)
            _, _, received_ns, _ = _MESSAGE_HEAD.unpack(head)
            total = _RECORD.size + length
            found.chunks.append(_Chunk(at, total, total, 0, None, received_ns, received_ns))
        elif opcode == _METADATA:
            one = self._parsed(self._records.Metadata, self._record(at)[2])
            found.metadata.append((one.name, one.metadata))
        elif opcode == _ATTACHMENT:
            found.attachments[self._parsed(self._records.Attachment, self._record(at)[2]).name] = at
        elif opcode in (_SCHEMA, _CHANNEL):
            self._take_kind(opcode, self._record(at)[2], found)

    def _take_kind(self, opcode: int, content: bytes, found: _Found) -> None:
        if opcode == _SCHEMA:
            schema = self._parsed(self._records.Schema, content)
            found.schemas[schema.id] = schema
        elif opcode == _CHANNEL:
            channel = self._parsed(self._records.Channel, content)
            found.channels[channel.id] = channel

    # Messages ---------------------------------------------------------------------------------------------------

    def _unpacked(self, chunk: _Chunk) -> bytes:
        self._file.seek(chunk.at_byte)
        data = self._file.read(chunk.bytes)
        if chunk.compression == "zstd":
            data = _zstd().decompress(data, chunk.unpacked_bytes)
        elif chunk.compression == "lz4":
            data = import_library("lz4.frame", "record").decompress(data)
        elif chunk.compression:
            raise ValueError(f"its compression '{chunk.compression}' is unknown")
        if len(data) != chunk.unpacked_bytes:
            raise ValueError(f"it has {len(data)} bytes and not {chunk.unpacked_bytes}")
        if chunk.crc and zlib.crc32(data) != chunk.crc:
            raise ValueError("its checksum is wrong")
        return data

    def _messages_of(self, chunk: _Chunk) -> list[tuple[int, int, int, int, bytes]]:
        """Return channel, sequence, receipt, sending and data of a chunk's messages."""
        data, found = self._unpacked(chunk), []
        for opcode, begin, end in _records_of(data):
            if opcode == _MESSAGE:
                head = _MESSAGE_HEAD.unpack_from(data, begin)
                found.append((*head, data[begin + _MESSAGE_HEAD.size : end]))
        return found

    def _readable(self, chunk: _Chunk) -> list[tuple[int, int, int, int, bytes]]:
        """Return the same; nothing if they cannot be read."""
        try:
            return self._messages_of(chunk)
        except self._unreadable as error:
            self.damage = self.damage or Damage(chunk.at_byte, f"a chunk is damaged ({_said(error)})")
            return []

    def _index(self, at: int) -> tuple[int, list[int]]:
        """Return channel and times of the index that begins at a byte."""
        opcode, length, content = self._record(at)
        number, size = struct.unpack_from("<HI", content)
        if opcode != _MESSAGE_INDEX or size + 6 > length:
            raise ValueError("an index is not where it should be")
        return number, [at_ns for at_ns, _ in _INDEX_ENTRY.iter_unpack(content[6 : 6 + size])]

    def _times(self, chunk: _Chunk, counts: Mapping[int, int], seen: Mapping[int, int]) -> dict[int, list[int]]:
        """Return the times of a chunk's messages, by channel: of a file with an index, of channels not yet seen."""
        if not chunk.indexes:
            times: dict[int, list[int]] = {}
            for number, _, received_ns, _, _ in self._readable(chunk):
                times.setdefault(number, []).append(received_ns)
            return times
        wanted = chunk.indexes.items()
        if self._found.counts is not None:
            wanted = [(number, at) for number, at in wanted if number not in seen]  # type: ignore[assignment]
        try:
            return dict(self._index(at) for _, at in wanted)
        except self._unreadable as error:
            self.damage = self.damage or Damage(chunk.at_byte, f"an index is damaged ({_said(error)})")
            return {}

    def _lasts(self, known: Mapping[int, int]) -> dict[int, int]:
        """Return the time of the last message of each channel, from the file's end."""
        lasts: dict[int, int] = {}
        for chunk in reversed(self._found.chunks):
            for number, at in self._times(chunk, {}, lasts).items():
                if at and number not in lasts:
                    lasts[number] = max(at)
        return {**known, **lasts}


def _records_of(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield opcode, begin and end of the content of each record in a chunk."""
    at = 0
    while at < len(data):
        opcode, length = _RECORD.unpack_from(data, at)
        begin, at = at + _RECORD.size, at + _RECORD.size + length
        if at > len(data):
            raise ValueError("a record ends beyond it")
        yield opcode, begin, at


def _zstd() -> Any:
    return import_library("zstandard", "record")


def _said(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
