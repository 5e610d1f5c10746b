"""A deployment in processes of its own: what it says, its nodes, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path


class Up:
    """`rlstack up`, or another verb, as a user starts it; after a ``with`` it runs no more, whatever has happened."""

    def __init__(self, *words: str, verb: str = "up") -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-u", "-m", "rlstack", verb, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.seen = ""

    def until(self, text: str, seconds: float = 60.0) -> None:
        """Read its output until ``text`` has come."""
        assert self.popen.stdout is not None
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"'{text}' did not come within {seconds:g} s:\n{self.seen}"
            line = self.popen.stdout.readline()  # a status line comes every second
            assert line, f"'{text}' did not come:\n{self.seen}"
            self.seen += line

    def end(self) -> int:
        """Read the rest and return the exit status."""
        rest, _ = self.popen.communicate(timeout=60)
        self.seen += rest
        return self.popen.returncode

    def nodes(self) -> dict[str, int]:
        """Process ids by node name."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        found = {}
        for pid in map(int, children):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            found[command[command.index("-m") + 1].rpartition(".")[2]] = pid
        return found

    def interrupt(self, nodes: dict[str, int]) -> int:
        """Press Ctrl-C, see that it and its nodes end quietly, and return the exit status."""
        self.popen.send_signal(signal.SIGINT)
        status = self.end()
        assert "Traceback" not in self.seen and gone(list(nodes.values()))
        return status

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()


def gone(pids: list[int], seconds: float = 40.0) -> bool:
    """Return whether processes end within a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def running(pid: int) -> bool:
    """Return whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
