"""Where rollout workers run: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from rlstack.ray_cluster import connected
from rlstack.training.linked_process import Linked, last_words, receive, send, start_linked
from rlstack.training.rollout_worker import Block, Order, Refused, RolloutWorker, WorkerPlan


class Lost:
    """A worker died before its block arrived."""


Arrived = Block | Refused | Lost


class WorkerPool(Protocol):
    """Workers by number, each with one order at most."""

    def start(self, number: int, plan: WorkerPlan) -> None:
        """Start a worker, in the place of one that died or is to go."""

    def give(self, number: int, order: Order) -> None:
        """Give a worker an order; one that died is reported by :meth:`arrived`."""

    def arrived(self, numbers: Sequence[int], timeout_s: float) -> list[tuple[int, Arrived]]:
        """Return what came of the orders of ``numbers``, waiting until there is one, or the time is over."""

    def why(self, number: int) -> str:
        """Return the last that a worker said."""

    def close(self) -> None:
        """End all."""


class LocalPool:
    """Processes of this machine.

    Args:
        folder: Folder of their logs.
        nice: By how much they give way to other processes.
    """

    def __init__(self, folder: Path, nice: int = 0) -> None:
        self._folder, self._nice = folder, nice
        folder.mkdir(parents=True, exist_ok=True)
        self._workers: dict[int, Linked] = {}
        weakref.finalize(self, _end_all, self._workers)

    def start(self, number: int, plan: WorkerPlan) -> None:
        """Start a worker, in the place of one that died or is to go."""
        self._end(number)
        worker = self._workers[number] = start_linked("rlstack.training.rollout_worker", self._log(number))
        with contextlib.suppress(OSError):  # it may have died already
            os.setpriority(os.PRIO_PROCESS, worker.process.pid, os.getpriority(os.PRIO_PROCESS, 0) + self._nice)
        self._send(number, plan)

    def give(self, number: int, order: Order) -> None:
        """Give a worker an order; one that died is reported by :meth:`arrived`."""
        self._send(number, order)

    def arrived(self, numbers: Sequence[int], timeout_s: float) -> list[tuple[int, Arrived]]:
        """Return what came of the orders of ``numbers``, waiting until there is one, or the time is over."""
        by_end = {self._workers[number].connection: number for number in numbers}
        found: list[tuple[int, Arrived]] = []
        for end in wait(list(by_end), timeout_s):
            assert isinstance(end, Connection)
            try:
                found.append((by_end[end], receive(end)))
            except (EOFError, ConnectionError):
                found.append((by_end[end], Lost()))
        return found

    def why(self, number: int) -> str:
        """Return the last that a worker said."""
        return last_words(self._log(number))

    def close(self) -> None:
        """End all."""
        _end_all(self._workers)

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.txt"

    def _send(self, number: int, message: Any) -> None:
        with contextlib.suppress(ConnectionError):
            send(self._workers[number].connection, message)

    def _end(self, number: int) -> None:
        if number in self._workers:
            self._workers.pop(number).end()


class RayPool:
    """Actors of a Ray cluster; each takes a processor.

    Args:
        address: :data:`rlstack.ray_cluster.LOCAL`, or the cluster's, such as ``ray://head:10001`` or ``auto``.
        count: How many workers there will be.
        threads: Processors of each.

    Raises:
        UserError: Ray is missing, or the cluster cannot be reached, has another version, or has no rlstack.
    """

    def __init__(self, address: str, count: int, threads: int) -> None:
        self._ray = connected(address, count * threads)
        self._kind = self._ray.remote(num_cpus=threads, max_restarts=0, max_task_retries=0)(RolloutWorker)
        self._actors: dict[int, Any] = {}
        self._orders: dict[int, Any] = {}
        self._said: dict[int, str] = {}

    def start(self, number: int, plan: WorkerPlan) -> None:
        """Start a worker, in the place of one that died or is to go."""
        self._end(number)
        self._actors[number] = self._kind.remote(plan)

    def give(self, number: int, order: Order) -> None:
        """Give a worker an order; one that died is reported by :meth:`arrived`."""
        self._orders[number] = self._actors[number].block.remote(order)

    def arrived(self, numbers: Sequence[int], timeout_s: float) -> list[tuple[int, Arrived]]:
        """Return what came of the orders of ``numbers``, waiting until there is one, or the time is over."""
        by_order = {self._orders[number]: number for number in numbers}
        done, _ = self._ray.wait(list(by_order), num_returns=1, timeout=timeout_s)
        found: list[tuple[int, Arrived]] = []
        for order in done:
            number = by_order[order]
            try:
                found.append((number, self._ray.get(order)))
            except self._ray.exceptions.RayError as error:
                self._said[number] = " ".join(str(error).split())
                found.append((number, Lost()))
        return found

    def why(self, number: int) -> str:
        """Return the last that a worker said."""
        return self._said.get(number, "it said nothing.")

    def close(self) -> None:
        """End all."""
        for number in list(self._actors):
            self._end(number)
        self._ray.shutdown()

    def _end(self, number: int) -> None:
        if number in self._actors:
            self._ray.kill(self._actors.pop(number))
            self._orders.pop(number, None)


def _end_all(workers: dict[int, Linked]) -> None:
    while workers:
        workers.popitem()[1].end()
