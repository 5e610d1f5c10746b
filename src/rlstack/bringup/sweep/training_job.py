"""One training of a sweep: a recipe file in, a run's folder out. What is known of it is in these files alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlstack.errors import UserError
from rlstack.processes import STARTED_BY
from rlstack.training.run_files import EVALUATIONS, FIGURES, RECIPE

TRIES, TRIES_OF_KILLED = 3, 20
"""How often a training is started that ends without a reason of its own, and one that is killed or whose machine is
lost: the latter is seldom its fault, but may be for want of memory."""
USER_ERROR = 2
"""Exit status of a command that refuses, and says why."""
_LEAST_FREE = 300 * 2**20
"""Bytes that must be free where a training is to write."""
_LAST, _PERCENT = 2000, re.compile(r"^ *(\d+)%", re.MULTILINE)
"""Bytes at the end of a log, and how its lines tell the share that is done."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A training.

    Args:
        recipe: Its recipe file.
        folder: The run's folder.
        threads: Processor threads of each of its processes.
        until: Share of its steps after which it is done.
        begins: Share of its steps that were done before.
        processes: Those that compute at a time: a learner apart and rollout workers count.
    """

    recipe: Path
    folder: Path
    threads: int
    until: float = 1.0
    begins: float = 0.0
    processes: int = 1

    @property
    def processors(self) -> int:
        """Processors that it keeps busy."""
        return self.threads * self.processes

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def figures(self) -> dict[str, Any] | None:
        """Return the figures of the finished training; None: it has not finished."""
        found = _read(self.folder / FIGURES)
        if not isinstance(found, dict):
            return None
        return found if found.get("finished") or found.get("until", 0.0) >= self.until else None

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations so far."""
        found = _read(self.folder / EVALUATIONS)
        return found if isinstance(found, list) else []

    def command(self) -> list[str]:
        """Return the command that begins it, or goes on with it."""
        words = [sys.executable, "-m", "rlstack", "train"]
        options = ["--no-view", *(("--until", f"{self.until!r}") if self.until < 1.0 else ())]
        if (self.folder / RECIPE).is_file():
            return [*words, *options, "--resume", str(self.folder)]
        return [*words, str(self.recipe), *options, "--out", str(self.folder)]

    def environment(self) -> dict[str, str]:
        """Return its environment: threads are pinned, so that trainings beside each other do not slow down."""
        return {**os.environ, **dict.fromkeys(_THREADS, str(self.threads))}

    def share(self) -> float:
        """Return how much of it is done, from 0 to 1, by what it printed last."""
        if self.figures() is not None:
            return 1.0
        try:
            with self.log.open("rb") as log:
                log.seek(-min(_LAST, log.seek(0, os.SEEK_END)), os.SEEK_END)
                found = _PERCENT.findall(log.read().decode(errors="replace"))
        except OSError:
            return 0.0
        share = int(found[-1]) / 100.0 if found else 0.0
        return min(max((share - self.begins) / (self.until - self.begins), 0.0), 1.0)

    def why(self) -> str:
        """Return the last thing that it said, for who wants to know why it ended."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("rlstack: ") if lines else "it said nothing"


class Workers(Protocol):
    """Where trainings run."""

    def free(self) -> bool:
        """Return whether one more may be started."""

    def start(self, job: Job) -> None:
        """Start a training, or go on with it."""

    def ended(self) -> list[tuple[Job, int]]:
        """Return those that have ended since the last call, with their exit status."""

    def stop(self, job: Job) -> None:
        """End a training that is not wanted any more, if it has not ended; :meth:`ended` does not return it."""

    def close(self) -> None:
        """End all; each keeps its last checkpoint."""


class LocalWorkers:
    """Processes of this machine.

    Args:
        count: How many at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: dict[Path, tuple[Job, subprocess.Popen[bytes]]] = {}

    def free(self) -> bool:
        """Return whether one more may be started."""
        return len(self._running) < self._count

    def start(self, job: Job) -> None:
        """Start a training, or go on with it.

        Raises:
            UserError: The disk is full.
        """
        check_room(job.folder.parent)
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                job.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**job.environment(), STARTED_BY: str(os.getpid())},
                start_new_session=True,  # Ctrl-C is the sweep's to pass on
            )
        self._running[job.folder] = job, process

    def ended(self) -> list[tuple[Job, int]]:
        """Return those that have ended since the last call, with their exit status."""
        over = [(job, process.returncode) for job, process in self._running.values() if process.poll() is not None]
        for job, _ in over:
            del self._running[job.folder]
        return over

    def stop(self, job: Job) -> None:
        """End a training that is not wanted any more, if it has not ended."""
        if job.folder in self._running:
            _end([self._running.pop(job.folder)[1]])

    def close(self) -> None:
        """End all; each saves a checkpoint first, if it can within some seconds."""
        _end([process for _, process in self._running.values()])
        self._running.clear()


def check_room(folder: Path) -> None:
    """Raise ``UserError`` if the disk of a folder is full, or nearly so."""
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        raise UserError(
            f"{free / 2**20:.0f} MB are free in {folder}, and a training needs {_LEAST_FREE / 2**20:.0f}: make room."
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGINT)  # it saves
    end = time.monotonic() + 5.0
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
