"""The one Isaac Sim application of a process, and who has its one world.

Kit, which Isaac Sim runs on, starts once in a process and cannot be started again: it stays up until the process ends,
and worlds come and go in it, one at a time.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from rlstack.errors import UserError

_application: Any = None
_tenant: object | None = None


def start(construct: Callable[[], Any]) -> Any:
    """Return the application, started by ``construct`` at the first call.

    SimulationApp hands the arguments of the command line on to Kit and takes Ctrl-C for itself; both are kept from it,
    so that a node's arguments mean nothing to Kit and Ctrl-C ends the node in its own order.

    Raises:
        UserError: It was not called in the main thread: SimulationApp sets a signal handler.
    """
    global _application
    if _application is not None:
        return _application
    if threading.current_thread() is not threading.main_thread():
        raise UserError("Isaac Sim starts in a process's main thread only: connect the isaac backend there.")
    arguments, handler = sys.argv, signal.getsignal(signal.SIGINT)
    sys.argv = arguments[:1]
    try:
        _application = construct()
    finally:
        sys.argv = arguments
        signal.signal(signal.SIGINT, handler)
    atexit.register(stop)
    return _application


def started() -> bool:
    """Return whether Isaac Sim runs in this process."""
    return _application is not None


def stop() -> None:
    """End the application if it runs; none can be started in this process afterwards."""
    global _application
    application, _application = _application, None
    if application is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        application.close()


def occupy(tenant: object) -> None:
    """Take the process's one world for ``tenant`` until :func:`vacate`.

    Raises:
        UserError: Somebody else has it.
    """
    global _tenant
    if _tenant is not None and _tenant is not tenant:
        raise UserError(
            "Isaac Sim holds one world in a process, and this process has one: close the other isaac backend first, put"
            " all robots into one world, or start another process."
        )
    _tenant = tenant


def vacate(tenant: object) -> None:
    """Give the world back; does nothing where ``tenant`` has it not."""
    global _tenant
    if _tenant is tenant:
        _tenant = None
