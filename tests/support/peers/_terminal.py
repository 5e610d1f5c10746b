"""The other end of a serial line: a pseudo-terminal with a thread that hears frames and answers them."""

from __future__ import annotations

import fcntl
import os
import select
import tempfile
import threading
import time
import tty
from contextlib import suppress
from types import TracebackType
from typing import IO, TypeVar

import numpy as np

from tests.support.peers import Misfit

Self = TypeVar("Self", bound="TerminalPeer")


class TerminalPeer:
    """Subclasses hear bytes in :meth:`hear` and answer with :meth:`say`; both run on one thread.

    Args:
        baud: Rate of the line whose time a frame takes; 0: none (USB).
    """

    def __init__(self, baud: int = 0) -> None:
        self._byte_s = 10.0 / baud if baud else 0.0
        self.loss = 0.0
        """Share of frames that are lost, either way."""
        self._random = np.random.default_rng(0)
        self._linked = True
        self._ending, self._replugging = threading.Event(), threading.Event()
        self._came = b""
        self.port = ""
        self._free_at = 0.0
        self._held: IO[bytes] | None = None

    def __enter__(self: Self) -> Self:
        self._plugs = tempfile.TemporaryDirectory()
        self.port = f"{self._plugs.name}/tty"  # a link, as udev makes, that stays the same when it is plugged in again
        self._plug_in()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        if self._held is not None:
            self._held.close()
        self._pull_out()
        self._plugs.cleanup()

    def replug(self) -> None:
        """Pull the adapter out and plug it in again."""
        self._replugging.set()

    def _plug_in(self) -> None:
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._ours)
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)
        os.symlink(os.ttyname(self._theirs), self.port)

    def _pull_out(self) -> None:
        os.unlink(self.port)
        os.close(self._ours)
        os.close(self._theirs)

    def lose_link(self) -> None:
        self._linked = False

    def regain_link(self) -> None:
        self._linked = True

    def send_noise(self, data: bytes) -> None:
        self._put(data)

    def in_use(self) -> Misfit:
        """Be had by another program, as pyserial has a port alone."""
        return Misfit(("another program uses it", self.port), self._occupy)

    def _occupy(self) -> None:
        held = open(self.port, "r+b", buffering=0)  # noqa: SIM115 (until the test is over)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._held = held

    def frame(self) -> bytes | None:
        """Take the next whole frame from ``_came``; None: there is none yet."""
        raise NotImplementedError

    def hear(self, frame: bytes) -> None:
        """Take a frame that came whole."""
        raise NotImplementedError

    def tick(self, passed_s: float) -> None:
        """Let time pass."""

    def say(self, frame: bytes) -> None:
        """Send a frame, which takes its time on the line and may be lost."""
        if self._byte_s:
            self._free_at = max(self._free_at, time.perf_counter()) + self._byte_s * len(frame)
            if (left := self._free_at - time.perf_counter()) > 0.0:
                time.sleep(left)
        if self._linked and self._random.random() >= self.loss:
            self._put(frame)

    def _put(self, data: bytes) -> None:
        with suppress(BlockingIOError):  # nobody reads
            os.write(self._ours, data)

    def _serve(self) -> None:
        before = time.perf_counter()
        while not self._ending.is_set():
            ready = select.select([self._ours], [], [], 0.002)[0]
            now = time.perf_counter()
            self.tick(now - before)
            before = now
            if self._replugging.is_set():
                self._pull_out()
                self._plug_in()
                self._replugging.clear()
                continue
            if not ready:
                continue
            data = os.read(self._ours, 4096)
            if not self._linked:
                self._came = b""
                continue
            self._free_at = max(self._free_at, now) + self._byte_s * len(data)
            self._came += data
            while (frame := self.frame()) is not None:
                if self._random.random() >= self.loss:
                    self.hear(frame)
