"""Environments of packages that do not fit into rlstack's, and worker processes that run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from types import TracebackType
from typing import Any

from rlstack.errors import UserError
from rlstack.progress import working

_SERVE = Path(__file__).with_name("serve.py")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LP_NUM_THREADS": "0"}
"""Mesa renders in the thread that asks: threads of its own corrupt the heap, see rlstack.sim.mujoco_renderer."""


@dataclass(frozen=True)
class Package:
    """A package with an environment of its own.

    Args:
        title: Its name for people.
        versions: Version of each distribution that must be there; the first is the package's own.
        why: What another version would change, such as ``where experts behave differently``.
        program: File whose class ``Worker`` runs it; it must not import rlstack.
        further: What else pip installs with it.
        extra: Extra of the package itself.
        newest: Newest Python that has wheels of all of it; None: rlstack's.
    """

    title: str
    versions: Mapping[str, str]
    why: str
    program: Path
    further: tuple[str, ...] = ()
    extra: str = ""
    newest: tuple[int, int] | None = None

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip installs."""
        extras = [f"[{self.extra}]" if self.extra else "", *[""] * len(self.versions)]
        return (*(f"{name}{extra}=={v}" for (name, v), extra in zip(self.versions.items(), extras)), *self.further)

    @property
    def folder(self) -> Path:
        """Where its environment is in the user's cache, or will be."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        name, version = next(iter(self.versions.items()))
        return cache / "rlstack" / f"{name}-{version}"

    def own_python(self, folder: Path | None = None, say: Callable[[str], None] = print) -> Path:
        """Return the interpreter of its environment in the user's cache, made if it is missing.

        Args:
            folder: The environment; None: in the user's cache.
            say: Tells the user what is installed, before it is.

        Raises:
            UserError: It cannot be made, for example without a package index.
        """
        folder = folder or self.folder
        python, made = folder / "bin" / "python", folder / "made"
        if made.is_file():
            return python
        say(f"Installing {', '.join(self.requirements)} into {folder}, an environment of its own.")
        for words in (
            [self._base(), "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.requirements],
        ):
            with working(f"installing {self.title}", say=say):
                done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
                raise UserError(
                    f"The environment of {self.title} cannot be made in {folder}: {lines[-1]}. Make one yourself with"
                    f" `pip install {' '.join(self.requirements)}` and name its interpreter with --python."
                )
        made.touch()
        return python

    def _base(self) -> str:
        """Return the interpreter that makes its environment: this one, or one that is old enough."""
        if self.newest is None or sys.version_info[:2] <= self.newest:
            return sys.executable
        major, newest = self.newest
        for minor in range(newest, 9, -1):
            if found := shutil.which(f"python{major}.{minor}"):
                return found
        raise UserError(
            f"{self.title} needs Python {major}.10 to {major}.{newest}, and there is none: install one, or name the"
            " interpreter of an environment with --python."
        )


class Workers:
    """Processes that answer the commands of a package's ``Worker``.

    Args:
        package: The package, whose ``Worker`` has a method ``versions`` with those of :attr:`Package.versions`.
        python: Interpreter of an environment with it.
        count: Number of processes.

    Raises:
        UserError: There is no such interpreter, or the package is missing or of another version.
    """

    def __init__(self, package: Package, python: Path, count: int = 1) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], Connection]] = []
        if not os.access(python, os.X_OK):
            raise UserError(f"--python {python} is not allowed: there is no interpreter. Name bin/python of a venv.")
        install = f"`{python} -m pip install {' '.join(package.requirements)}`"
        try:
            for _ in range(count):
                self._processes.append(_start(python, package.program))
            self.versions: dict[str, str] = self.ask(0, "versions")
        except UserError as error:
            self.close()
            raise UserError(
                f"{package.title} cannot be run by {python} ({error}): {install}, or leave out --python, which makes an"
                " environment."
            ) from None
        if self.versions != dict(package.versions):
            self.close()
            raise UserError(
                f"--python {python} is not allowed: it has {_said(self.versions)}, {package.why};"
                f" {_said(package.versions)} are required: {install}."
            )

    def __len__(self) -> int:
        """Return the number of processes."""
        return len(self._processes)

    def ask(self, worker: int, name: str, *arguments: Any) -> Any:
        """Return a worker's answer.

        Raises:
            UserError: It failed or ended; the message says why.
        """
        self.send(worker, name, *arguments)
        return self.receive(worker)

    def send(self, worker: int, name: str, *arguments: Any) -> None:
        """Send a command, whose answer :meth:`receive` returns."""
        process, connection = self._processes[worker]
        try:
            connection.send((name, arguments))
        except OSError:
            raise UserError(f"a worker ended with status {process.wait()}") from None

    def receive(self, worker: int) -> Any:
        """Return the answer to the last command."""
        process, connection = self._processes[worker]
        try:
            error, answer = connection.recv()
        except (EOFError, OSError):
            raise UserError(f"a worker ended with status {process.wait()}") from None
        if error is not None:
            raise UserError(error)
        return answer

    def ready(self, worker: int, seconds: float) -> bool:
        """Return whether an answer is there within some seconds."""
        return self._processes[worker][1].poll(seconds)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes so far, s."""
        return sum(self.ask(k, "cpu") for k in range(len(self)))

    def close(self) -> None:
        """End the processes."""
        for process, connection in self._processes:
            connection.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            process.kill()
            process.wait()
        self._processes = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _said(versions: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in versions.items())


def _start(python: Path, program: Path) -> tuple[subprocess.Popen[bytes], Connection]:
    here, there = socketpair()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with there:
        process = subprocess.Popen(
            [str(python), "-u", str(_SERVE), str(program), str(there.fileno())],
            env={**environment, **_ONE_THREAD},
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return process, Connection(here.detach())
