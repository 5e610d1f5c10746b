"""Faults of the launcher itself: `rlstack up deploy` ended by Ctrl-C, SIGTERM or SIGKILL must leave nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rlstack.bringup.drill.answers import Answer, Repeat
from rlstack.bringup.drill.running import FaultResult
from rlstack.bringup.node_process import python_module
from rlstack.processes import die_with_parent

_GONE_S = 20.0
"""Time limit for the last node to end: a robot that flies lands first."""
_START_S = 60.0
_SHM = Path("/dev/shm")
_SEGMENT = f"fastrtps_{16 * '[0-9a-f]'}_el"
_YOUNG_S = 11.0
"""Age from which the next node to start removes what dead processes have left in shared memory."""


@dataclass(frozen=True)
class LauncherFault:
    """A signal to the launcher."""

    name: str
    text: str
    number: int


LAUNCHER_FAULTS = (
    LauncherFault("launcher_interrupted", "Ctrl-C for rlstack up", signal.SIGINT),
    LauncherFault("launcher_terminated", "SIGTERM for rlstack up", signal.SIGTERM),
    LauncherFault("launcher_killed", "SIGKILL for rlstack up", signal.SIGKILL),
)


class LauncherRunner:
    """Starts `rlstack up deploy` as a user does, ends it, and looks for what is left.

    Args:
        policy: The policy file.
        robot: The robot's name or file.
        backend: The simulator.
        deployed: Options ``world``, ``goal`` and ``driver``.
    """

    EXPECTED_S: ClassVar[float] = 9.0
    """About how long a repeat takes."""

    def __init__(self, policy: str, robot: str, backend: str, deployed: Mapping[str, Any]) -> None:
        words = ["up", "deploy", "--robot", robot, "--backend", backend, "--force"]
        words += ["--policy", policy] if policy else []
        words += ["--driver", deployed["driver"]] if deployed["driver"] else []
        words += ["--world", deployed["world"]] if deployed["world"] else []
        words += ["--goal", *map(str, deployed["goal"])] if deployed["goal"] else []
        self._command = [*python_module("rlstack"), *words]
        self._popen: subprocess.Popen[bytes] | None = None

    @staticmethod
    def empty(fault: LauncherFault) -> FaultResult:
        """Return an empty result."""
        return FaultResult(fault, Answer(("all ended",), _GONE_S), _GONE_S)

    def result(self, fault: LauncherFault) -> FaultResult:
        """Return an empty result."""
        return self.empty(fault)

    def repeat(self, result: FaultResult) -> None:
        """Start the launcher, end it, and judge what is left."""
        segments = set(_SHM.glob(_SEGMENT))
        with tempfile.TemporaryFile() as output:
            self._popen = popen = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
            done = Repeat(modes=[(0.0, "policy")])
            nodes = self._moving(popen, output)
            if not nodes:
                output.seek(0)
                done.why = f"not run: {output.read().decode(errors='replace').strip().splitlines()[-1:]}"
            else:
                began = time.monotonic()
                popen.send_signal(result.fault.number)
                done.answer_s = _last_end(nodes, began)
                popen.wait(timeout=_GONE_S)
                done.answer = "all ended" if done.answer_s is not None else "nodes left"
                done.why = "" if done.answer_s is not None else f"nodes were alive after {_GONE_S:g} s"
                done.why = done.why or _left_in_memory(segments)
        self.close()
        result.repeats.append(done)

    def close(self) -> None:
        """End the launcher if it still runs; its nodes end with it."""
        popen, self._popen = self._popen, None
        if popen is not None and popen.poll() is None:
            popen.kill()
            popen.wait()

    def _moving(self, popen: subprocess.Popen[bytes], output: Any) -> list[int]:
        """Return the nodes' process ids once the robot moves; none if it does not."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end and popen.poll() is None:
            text = os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")
            if "disarmed -> " in text:
                children = Path(f"/proc/{popen.pid}/task/{popen.pid}/children").read_text().split()
                return [int(pid) for pid in children]
            time.sleep(0.1)
        return []


def _last_end(pids: list[int], began: float) -> float | None:
    """Return when the last process had ended, s; None: one was alive after the time limit."""
    while time.monotonic() < began + _GONE_S:
        if not any(_runs(pid) for pid in pids):
            return time.monotonic() - began
        time.sleep(0.01)
    return None


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _left_in_memory(before: set[Path]) -> str:
    """Start a node once what is left is old enough to be removed, and return what it has not removed."""
    dead = [path for path in set(_SHM.glob(_SEGMENT)) - before if _is_dead(path)]
    if not dead:
        return ""
    time.sleep(max(0.0, max(path.stat().st_mtime for path in dead) + _YOUNG_S - time.time()))
    node = subprocess.Popen(
        [*python_module("rlstack.nodes.guard")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),
    )
    try:
        end = time.monotonic() + _START_S
        while any(path.exists() for path in dead) and time.monotonic() < end and node.poll() is None:
            time.sleep(0.05)
    finally:
        node.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.wait(timeout=_GONE_S)
        node.kill()
    left = [path.name for path in dead if path.exists()]
    return f"the next start left shared memory of dead nodes: {left[0]} and {len(left) - 1} more" if left else ""


def _is_dead(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
