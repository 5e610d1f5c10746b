"""Trainings of a sweep on a Ray cluster: each is a task, which runs the command that a local one runs.

A machine that sees the sweep's folder works in it. Any other works in a folder of its own, and sends the run's files
back when it ends, in parts, so that no process ever holds a whole run; a training that dies there begins anew
elsewhere.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.sweep.training_job import USER_ERROR, Job
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.processes import STARTED_BY
from rlstack.ray_cluster import connected
from rlstack.training.run_files import FIGURES

_UNSEEN = "--ray: {} does not see {}, and a population goes on from checkpoints there: give a folder that all share.\n"
_DEAD = "--ray: Ray's own process on this machine (its raylet) died, and nothing can be started without it."
_PART = 8 * 2**20
"""Bytes of a file that are in memory at a time."""
_TOKEN = "sweep.token"
"""File by which a machine knows whether it sees the sweep's folder."""


@dataclass(frozen=True)
class _Sent:
    """What came of a task: the exit status, and the files of a machine that does not see the sweep's folder.

    Args:
        status: The exit status.
        files: Compressed parts of each file by its name, in Ray's object store; the figures of a finished run, by
            which it is known to be one, are last.
    """

    status: int
    files: dict[str, list[Any]]


class RayWorkers:
    """Tasks of a Ray cluster.

    Args:
        address: :data:`rlstack.ray_cluster.LOCAL`, or the cluster's, such as ``ray://head:10001`` or ``auto``.
        count: How many at a time.
        folder: The sweep's folder.

    Raises:
        UserError: Ray is missing, or the cluster cannot be reached, has another version, or has no rlstack.
    """

    def __init__(self, address: str, count: int, folder: Path) -> None:
        self._ray, self._count, self._token = connected(address, count), count, secrets.token_hex(16)
        self._folder = folder
        write_atomically(folder / _TOKEN, self._token)
        self._running: dict[Path, tuple[Job, Any]] = {}

    def free(self) -> bool:
        """Return whether one more may be started."""
        return len(self._running) < self._count

    def start(self, job: Job) -> None:
        """Start a training, or go on with it, where the cluster has room."""
        task = self._ray.remote(num_cpus=job.processors, max_retries=0)(_train)
        recipe = job.recipe.read_text(encoding="utf-8")
        self._running[job.folder] = job, task.remote(job, recipe, self._folder, self._token)

    def ended(self) -> list[tuple[Job, int]]:
        """Return those that have ended since the last call, with their exit status; -1: their machine was lost.

        Raises:
            UserError: Ray's process of this machine died, without which nothing can be started or received.
        """
        if not self._running:
            return []
        refs = {ref: job for job, ref in self._running.values()}
        done, _ = self._ray.wait(list(refs), num_returns=len(refs), timeout=0)
        found = []
        for ref in done:
            job = refs[ref]
            del self._running[job.folder]
            try:
                sent: _Sent = self._ray.get(ref)
                for name, parts in sent.files.items():
                    _receive(job.folder.parent / name, (self._ray.get(part) for part in parts))
            except self._ray.exceptions.LocalRayletDiedError as error:  # else each would be lost, as often as tried
                raise UserError(_DEAD) from error
            except self._ray.exceptions.RayError as error:
                with job.log.open("a", encoding="utf-8") as log:
                    log.write(f"Lost: {type(error).__name__}\n")
                found.append((job, -1))
                continue
            found.append((job, sent.status))
        return found

    def stop(self, job: Job) -> None:
        """End a training that is not wanted any more, if it has not ended."""
        if job.folder in self._running:
            self._ray.cancel(self._running.pop(job.folder)[1], force=True)

    def close(self) -> None:
        """End all; those on machines that see the sweep's folder keep their last checkpoint."""
        for job, _ in list(self._running.values()):
            self.stop(job)
        self._ray.shutdown()
        (self._folder / _TOKEN).unlink(missing_ok=True)


def _train(job: Job, recipe: str, sweep: Path, token: str, put: Callable[[bytes], Any] | None = None) -> _Sent:
    """Run a training where this is, and return what came of it; ``put`` takes parts of files, by default Ray's own."""
    if put is None:
        import ray

        put = ray.put
    mark = sweep / _TOKEN
    if mark.is_file() and mark.read_text(encoding="utf-8") == token:
        return _Sent(_run(job), {})
    if job.until < 1.0 or job.begins > 0.0:
        said = _UNSEEN.format(socket.gethostname(), sweep).encode()
        return _Sent(USER_ERROR, {job.log.name: [put(zlib.compress(said))]})
    with tempfile.TemporaryDirectory(prefix="rlstack-sweep-") as name:
        here = Path(name)
        own = Job(here / job.recipe.name, here / job.folder.name, job.threads)
        own.recipe.write_text(recipe, encoding="utf-8")
        status = _run(own)
        files = [own.log, *(path for path in own.folder.rglob("*") if path.is_file())]
        files.sort(key=lambda path: path.name == FIGURES)
        return _Sent(status, {str(path.relative_to(here)): [put(part) for part in _parts(path)] for path in files})


def _parts(path: Path) -> Iterator[bytes]:
    """Yield a file in compressed parts; a replay buffer is mostly zeros."""
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield zlib.compress(part, 1)


def _receive(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file from its compressed parts; a reader finds all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        for part in parts:
            file.write(zlib.decompress(part))
    os.replace(beside, path)


def _run(job: Job) -> int:
    with job.log.open("ab") as log:
        return subprocess.call(
            job.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**job.environment(), STARTED_BY: str(os.getpid())},
        )
