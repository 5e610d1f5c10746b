"""The tables in which a Crazyflie names its log variables and parameters, kept on disk by their checksum."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

LOG_TYPES = {1: "B", 2: "H", 3: "I", 4: "b", 5: "h", 6: "i", 7: "f", 8: "e"}
"""Formats of log variables by the number of their type."""
PARAMETER_TYPES = {0: "b", 1: "h", 2: "i", 3: "q", 5: "e", 6: "f", 7: "d", 8: "B", 9: "H", 10: "I", 11: "Q"}
"""The same of parameters."""
_MOST = 4096
"""Entries that a table may have; more is no answer of a Crazyflie."""


@dataclass(frozen=True)
class Entry:
    """One variable: its number and the number of its type."""

    number: int
    kind: int


class TableError(ValueError):
    """An answer that is none."""


def parse_summary(data: bytes) -> tuple[int, int]:
    """Return the number of entries and the checksum of a table, from the data of its answer.

    Raises:
        TableError: It is none.
    """
    if len(data) < 7:
        raise TableError("a summary that is too short")
    count, checksum = struct.unpack_from("<HI", data, 1)
    if count > _MOST:
        raise TableError(f"a table of {count} entries")
    return count, checksum


def parse_entry(data: bytes) -> tuple[int, str, Entry]:
    """Return number, name and entry, from the data of its answer.

    Raises:
        TableError: It is none.
    """
    if len(data) < 8:
        raise TableError("an entry that is too short")
    number, kind = struct.unpack_from("<HB", data, 1)
    words = data[4:].split(b"\0")
    if len(words) < 3 or not words[0] or not words[1]:
        raise TableError("an entry without a name")
    return number, f"{words[0].decode('latin-1')}.{words[1].decode('latin-1')}", Entry(number, kind & 0x0F)


class TableStore:
    """Tables on disk; one that cannot be read is fetched again, and one that cannot be written is left.

    Args:
        folder: Where; None: ``rlstack/crazyflie`` in the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = folder or root / "rlstack" / "crazyflie"

    def load(self, port: int, checksum: int, count: int) -> dict[str, Entry] | None:
        """Return a table; None: it is not here."""
        try:
            rows = json.loads(self._path(port, checksum).read_text(encoding="utf-8"))
            table = {str(name): Entry(int(number), int(kind)) for name, (number, kind) in rows.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return None
        return table if len(table) == count else None

    def save(self, port: int, checksum: int, table: dict[str, Entry]) -> None:
        """Keep a table."""
        path = self._path(port, checksum)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(f".{os.getpid()}")
            made.write_text(json.dumps({n: [e.number, e.kind] for n, e in table.items()}), encoding="utf-8")
            made.replace(path)
        except OSError:
            return

    def _path(self, port: int, checksum: int) -> Path:
        return self._folder / f"{port}-{checksum:08x}.json"
