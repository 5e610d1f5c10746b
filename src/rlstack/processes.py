"""Child processes that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Make the kernel send this process ``number`` when its parent dies, however that dies (Linux only).

    SIGTERM lets a robot's driver still disarm. It goes by the thread that started the process, so that must last.

    Args:
        parent: The parent's process id; if that is gone already, this process ends at once.
        number: The signal.
    """
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
