"""Shut down with a deadline, because Fast DDS teardown may hang; clean up after nodes that were killed."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

_TIMEOUT_S = 60
"""Deadline: a callback takes microseconds, except on a machine that is suspended."""

_SEGMENT = re.compile(r"fastrtps_[0-9a-f]{16}_el")
_YOUNG_S = 10.0
"""Minimum age: a younger file may belong to a process that is about to lock it."""


def shut_down(*nodes: Any) -> None:
    """Destroy the last nodes of a context, and shut it down.

    Destroying a Fast DDS participant first removes its listener and waits, without a deadline, until the listener's
    callbacks have returned. A ``libfastrtps`` that was built for glibc before 2.30, as the wheels are, turns that
    endless deadline into a time in the past: it polls the clock forever and holds the lock that the callback needs to
    return. That happens when another participant is discovered or disappears at that moment, as when several nodes
    exit together. With a finite deadline the wait works.
    """
    with ExitStack() as stack:  # to the end, whatever a step raises
        for context in {node.context for node in nodes}:
            stack.callback(_shut_down, context)
        for node in reversed(nodes):
            stack.callback(node.destroy_node)
        for node in nodes:
            _remove_listener(node)


def _shut_down(context: Any) -> None:
    from rclpy.utilities import get_default_context, try_shutdown

    context.try_shutdown()
    if context is get_default_context():
        try_shutdown()  # and clear it, so that `rclpy.init` creates a new one


def _remove_listener(node: Any) -> None:
    """Remove the listener of a node's participant, with a deadline; a no-op with other middleware."""
    taking = _fastdds_functions()
    if taking is None:
        return
    participant_of, take_listener = taking
    with node.handle:
        participant = participant_of(node.handle.pointer)
    if participant:
        take_listener(participant, None, _TIMEOUT_S)


@cache
def _fastdds_functions() -> tuple[Callable[[int], int | None], Callable[[int, None, int], int]] | None:
    """Return the functions that find the participant of a ``rcl_node_t`` and set its listener, if available.

    Both are public functions of C++ (``rmw_fastrtps_cpp/get_participant.hpp``, Fast DDS's ``DomainParticipant.hpp``),
    called by their mangled names.
    """
    try:
        rcl, rmw, dds = (
            ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)  # already loaded
            for name in ("librcl.so", "librmw_fastrtps_cpp.so", "libfastrtps.so.2.14")
        )
        rmw_node = rcl.rcl_node_get_rmw_handle
        find = rmw["_ZN16rmw_fastrtps_cpp22get_domain_participantEP10rmw_node_s"]
        take = dds[
            "_ZN8eprosima7fastdds3dds17DomainParticipant12set_listenerEPNS1_25DomainParticipantListenerE"
            "NSt6chrono8durationIlSt5ratioILl1ELl1EEEE"
        ]
    except (OSError, AttributeError):
        return None
    rmw_node.argtypes, rmw_node.restype = [ctypes.c_void_p], ctypes.c_void_p
    find.argtypes, find.restype = [ctypes.c_void_p], ctypes.c_void_p
    take.argtypes, take.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], ctypes.c_uint32
    return lambda node: find(rmw_node(node)), take


def remove_left_behind(folder: Path = Path("/dev/shm")) -> int:
    """Remove the shared memory of dead processes, megabytes each, and return the number of segments.

    Fast DDS holds a lock on the ``_el`` file of a segment for as long as its process lives.
    """
    removed = 0
    now = time.time()
    with contextlib.suppress(OSError):  # no such folder: no shared memory
        for entry in list(os.scandir(folder)):
            if not _SEGMENT.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):  # belongs to another user, or another process is removing it
                if now - entry.stat().st_mtime < _YOUNG_S:
                    continue
                with open(entry.path, "rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(entry.path.removesuffix("_el")).unlink(missing_ok=True)
                    Path(entry.path).unlink()
                    removed += 1
    return removed
