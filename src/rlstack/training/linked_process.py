"""Processes of this machine that another one starts, and that serve it over a connection and end with it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from rlstack.errors import UserError
from rlstack.processes import die_with_parent


class Linked(NamedTuple):
    """A process that serves this one.

    Attributes:
        process: The process.
        connection: This end of the connection.
    """

    process: subprocess.Popen[bytes]
    connection: Connection

    def end(self) -> None:
        """End it at once: it holds nothing that counts."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


class LinkedProcesses:
    """Processes of a run, numbered from 1 on, beside its own, which is number 0; they end with this object.

    Args:
        module: See :func:`start_linked`.
        logs: Folder for what they print.
        name: Of their files there: NAME-1.txt and so on.
        size: Number of processes with the run's own.
    """

    def __init__(self, module: str, logs: Path, name: str, size: int) -> None:
        self._logs, self._name = logs, name
        self._linked: list[Linked] = []
        weakref.finalize(self, _end_all, self._linked)
        for rank in range(1, size):
            logs.mkdir(parents=True, exist_ok=True)
            self._linked.append(start_linked(module, self._log(rank)))

    def __len__(self) -> int:
        """Return how many there are beside the run's own."""
        return len(self._linked)

    def __iter__(self) -> Iterator[Linked]:
        """Return them by number."""
        return iter(self._linked)

    def ended(self, what: str, rank: int | None = None, hint: str = "") -> UserError:
        """Return what to say where one of them is gone.

        Args:
            what: What it was for, such as ``of the training``.
            rank: Its number; None: that of the first that is gone.
            hint: A sentence on why that may be.
        """
        if rank is None:
            rank = next((number for number, one in enumerate(self, 1) if one.process.poll() is not None), 1)
        said = last_words(self._log(rank))
        return UserError(
            f"Process {rank} {what} exited unexpectedly: {said}{hint and f' {hint}'} Resume the run, or set processes"
            " to 1."
        )

    def end(self) -> None:
        """End all."""
        _end_all(self._linked)

    def _log(self, rank: int) -> Path:
        return self._logs / f"{self._name}-{rank}.txt"


def _end_all(linked: list[Linked]) -> None:
    while linked:
        linked.pop().end()


def start_linked(module: str, log: Path) -> Linked:
    """Start a module whose ``main`` calls :func:`serve_linked`; what it prints is appended to a file."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = start_module(module, str(theirs.fileno()), log, [theirs.fileno()])
    return Linked(process, Connection(ours.detach()))


def start_module(module: str, argument: str, log: Path, files: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a module with an argument and this process's id; what it prints is appended to a file.

    Args:
        module: Its name.
        argument: Its first argument.
        log: The file.
        files: Descriptors that it shares with this process.
    """
    with log.open("ab") as printed:
        return subprocess.Popen(
            [sys.executable, "-m", module, argument, str(os.getpid())],
            pass_fds=files,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
        )


def serve_linked(serve: Callable[[Connection], None]) -> None:
    """Serve the process that started this one by :func:`start_linked`, until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's process handles Ctrl-C and stops this one
    die_with_parent(int(sys.argv[2]), signal.SIGKILL)
    try:
        serve(Connection(os.dup(int(sys.argv[1]))))
    except (EOFError, ConnectionError):
        return


def last_words(log: Path) -> str:
    """Return the last line of a process's file, and where that is."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it said nothing.'} See {log}."


def send(connection: Connection, message: Any) -> None:
    """Send a message; tensors are copied, not shared."""
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """Return the next message; raise ``EOFError`` if the other end is gone."""
    return pickle.loads(connection.recv_bytes())
