"""Real-time priority of a node's process, so that other programs do not delay its commands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from rlstack.nodes.parameters import Parameter

REAL_TIME_PRIORITY = Parameter(
    "real_time_priority",
    0,
    "Real-time priority (SCHED_FIFO) of the node's process, as far as the system permits it; 0: ordinary scheduling.",
    minimum=0,
    maximum=98,
)


def use_real_time_priority(priority: int, *, inherited: bool = True) -> str:
    """Give all threads of this process a real-time priority (Linux only).

    Args:
        priority: 1 to 98; 99 is for the kernel's own threads.
        inherited: Whether threads and processes that they start get it, too.

    Returns:
        Why the system did not permit it, as a sentence; empty if it did.
    """
    try:
        _schedule(os.SCHED_FIFO | (0 if inherited else os.SCHED_RESET_ON_FORK), priority)
    except (AttributeError, OSError) as error:
        return (
            f"The process has no real-time priority {priority} ({getattr(error, 'strerror', None) or error}) and is"
            " scheduled like any other: allow it to this user in limits.conf (rtprio), or set"
            f" {REAL_TIME_PRIORITY.name} to 0."
        )
    return ""


def use_ordinary_scheduling() -> None:
    """Take the real-time priority away from all threads of this process."""
    with contextlib.suppress(AttributeError, OSError):
        _schedule(os.SCHED_OTHER, 0)


def _schedule(policy: int, priority: int) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


def use_nodes_priority(nodes: Sequence[Any]) -> None:
    """Give this process the highest priority that its nodes' parameters ask for; warn if the system does not permit it.

    Args:
        nodes: Nodes (:class:`rlstack.nodes.runtime.ManagedNode`) of this process.
    """
    name = REAL_TIME_PRIORITY.name
    priority = max((node.parameters[name] for node in nodes if REAL_TIME_PRIORITY in node.PARAMETERS), default=0)
    if priority and (why := use_real_time_priority(priority)):
        nodes[0].get_logger().warning(why)
