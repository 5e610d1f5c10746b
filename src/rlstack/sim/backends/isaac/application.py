"""The process's single Isaac Sim application and the ownership of its single world.

Kit, which Isaac Sim runs on, can start only once per process: it runs until the process ends and holds one world at a
time.
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
    """Return the application; the first call starts it with ``construct``.

    SimulationApp would pass the command line on to Kit and handle Ctrl-C itself. Both are prevented, so that Kit
    ignores a node's arguments and Ctrl-C shuts the node down as usual.

    Raises:
        UserError: This is not the main thread, in which SimulationApp must set a signal handler.
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


def stop() -> None:
    """Stop the application if it is running; the process cannot start it again."""
    global _application
    application, _application = _application, None
    if application is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        application.close()


def occupy(tenant: object) -> None:
    """Reserve the process's world for ``tenant`` until :func:`vacate`; raise ``UserError`` if another holds it."""
    global _tenant
    if _tenant is not None and _tenant is not tenant:
        raise UserError(
            "Isaac Sim holds one world in a process, and this process has one: close the other isaac backend first, put"
            " all robots into one world, or start another process."
        )
    _tenant = tenant


def vacate(tenant: object) -> None:
    """Release the world; do nothing if ``tenant`` does not hold it."""
    global _tenant
    if _tenant is tenant:
        _tenant = None
