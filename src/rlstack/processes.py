"""Child processes: their signal handlers, and ending them with the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

STARTED_BY = "RLSTACK_STARTED_BY"
"""Environment variable with the id of the process that started this one, and that it must not outlive."""

AGAIN_S = 0.5
"""A signal that comes this much later than the first is a second one: a terminal and a launcher may send the same."""

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


def die_with_starter() -> None:
    """Receive SIGTERM when the process that :data:`STARTED_BY` names dies; without the variable, do nothing.

    `ros2 launch` and `ros2 run` end at once on SIGTERM and SIGKILL, and leave what they started running. A program
    between the two, such as a debugger, is watched instead of the starter. The children of this process do not inherit
    the variable.
    """
    starter = os.environ.pop(STARTED_BY, "")
    if _LIBC is None or not starter.isdigit() or int(starter) <= 1:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if not Path(f"/proc/{starter}").exists():
        os._exit(1)
