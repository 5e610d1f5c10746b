"""The files of a replay buffer, mapped into memory, and the order in which they may be written and read.

``replay.json`` says what the buffer holds; it is written last, so that a folder without it was never a buffer.
``ring.bin`` holds, for each lane, how many steps were ever written (head) and the oldest that is still held (tail),
then for each step the number of its episode, and for each episode its first step. One file more for each field.

A step's number counts from the lane's first and never goes back; it lies in slot ``number % slots``. Steps from tail
to head, without head, are whole. The writer raises the tail before it writes over a step, and the head after it has
written one; a reader reads the tail again after it has copied. So a process killed between any two instructions
leaves a valid buffer, and a reader knows what was written over under its hands.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import numpy as np

from rlstack import files
from rlstack.data.replay.spec import Field, ReplaySpec, difference, read_spec, to_json
from rlstack.errors import UserError
from rlstack.files import write_atomically

SPEC_FILE = "replay.json"
RING_FILE = "ring.bin"
LOCK_FILE = "writer.lock"

_TURNSTILE = threading.Lock()


def fence() -> None:
    """Keep reads and writes of memory before this call before those after it, also on processors that reorder them.

    Releasing a lock keeps what came before in front of it, taking it again keeps what follows behind it.
    """
    for _ in range(2):
        with _TURNSTILE:
            pass


class Storage:
    """A replay buffer's files as arrays.

    Attributes:
        spec: What it holds.
        heads: Steps ever written to each lane (lanes,).
        tails: The oldest step that each lane still holds (lanes,).
        episodes: The number of each slot's episode, counted in its lane (lanes, slots).
        firsts: The first step of each episode, at its number modulo slots (lanes, slots).
        fields: Values of each field by name (lanes * slots, ...), lane after lane.
    """

    def __init__(self, folder: Path, spec: ReplaySpec, *, writable: bool) -> None:
        self.spec = spec
        lanes, slots = spec.lanes, spec.slots
        self._ring = _map(folder / RING_FILE, _ring(spec), 1, writable)
        ring = self._ring.view(np.ndarray)  # a plain array is several times quicker to index than a mapped one
        self.heads, self.tails = ring[:lanes], ring[lanes : 2 * lanes]
        self.episodes, self.firsts = ring[2 * lanes :].reshape(2, lanes, slots)
        self._mapped = [_map(folder / file_of(n), field, lanes * slots, writable) for n, field in spec.fields.items()]
        self.fields = {name: mapped.view(np.ndarray) for name, mapped in zip(spec.fields, self._mapped)}

    def flush(self) -> None:
        """Bring everything written so far to the disk, fields first."""
        for mapped in (*self._mapped, self._ring):
            mapped.flush()


def file_of(name: str) -> str:
    """Return the name of a field's file."""
    return f"field.{name}.bin"


def open_storage(folder: Path) -> Storage:
    """Open the buffer in ``folder`` for reading.

    Raises:
        UserError: There is none, or its files are not whole.
    """
    return Storage(folder, read_spec(folder / SPEC_FILE), writable=False)


def create_or_open(folder: Path, spec: ReplaySpec) -> Storage:
    """Open the buffer in ``folder`` for writing, or make it if it is not there; its room on disk is taken at once.

    Raises:
        UserError: It holds something else, its files are not whole, or the disk has no room.
    """
    if not (folder / SPEC_FILE).exists():
        for name, field in spec.fields.items():
            _reserve(folder / file_of(name), field.bytes * spec.slots * spec.lanes)
        _reserve(folder / RING_FILE, _ring(spec).bytes)
        write_atomically(folder / SPEC_FILE, to_json(spec), what="the replay buffer's description")
    held = read_spec(folder / SPEC_FILE)
    if different := difference(held, spec):
        raise UserError(
            f"The replay buffer in {folder} cannot be used: {different}. Give another folder, or delete this one."
        )
    storage = Storage(folder, spec, writable=True)
    heads, tails = storage.heads, storage.tails
    if ((tails < 0) | (heads < tails) | (heads - tails > spec.slots)).any():
        raise UserError(f"{folder / RING_FILE} is damaged: delete the folder to begin a new replay buffer.")
    return storage


def lock(folder: Path) -> int:
    """Become the only writer of ``folder``; return the descriptor to close for giving that up (a kill closes it too).

    Raises:
        UserError: Another process is the writer, or the folder cannot be made.
    """
    return files.lock(
        folder,
        LOCK_FILE,
        f"The replay buffer in {folder} is being written already: it has one writer at a time. Stop the other one,"
        " or give another folder.",
    )


def _ring(spec: ReplaySpec) -> Field:
    return Field((2 * spec.lanes + 2 * spec.lanes * spec.slots,), "int64")


def _reserve(path: Path, size: int) -> None:
    """Make a file of zeros whose room is its own: a full disk is an error now, not a crash in the middle of a run."""
    try:
        if size > shutil.disk_usage(path.parent).free:  # where room cannot be reserved, it would be filled with zeros
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UserError(
            f"Cannot take {size / 1e6:.0f} MB for the replay buffer's {path}: {error.strerror}. Make room, or give a"
            " folder on another disk or a smaller capacity."
        ) from error


def _map(path: Path, field: Field, steps: int, writable: bool) -> np.memmap:
    shape = (steps, *field.shape) if steps > 1 else field.shape
    try:
        size = path.stat().st_size
        if size != field.bytes * steps:
            raise UserError(
                f"{path} has {size} bytes instead of {field.bytes * steps}: the replay buffer is damaged. Delete its"
                " folder to begin a new one."
            )
        return np.memmap(path, dtype=field.dtype, mode="r+" if writable else "r", shape=shape)
    except OSError as error:
        raise UserError(f"Cannot open the replay buffer's {path}: {error.strerror}.") from error
