"""Which browsers are still there: one whose machine or network is gone closes no connection for a long time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

_PING_S = 0.4
"""Period of the pings, which every browser answers by itself."""
GONE_S = 1.5
"""A browser that has answered nothing for this long holds nothing any more."""


class Heartbeat:
    """Pings browsers, from their event loop.

    Args:
        connections: Returns the websockets' connections by browser.
    """

    def __init__(self, connections: Callable[[], Mapping[int, Any]]) -> None:
        self._connections = connections
        self._heard: dict[int, float] = {}
        self._asked: dict[int, asyncio.Task[None]] = {}

    def alive(self) -> set[int]:
        """Return the browsers that have answered of late; a new one counts as if it had."""
        now = time.monotonic()
        return {browser for browser, at in list(self._heard.items()) if now - at < GONE_S}

    async def run(self) -> None:
        """Ping until cancelled."""
        while True:
            there = dict(self._connections())
            for browser in self._heard.keys() - there.keys():
                del self._heard[browser]
            for browser, connection in there.items():
                self._heard.setdefault(browser, time.monotonic())
                asked = self._asked.get(browser)
                if asked is None or asked.done():
                    self._asked[browser] = asyncio.create_task(self._ask(browser, connection))
            self._asked = {browser: task for browser, task in self._asked.items() if not task.done()}
            await asyncio.sleep(_PING_S)

    async def _ask(self, browser: int, connection: Any) -> None:
        with suppress(Exception):  # it is closed: it is no longer among the connections
            await (await connection.ping())
            self._heard[browser] = time.monotonic()
