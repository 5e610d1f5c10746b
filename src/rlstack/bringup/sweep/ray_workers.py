"""Trainings of a sweep on a Ray cluster: each is a task, which runs the command that a local one runs.

A machine that sees the sweep's folder works in it. Any other works in a folder of its own, and sends the run's files
back when it ends; a training that dies there begins anew elsewhere.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack import __version__
from rlstack.bringup.sweep.training_job import USER_ERROR, Job
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.processes import STARTED_BY

LOCAL = "local"
"""The address of a cluster of this machine alone, which is started, and listens on loopback."""
_ANSWER_S, _ROOM_S = 5.0, 120.0
"""Time limits, s: for the cluster's head to take a connection, and for room for a first task."""
_SILENT = "--ray: no Ray cluster answers at {}: {}. Start one with `ray start --head`, or give local."
_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's switch of clusters over several machines: without them it listens on loopback."""
_UNSEEN = "--ray: {} does not see {}, and a population goes on from checkpoints there: give a folder that all share.\n"
_TOKEN = "sweep.token"
"""File by which a machine knows whether it sees the sweep's folder."""


@dataclass(frozen=True)
class _Sent:
    """What came of a task: the exit status, and the files of a machine that does not see the sweep's folder."""

    status: int
    files: dict[str, bytes]


class RayWorkers:
    """Tasks of a Ray cluster.

    Args:
        address: :data:`LOCAL`, or the cluster's, such as ``ray://head:10001`` or ``auto``.
        count: How many at a time.
        folder: The sweep's folder.

    Raises:
        UserError: Ray is missing, or the cluster cannot be reached, has another version, or has no rlstack.
    """

    def __init__(self, address: str, count: int, folder: Path) -> None:
        self._ray, self._count, self._token = _connected(address, count), count, secrets.token_hex(16)
        self._folder = folder
        write_atomically(folder / _TOKEN, self._token)
        self._running: dict[Path, tuple[Job, Any]] = {}
        try:
            self._check_cluster()
        except BaseException:
            self._ray.shutdown()
            raise

    def free(self) -> bool:
        """Return whether one more may be started."""
        return len(self._running) < self._count

    def start(self, job: Job) -> None:
        """Start a training, or go on with it, where the cluster has room."""
        task = self._ray.remote(num_cpus=job.threads, max_retries=0)(_train)
        recipe = job.recipe.read_text(encoding="utf-8")
        self._running[job.folder] = job, task.remote(job, recipe, self._folder, self._token)

    def ended(self) -> list[tuple[Job, int]]:
        """Return those that have ended since the last call, with their exit status; -1: their machine was lost."""
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
            except self._ray.exceptions.RayError as error:
                with job.log.open("a", encoding="utf-8") as log:
                    log.write(f"Lost: {type(error).__name__}\n")
                found.append((job, -1))
                continue
            for name, data in sent.files.items():
                write_atomically(job.folder.parent / name, data)
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

    def _check_cluster(self) -> None:
        """Refuse a cluster that cannot run a training."""
        check = self._ray.remote(num_cpus=1, max_retries=0)(_installed)
        try:
            found = self._ray.get(check.remote(), timeout=_ROOM_S)
        except self._ray.exceptions.GetTimeoutError as error:
            raise UserError(
                f"--ray: the cluster ran nothing within {_ROOM_S:.0f} s: it has no free processor."
            ) from error
        except Exception as error:  # Ray wraps what the task raises into classes of its own
            if "rlstack" in str(error) or isinstance(error, ModuleNotFoundError):
                raise UserError(
                    "--ray: the cluster's machines have no rlstack: install it in their Python, pip install"
                    " 'rlstack[train,sim,sweep]'."
                ) from error
            raise UserError(f"--ray: the cluster cannot run a training: {error}") from error
        if found != __version__:
            raise UserError(f"--ray: the cluster has rlstack {found}, and this is {__version__}: install the same.")


def _connected(address: str, count: int) -> Any:
    """Return Ray, connected."""
    if address == LOCAL:
        os.environ.setdefault(_ALONE, "0")  # read when ray is imported
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError("--ray needs ray, which is not installed: pip install 'rlstack[ray]'.") from error
    _check_address(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        options |= {"num_cpus": max(count, os.cpu_count() or 1), "include_dashboard": False}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise UserError(_SILENT.format(address, str(error).splitlines()[0])) from error
    except RuntimeError as error:  # "Version mismatch: The cluster was started with: Ray: ... Python: ..."
        raise UserError(f"--ray: the cluster at {address} refuses: {' '.join(str(error).split())}") from error
    return ray


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # local, auto
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise UserError(_SILENT.format(address, error)) from error


def _installed() -> str:
    """Return the version of rlstack where this runs."""
    return __version__


def _train(job: Job, recipe: str, sweep: Path, token: str) -> _Sent:
    """Run a training where this is, and return what came of it."""
    mark = sweep / _TOKEN
    if mark.is_file() and mark.read_text(encoding="utf-8") == token:
        return _Sent(_run(job), {})
    if job.until < 1.0 or job.begins > 0.0:
        return _Sent(USER_ERROR, {job.log.name: _UNSEEN.format(socket.gethostname(), sweep).encode()})
    with tempfile.TemporaryDirectory(prefix="rlstack-sweep-") as name:
        here = Path(name)
        own = Job(here / job.recipe.name, here / job.folder.name, job.threads)
        own.recipe.write_text(recipe, encoding="utf-8")
        status = _run(own)
        files = [own.log, *(path for path in own.folder.rglob("*") if path.is_file())]
        return _Sent(status, {str(path.relative_to(here)): path.read_bytes() for path in files if path.is_file()})


def _run(job: Job) -> int:
    with job.log.open("ab") as log:
        return subprocess.call(
            job.command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**job.environment(), STARTED_BY: str(os.getpid())},
        )
