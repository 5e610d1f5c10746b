"""Finds MAVLink frames in bytes: a frame counts only with its length, checksum and, if wanted, signature."""

from __future__ import annotations

from typing import Any

_V1, _V2 = 0xFE, 0xFD
_SIGNED = 0x01


class Framing:
    """Turns bytes into messages; bytes that are no frame are skipped one by one, so that the next frame is found.

    Args:
        codec: ``MAVLink`` of pymavlink, which checks checksums and signatures.
        datagrams: Frames do not continue in the next call's bytes.
    """

    def __init__(self, codec: Any, *, datagrams: bool) -> None:
        self._codec, self._datagrams = codec, datagrams
        self._rest = b""
        self.malformed = 0
        """Bytes that looked like the start of a frame and were none."""

    def feed(self, data: bytes) -> list[Any]:
        """Return the messages whose frames are complete."""
        data = self._rest + data
        found: list[Any] = []
        at = 0
        while (start := self._start(data, at)) is not None:
            end = start + self._size(data, start)
            if end > len(data) and not self._datagrams:
                self._rest = data[start:]
                return found
            message = self._decoded(data[start:end]) if end <= len(data) else None
            if message is None:
                self.malformed += 1
                at = start + 1
            else:
                found.append(message)
                at = end
        self._rest = b""
        return found

    @staticmethod
    def _start(data: bytes, at: int) -> int | None:
        """Return where the next frame may begin; None: nowhere."""
        return min((start for start in (data.find(_V2, at), data.find(_V1, at)) if start >= 0), default=None)

    @staticmethod
    def _size(data: bytes, start: int) -> int:
        """Return the size of a frame by its first bytes; 3 if they have not come yet."""
        if len(data) < start + 3:
            return 3
        if data[start] == _V1:
            return data[start + 1] + 8
        return data[start + 1] + 12 + (13 if data[start + 2] & _SIGNED else 0)

    def _decoded(self, frame: bytes) -> Any:
        if frame[0] == _V2 and frame[2] & ~_SIGNED:  # flags that this reader does not know forbid to read it
            return None
        try:
            message = self._codec.decode(bytearray(frame))
        except Exception:  # pymavlink raises errors of many types for frames that are none
            return None
        return None if message.get_type().startswith("UNKNOWN") else message
