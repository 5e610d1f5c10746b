"""Browsers that answer pings, and one that does not any more."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from rlstack.view import heartbeat
from rlstack.view.heartbeat import Heartbeat


class Browser:
    """A connection whose other end answers, or not."""

    def __init__(self, answers: bool) -> None:
        self.answers = answers

    async def ping(self) -> Any:
        answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if self.answers:
            answer.set_result(0.0)
        return answer


def test_one_that_answers_no_more_is_gone_within_two_seconds_and_a_closed_one_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(heartbeat, "_PING_S", 0.02)
    monkeypatch.setattr(heartbeat, "GONE_S", 0.15)
    there = {1: Browser(True), 2: Browser(False), 3: Browser(True)}
    watch = Heartbeat(lambda: there)

    async def watched() -> None:
        task = asyncio.create_task(watch.run())
        began = time.monotonic()
        await asyncio.sleep(0.03)
        assert watch.alive() == {1, 2, 3}
        del there[3]
        while watch.alive() != {1}:
            assert time.monotonic() - began < 5.0
            await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(watched())
