"""Clean up after nodes that were killed: Fast DDS leaves their shared memory behind, megabytes each."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

_SEGMENT = re.compile(r"fastrtps_[0-9a-f]{16}_el")
_YOUNG_S = 10.0
"""A file that is younger may belong to a process that is about to lock it."""


def remove_left_behind(folder: Path = Path("/dev/shm")) -> int:
    """Remove the segments of processes that no longer run, and return how many.

    Fast DDS holds a lock on the ``_el`` file of a segment for as long as its process lives.
    """
    removed = 0
    now = time.time()
    with contextlib.suppress(OSError):  # no such folder: no shared memory
        for entry in list(os.scandir(folder)):
            if not _SEGMENT.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):  # another's, or another is removing it, too
                if now - entry.stat().st_mtime < _YOUNG_S:
                    continue
                with open(entry.path, "rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(entry.path.removesuffix("_el")).unlink(missing_ok=True)
                    Path(entry.path).unlink()
                    removed += 1
    return removed
