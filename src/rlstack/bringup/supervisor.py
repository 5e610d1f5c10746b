"""Start a system's processes, report what happens to them, and leave none behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from rlstack.bringup.node_process import Process, System
from rlstack.errors import UserError
from rlstack.processes import AGAIN_S, catches, die_with_parent

Log = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How a system ended.

    Args:
        status: Exit status: that of the first process that failed, else 128 + the signal that stopped it, else 0.
        sentence: Names the process that ended and the reason, for the user.
    """

    status: int
    sentence: str

    def report(self) -> int:
        """Print the sentence if the system failed, and return the status."""
        if self.status not in (0, 130):  # no message after Ctrl-C
            print(f"rlstack: {self.sentence}", file=sys.stderr, flush=True)
        return self.status


@dataclass
class _Child:
    process: Process
    popen: subprocess.Popen[str]
    reader: threading.Thread
    ended: bool = False


@dataclass
class Supervisor:
    """Runs one :class:`System`; its processes never outlive it, even if it is killed with SIGKILL.

    Args:
        system: The system.
        log: Called with every line to display, from several threads.
        environment: Environment of the processes; None takes this process's, made fit for ROS.
    """

    system: System
    log: Log = field(default=lambda line: print(line, flush=True))
    environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self._children: list[_Child] = []
        self._failure: Outcome | None = None
        self._reason = ""
        self._signal: int = signal.SIGINT
        self._received: int | None = None
        self._stopping_at: float | None = None
        self._at_once, self._received_at = False, 0.0
        self._killed: list[str] = []

    def start(self) -> None:
        """Start the first stage; call it from the main thread, which must outlive the processes."""
        self._start_stage(self.system)

    def alive(self) -> list[str]:
        """Return the names of the processes that are running."""
        return [child.process.name for child in self._children if child.popen.poll() is None]

    def pid(self, name: str) -> int:
        """Return the process id of the process called ``name``."""
        return next(child.popen.pid for child in self._children if child.process.name == name)

    def start_again(self, name: str) -> None:
        """Start a process that has ended; its end no longer counts.

        Raises:
            UserError: It cannot be started.
        """
        child = next(child for child in self._children if child.process.name == name)
        self._children.remove(child)
        environment = os.environ if self.environment is None else self.environment
        self._start_process(child.process, child_environment(environment))

    def poll(self) -> Outcome | None:
        """Check the processes without waiting; return the outcome once none is left."""
        for child in list(self._children):
            status = child.popen.poll()
            if status is not None and not child.ended:
                child.ended = True
                self._on_end(child, status)
        if self._stopping_at is not None:
            self._kill_late(time.monotonic() - self._stopping_at)
        if self.alive():
            return None
        return self._outcome()

    def stop(self, signal_number: int = signal.SIGINT, reason: str = "", at_once: bool = False) -> None:
        """Ask every process to end; :meth:`poll` kills those still running after their grace period.

        A process that is still loading has no SIGTERM handler yet and ends at once.

        Args:
            signal_number: How to ask; those that are asked already are only asked again ``at_once``.
            reason: Why, for the user.
            at_once: Bring no robot to rest first.
        """
        if self._at_once or (self._reason and not at_once):
            return
        self._at_once = at_once
        self._reason = self._reason or reason or f"{self.system.name} was stopped by {_signal_name(signal_number)}"
        self._stopping_at = time.monotonic()
        self._signal = signal_number
        self._signal_all()

    def interrupt(self, signal_number: int) -> None:
        """Pass a signal that this process received on to every process, and remember it for the exit status.

        The first lets nodes bring their robots to rest; another one ends them at once.
        """
        now = time.monotonic()
        if self._received is None:
            self._received, self._received_at = signal_number, now
        self.stop(signal_number, at_once=now - self._received_at >= AGAIN_S)

    def close(self, at_once: bool = True) -> Outcome:
        """Stop the running processes and wait for them; a second call only returns the outcome.

        Args:
            at_once: Bring no robot to rest first.
        """
        if self.alive():
            self.stop(at_once=at_once)
        while (outcome := self.poll()) is None:
            time.sleep(0.02)
        return outcome

    def run(
        self, tick: Callable[[], bool] | None = None, period_s: float = 0.05, done_at_once: bool = False
    ) -> Outcome:
        """Start the system and supervise it until it ends, forwarding SIGINT and SIGTERM.

        Args:
            tick: Called about every ``period_s``, which it may take itself. Returning False ends the system.
            period_s: Polling period.
            done_at_once: Whether no robot is brought to rest first when ``tick`` ends the system.
        """
        with _signals_to(self.interrupt):
            self.start()
            try:
                while (outcome := self.poll()) is None:
                    if tick is None or self._reason:
                        time.sleep(period_s)
                    elif not tick():
                        self.poll()  # count processes that ended meanwhile as ended on their own
                        self.stop(reason=f"{self.system.name} was done", at_once=done_at_once)
                return outcome
            finally:
                self.close(at_once=False)

    def _start_stage(self, system: System) -> None:
        environment = dict(os.environ if self.environment is None else self.environment)
        if self.environment is None:
            environment = child_environment(environment)
        for process in system.processes:
            if self._reason:  # stopped while starting
                break
            self._start_process(process, environment)
        if self._reason:
            self._signal_all()

    def _start_process(self, process: Process, environment: dict[str, str]) -> None:
        try:
            self._children.append(self._spawn(process, environment))
        except OSError as error:
            self.stop(reason=f"{process.name} could not be started")
            raise UserError(f"Cannot start {process.name} ({process.command()[0]}): {error.strerror}.") from error

    def _signal_all(self) -> None:
        for child in self._children:
            if child.popen.poll() is None:
                # While it is loading, SIGINT would end it with a traceback out of some import.
                number = self._signal if catches(child.popen.pid, signal.SIGTERM) else signal.SIGTERM
                if self._at_once and catches(child.popen.pid, signal.SIGQUIT):
                    number = signal.SIGQUIT
                with contextlib.suppress(ProcessLookupError):
                    child.popen.send_signal(number)

    def _spawn(self, process: Process, environment: dict[str, str]) -> _Child:
        popen = subprocess.Popen(
            process.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,  # the terminal's Ctrl-C must not reach them twice
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        reader = threading.Thread(target=self._show, args=(process.name, popen), daemon=True)
        reader.start()
        return _Child(process, popen, reader)

    def _show(self, name: str, popen: subprocess.Popen[str]) -> None:
        assert popen.stdout is not None
        with contextlib.suppress(ValueError):  # closed while reading
            for line in popen.stdout:
                self.log(f"[{name}] {line.rstrip()}")

    def _on_end(self, child: _Child, status: int) -> None:
        process = child.process
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.popen.pid, signal.SIGKILL)  # its remaining children
        child.reader.join(timeout=1.0)
        if self._reason:
            return
        how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
        if status != 0 and self._failure is None:
            self._failure = Outcome(128 - status if status < 0 else status, f"{process.name} {how}")
        if process.when_it_ends == "start the next stage" and status == 0:
            if self.system.then is not None:
                self.log(f"[{self.system.name}] {process.name} {how}: starting {self.system.then.name}")
                self.system = self.system.then.starting()
                self._start_stage(self.system)
        elif process.when_it_ends == "let the rest go on":
            self.log(f"[{self.system.name}] {process.name} {how}: the rest goes on ({process.why})")
        else:
            sentence = f"{process.name} {how}, so everything was stopped: {process.why}"
            if self._failure is not None and self._failure.sentence == f"{process.name} {how}":
                self._failure = Outcome(self._failure.status, sentence)
            self.stop(reason=sentence)

    def _kill_late(self, waited_s: float) -> None:
        for child in self._children:
            allowed_s = child.process.grace_s + (0.0 if self._at_once else child.process.rest_s)
            late = waited_s >= allowed_s and child.process.name not in self._killed
            if late and child.popen.poll() is None:
                self._killed.append(child.process.name)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.popen.pid, signal.SIGKILL)

    def _outcome(self) -> Outcome:
        if self._failure is not None:
            return self._failure
        late = f"; {' and '.join(self._killed)} did not end in time and had to be killed"
        sentence = (self._reason or f"{self.system.name} ended") + (late if self._killed else "")
        if self._received is not None:
            return Outcome(128 + self._received, sentence)
        return Outcome(128 + signal.SIGKILL if self._killed else 0, sentence)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` made fit for a process that imports rclpy.

    The ROS wheels set LD_LIBRARY_PATH by running Python again, and mark that with a variable: a child that inherits
    the mark without the path could not import rclpy, so it gets both or neither. rclpy also fails without HOME.
    """
    prepared = dict(environment)
    if not prepared.get("LD_LIBRARY_PATH"):
        prepared.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    prepared.setdefault("HOME", os.path.expanduser("~"))
    return prepared


@contextlib.contextmanager
def _signals_to(handler: Callable[[int], None]) -> Any:
    """Send SIGINT and SIGTERM to ``handler`` within the context."""

    def receive(number: int, frame: FrameType | None) -> None:
        handler(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
