"""The door of the viewer's server: refuses other sites' pages, and callers without the token.

viser's own server answers everyone. It listens on a loopback address that nobody is told, and this one, in front of it,
passes on what comes from the viewer's page.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import hmac
import socket
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, unquote, urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine in a browser's address bar."""

_COOKIE = "rlstack_view"
_HEAD_WITHIN_S = 10.0
_MOST_HEAD = 16_384
_MOST_PASSED = 65_536
_PORTS = 100
"""Ports that are tried, from the wanted one on."""


def free_port(host: str, port: int) -> socket.socket:
    """Return a listening socket at a port or the next free one.

    Raises:
        OSError: None of them is free, or there is no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + _PORTS):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, number))
            made.listen(32)
        except OSError as error:
            made.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        return made
    raise OSError(errno.EADDRINUSE, f"ports {port} to {port + _PORTS - 1} are in use")


class Gate:
    """Passes connections on to a server.

    Args:
        behind: Host and port of the server.
        token: What a caller must know; empty: nothing, and the page must be asked for by a name of this machine, so
            that no other site's page can reach it by a name of its own.
        page: The page at ``/``, instead of the server's; None: the server's.
    """

    def __init__(self, behind: tuple[str, int], token: str = "", page: str | None = None) -> None:
        self._behind, self._token = behind, token
        self._page = None if page is None else page.encode()
        self._packed: bytes | None = None
        self._port = 0
        self._server: asyncio.AbstractServer | None = None

    async def open(self, listening: socket.socket) -> None:
        """Begin to serve on a listening socket."""
        self._port = listening.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=_MOST_HEAD)

    async def close(self) -> None:
        """Serve nobody any more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_WITHIN_S)
            answer = self.answer(head)
            if answer is not None:
                writer.write(answer)
                await writer.drain()
                return
            up_reader, up_writer = await asyncio.open_connection(*self._behind)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return
        else:
            up_writer.write(head)
            both = [_passed(reader, up_writer), _passed(up_reader, writer)]
            await asyncio.gather(*both, return_exceptions=True)
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    def answer(self, head: bytes) -> bytes | None:
        """Return the answer to a request that is not passed on; None: it is.

        Args:
            head: The request's first line and headers.
        """
        try:
            return self._answer(head)
        except ValueError:  # an address that is none
            return _response(HTTPStatus.BAD_REQUEST, "This is not an address of rlstack's viewer.")

    def _answer(self, head: bytes) -> bytes | None:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if len(words) != 3 or words[0] not in ("GET", "HEAD"):
            return _response(HTTPStatus.BAD_REQUEST, "This is rlstack's viewer: open its address in a browser.")
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if origin and urlsplit(origin).netloc != host:
            return _response(HTTPStatus.FORBIDDEN, f"Pages of {origin} may not reach the viewer.")
        if not self._token:
            if urlsplit(f"//{host}").hostname not in LOOPBACK:
                return _response(HTTPStatus.FORBIDDEN, f"The viewer is open to this machine alone, not to '{host}'.")
            return self._welcome(words[1], headers)
        if self._knows(unquote(_cookie(headers, self._name))):
            return self._welcome(words[1], headers)
        asked = urlsplit(words[1])
        if self._knows(parse_qs(asked.query).get("token", [""])[0]):
            kept = f"{self._name}={quote(self._token, safe='')}; Path=/; HttpOnly; SameSite=Strict"
            return _response(HTTPStatus.SEE_OTHER, "", {"Location": asked.path or "/", "Set-Cookie": kept})
        return _response(
            HTTPStatus.FORBIDDEN, "The viewer needs its token: open the whole address that rlstack printed."
        )

    def _welcome(self, target: str, headers: Mapping[str, str]) -> bytes | None:
        """Return the page, if that is what is asked for."""
        if self._page is None or urlsplit(target).path != "/" or headers.get("upgrade"):
            return None
        kind = {"Content-Type": "text/html; charset=utf-8"}
        if "gzip" not in headers.get("accept-encoding", ""):
            return _answered(HTTPStatus.OK, self._page, kind)
        if self._packed is None:
            self._packed = gzip.compress(self._page)
        return _answered(HTTPStatus.OK, self._packed, {**kind, "Content-Encoding": "gzip"})

    @property
    def _name(self) -> str:
        return f"{_COOKIE}_{self._port}"  # cookies do not tell ports apart

    def _knows(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the end."""
    try:
        while data := await reader.read(_MOST_PASSED):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def _cookie(headers: Mapping[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _response(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> bytes:
    return _answered(status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8", **(headers or {})})


def _answered(status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> bytes:
    named = {"Content-Length": len(body), **headers}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body
