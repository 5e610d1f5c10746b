"""Child processes: their signal handlers, and ending them with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler of signal ``number`` (Linux only; elsewhere, True)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def die_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Make the kernel send this process signal ``number`` when its parent dies, for any reason (Linux only).

    SIGTERM lets a robot's driver disarm. The kernel watches the thread that started the process, which must stay alive.

    Args:
        parent: The parent's process id; if it is already gone, this process ends at once.
        number: The signal.
    """
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
