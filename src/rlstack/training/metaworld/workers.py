"""Worker processes that run Meta-World in a Python environment of their own, since it pins another MuJoCo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from types import TracebackType
from typing import Any

from rlstack.errors import UserError
from rlstack.training.metaworld.suite import METAWORLD, MUJOCO

REQUIREMENTS = (f"metaworld=={METAWORLD}", f"mujoco=={MUJOCO}", "packaging", "imageio")
"""What the environment needs; ``packaging`` is missing among Meta-World's requirements."""

_PROGRAM = Path(__file__).with_name("worker.py")
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LP_NUM_THREADS")}


def environment_folder() -> Path:
    """Return where Meta-World's environment is in the user's cache, or will be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "rlstack" / f"metaworld-{METAWORLD}"


def own_python(folder: Path | None = None, say: Callable[[str], None] = print) -> Path:
    """Return the interpreter of Meta-World's environment in the user's cache, made if it is missing.

    Args:
        folder: The environment; None: in the user's cache.
        say: Tells the user what is installed, before it is.

    Raises:
        UserError: It cannot be made, for example without a package index.
    """
    folder = folder or environment_folder()
    python, made = folder / "bin" / "python", folder / "made"
    if made.is_file():
        return python
    say(f"Installing {', '.join(REQUIREMENTS)} into {folder}, an environment of its own.")
    for words in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
            raise UserError(
                f"The environment of Meta-World cannot be made in {folder}: {lines[-1]}. Make one yourself with `pip"
                f" install {' '.join(REQUIREMENTS)}` and name its interpreter with --python."
            )
    made.touch()
    return python


class Workers:
    """Processes that answer the commands of :class:`.worker.Worker`; tasks are dealt out among them.

    Args:
        python: Interpreter of an environment with Meta-World.
        count: Number of processes.

    Raises:
        UserError: There is no such interpreter, or Meta-World is missing or of another version.
    """

    def __init__(self, python: Path, count: int = 1) -> None:
        self._processes: list[tuple[subprocess.Popen[bytes], Connection]] = []
        if not os.access(python, os.X_OK):
            raise UserError(f"--python {python} is not allowed: there is no interpreter. Name bin/python of a venv.")
        try:
            for _ in range(count):
                self._processes.append(_start(python))
            self.versions: dict[str, str] = self.ask(0, "versions")
        except UserError as error:
            self.close()
            raise UserError(
                f"Meta-World cannot be run by {python} ({error}): `{python} -m pip install {' '.join(REQUIREMENTS)}`,"
                " or leave out --python, which makes an environment."
            ) from None
        if self.versions != {"metaworld": METAWORLD, "mujoco": MUJOCO}:
            self.close()
            raise UserError(
                f"--python {python} is not allowed: it has metaworld {self.versions['metaworld']} and mujoco"
                f" {self.versions['mujoco']}, where experts behave differently; metaworld {METAWORLD} and mujoco"
                f" {MUJOCO} are required: `{python} -m pip install {' '.join(REQUIREMENTS)}`."
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


def dealt(tasks: Sequence[str], workers: int) -> list[list[str]]:
    """Return the tasks of each worker."""
    return [list(tasks[k::workers]) for k in range(workers)]


def _start(python: Path) -> tuple[subprocess.Popen[bytes], Connection]:
    here, there = socketpair()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with there:
        process = subprocess.Popen(
            [str(python), "-u", str(_PROGRAM), str(there.fileno())],
            env={**environment, **_ONE_THREAD},
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return process, Connection(here.detach())
