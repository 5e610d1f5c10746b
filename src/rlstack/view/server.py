"""The viewer's server: viser's, behind a :class:`rlstack.view.gate.Gate`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import socket
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.view.gate import LOOPBACK, Gate, free_port
from rlstack.view.heartbeat import Heartbeat
from rlstack.view.no_webgl import page_for_all

_EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen on that no browser can open; this machine's name stands for them in the address."""


class ViewServer:
    """A viser server that this machine's browsers reach, and others with a token.

    Args:
        host: Address to listen on; other machines reach it unless it is a loopback address.
        port: Port; the next free one if it is in use.
        token: What a browser must know. Empty: nothing on a loopback address, else a random one.
        label: Title of the page's panel.
        width: Width of the panel: ``small`` or ``medium``.

    Raises:
        UserError: viser is not installed, or the address cannot be listened on.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str = "",
        *,
        label: str = "rlstack",
        width: Literal["small", "medium"] = "small",
    ) -> None:
        viser = import_library("viser", "view")
        try:
            listening = free_port(host, port)
        except OSError as error:
            raise UserError(f"The view cannot listen on {host}, port {port}: {error.strerror or error}.") from error
        self.port: int = listening.getsockname()[1]
        token = token or ("" if host in LOOPBACK else secrets.token_urlsafe(16))
        hidden = "127." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))
        with contextlib.redirect_stdout(io.StringIO()):  # it prints an address that is not the one to open
            made: Any = viser.ViserServer(hidden, port=0, verbose=False)
        self.viser = made
        self.viser.request_share_url = lambda *_: None  # a page could ask it to open a tunnel out of this machine
        self.viser.gui.configure_theme(control_width=width, show_logo=False, show_share_button=False)
        self.viser.gui.set_panel_label(label)
        written = Path(viser.__file__).parent / "client" / "build" / "index.html"
        page = page_for_all(written.read_text()) if written.is_file() else None
        self._gate = Gate((hidden, self.viser.get_port()), token, page)
        self._loop = self.viser.get_event_loop()
        asyncio.run_coroutine_threadsafe(self._gate.open(listening), self._loop).result(timeout=10.0)
        websockets = self.viser._websock_server  # viser tells of a browser's end alone, tens of seconds late
        self._heartbeat = Heartbeat(lambda: websockets._live_connections)
        self._pings = asyncio.run_coroutine_threadsafe(self._heartbeat.run(), self._loop)
        here = socket.gethostname() if host in _EVERYWHERE else host
        name = "localhost" if host in LOOPBACK else f"[{here}]" if ":" in here else here
        self.url = f"http://{name}:{self.port}" + (f"/?token={quote(token, safe='')}" if token else "")
        """What to open in a browser."""

    @property
    def watched(self) -> bool:
        """Whether a browser is there."""
        return bool(self.viser.get_clients())

    def browsers(self) -> set[int]:
        """Return the browsers that are there, by number, without those that have not answered for 1.5 s."""
        return self._heartbeat.alive() & set(self.viser.get_clients())

    def close(self) -> None:
        """End it; browsers show that they have lost it."""
        self._pings.cancel()
        with contextlib.suppress(Exception):  # its loop may have ended with the process
            asyncio.run_coroutine_threadsafe(self._gate.close(), self._loop).result(timeout=1.0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.viser.stop()
