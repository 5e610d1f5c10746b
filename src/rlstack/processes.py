"""Child processes: their signal handlers, and ending them with the process that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys
from pathlib import Path

STARTED_BY = "RLSTACK_STARTED_BY"
"""Environment variable with the id of the process that started this one, and that it must not outlive."""

AGAIN_S = 0.5
"""A signal that comes this much later than the first is a second one: a terminal and a launcher may send the same."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call, by machine; linux/arch/*/entry/syscalls."""
_LEAST_NICE, _SLICE_NS = 19, 100_000
"""Weakest share of a processor, and the shortest turn that Linux grants."""
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


def children_cpu_s() -> float:
    """Return the CPU time of all processes that this one has started and that have ended, seconds."""
    used = os.times()
    return used.children_user + used.children_system


def give_way() -> None:
    """Let this process, and threads that start from now on, delay others as little as possible.

    It has the smallest share of busy processors, its turns are of 0.1 ms (from Linux 6.12 on), and its waking up
    interrupts nobody. Other than under SCHED_IDLE it is never starved: on a busy machine, too, it obeys who uses it.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LEAST_NICE)
    number = _SCHED_SETATTR.get(platform.machine())
    if _LIBC is None or number is None:
        return
    fields = (48, os.SCHED_BATCH, 0, _LEAST_NICE, 0, _SLICE_NS, 0, 0)  # struct sched_attr, linux/sched/types.h
    attributes = ctypes.create_string_buffer(struct.pack("=IIQiIQQQ", *fields))
    _LIBC.syscall(number, 0, attributes, 0)  # refused by older kernels, which have no turns to set
