"""Memory-mapped files of a replay buffer, and the order in which they are written and read.

``replay.json`` describes the buffer; it is written last, so a folder without it is not a buffer. ``ring.bin`` has for
each lane the number of steps ever written (head) and the oldest step still in it (tail), then the episode number of
each slot, and the first step of each episode. Each field has a file of its own.

Steps are counted from the lane's first and lie in slot ``number % slots``. Steps from tail to head, without head, are
complete. The writer raises the tail before it overwrites a step, and the head after it has written one; a reader checks
the tail again after copying. So a process killed between any two instructions leaves a valid buffer, and a reader knows
what was overwritten while it copied.
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
    """Memory fence: no read or write of memory is moved across this call, also on processors that reorder them.

    Releasing a lock orders what came before, acquiring it again what follows.
    """
    for _ in range(2):
        with _TURNSTILE:
            pass


class Storage:
    """A replay buffer's files as arrays.

    Attributes:
        spec: Fields and size.
        heads: (lanes,) number of steps ever written to each lane.
        tails: (lanes,) oldest step still in each lane.
        episodes: (lanes, slots) episode number of each slot, counted in its lane.
        firsts: (lanes, slots) first step of each episode, at its number modulo slots.
        fields: Values of each field by name (lanes * slots, ...), lane after lane.
    """

    def __init__(self, folder: Path, spec: ReplaySpec, *, writable: bool) -> None:
        self.spec = spec
        lanes, slots = spec.lanes, spec.slots
        self._ring = _map(folder / RING_FILE, _ring(spec), 1, writable)
        ring = self._ring.view(np.ndarray)  # indexing a plain array is several times faster
        self.heads, self.tails = ring[:lanes], ring[lanes : 2 * lanes]
        self.episodes, self.firsts = ring[2 * lanes :].reshape(2, lanes, slots)
        self._mapped = [_map(folder / file_of(n), field, lanes * slots, writable) for n, field in spec.fields.items()]
        self.fields = {name: mapped.view(np.ndarray) for name, mapped in zip(spec.fields, self._mapped)}

    def flush(self) -> None:
        """Flush to the disk, fields first."""
        for mapped in (*self._mapped, self._ring):
            mapped.flush()


def file_of(name: str) -> str:
    """Return the name of a field's file."""
    return f"field.{name}.bin"


def open_storage(folder: Path) -> Storage:
    """Open the buffer in ``folder`` for reading.

    Raises:
        UserError: There is none, or a file is damaged.
    """
    return Storage(folder, read_spec(folder / SPEC_FILE), writable=False)


def create_or_open(folder: Path, spec: ReplaySpec) -> Storage:
    """Open the buffer in ``folder`` for writing, or create it there and reserve its space on disk.

    Raises:
        UserError: It has other fields or another size, a file is damaged, or the disk is full.
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
    """Lock ``folder`` for writing; return the descriptor, see :func:`rlstack.files.lock`.

    Raises:
        UserError: Another process writes it, or the folder cannot be created.
    """
    return files.lock(
        folder,
        LOCK_FILE,
        f"Another process is writing the replay buffer in {folder}, which has one writer at a time: stop it, or give"
        " another folder.",
    )


def _ring(spec: ReplaySpec) -> Field:
    return Field((2 * spec.lanes + 2 * spec.lanes * spec.slots,), "int64")


def _reserve(path: Path, size: int) -> None:
    """Create a file of zeros with its space reserved: a full disk is an error now, not a crash during the run."""
    try:
        if size > shutil.disk_usage(path.parent).free:  # file systems without reservation would write zeros
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UserError(
            f"Cannot reserve {size / 1e6:.0f} MB for the replay buffer's {path}: {error.strerror}. Free some space, or"
            " give a folder on another disk or a smaller capacity."
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
