"""A page in a process of its own, with the lowest priority, which shows what another process tells it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

from rlstack.errors import UserError
from rlstack.processes import die_with_parent, give_way
from rlstack.view.server import ViewServer

_RATE_HZ = 20.0


class Page(Protocol):
    """What is on the page."""

    def take(self, kind: str, content: Any) -> None:
        """Take what the other process sent."""

    def draw(self) -> None:
        """Draw what is new, if anybody looks."""


class PageProcess:
    """Context manager of the process; what cannot be sent is left out, and its end ends nothing else.

    Args:
        make: Makes the page of a server and of the further arguments, in the process; it and they are pickled.
        arguments: These.
        label: Title of the page's panel.
        port: The page's; the next free one if it is in use.

    Raises:
        UserError: viser is not installed, or the port cannot be listened on.
    """

    def __init__(self, make: Callable[..., Page], *arguments: Any, label: str, port: int = 8080) -> None:
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        given = (theirs, os.getpid(), make, arguments, label, port)
        self.process = context.Process(target=_serve, args=given, name=f"{label} view", daemon=True)
        self.process.start()
        theirs.close()
        try:
            kind, content = self._connection.recv()
        except EOFError:
            kind, content = "error", f"The browser view of {label} ended at its start."
        if kind == "error":
            raise UserError(content)
        self.url: str = content
        """What to open in a browser."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()  # it ends then
        self.process.join(timeout=2.0)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()

    def send(self, kind: str, content: Any) -> None:
        """Tell the page something."""
        with suppress(OSError):  # it has ended
            self._connection.send((kind, content))


def _serve(
    connection: Connection, parent: int, make: Callable[..., Page], arguments: tuple[Any, ...], label: str, port: int
) -> None:
    """Serve the page until the other end is closed."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process, whose end ends this
    give_way()
    try:
        server = ViewServer(port=port, label=label, width="medium")
    except UserError as error:
        connection.send(("error", str(error)))
        return
    connection.send(("open", server.url))
    page = make(server, *arguments)
    with suppress(EOFError, OSError):
        while True:
            while connection.poll():
                page.take(*connection.recv())
            page.draw()
            time.sleep(1.0 / _RATE_HZ)
    server.close()
