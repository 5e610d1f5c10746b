"""A run's rollout workers, seen from where their steps are used: who acts, by which policy, and who waits.

Two rules bound how far acting and learning may be apart. A worker is given no order while the learner is behind, so at
most one block of each worker is under way (backpressure); and none while another one still acts by a policy that is too
many updates older than the newest (bounded staleness).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.training.rollout_worker import Block, Order, Refused, WorkerPlan
from rlstack.training.run_files import RECIPE, WORKERS
from rlstack.training.worker_pool import LocalPool, Lost, RayPool, WorkerPool

_SILENT_S = 300.0
"""Time after which a worker that has not answered is replaced; the first block also takes its set-up."""
_DEATHS = 3
"""Number of deaths of a worker without a block between, after which the run ends."""


@dataclass
class _Worker:
    """A worker as it is known here."""

    has: int = -1
    """Version of the weights that it has; -1: none."""
    acts: int | None = None
    """Version by which it acts; None: it has no order."""
    since_s: float = 0.0
    """When it was given its order."""
    deaths: int = 0
    """In a row."""


@dataclass
class _Figures:
    """What there is to tell of the workers since it was last asked."""

    ages: list[int] = field(default_factory=list)
    """Of each block, by how many updates its policy was older than the newest when it arrived."""
    busy_s: float = 0.0
    """Time that workers acted."""
    begun_s: float = field(default_factory=time.perf_counter)


class RolloutFleet:
    """Workers that each move a share of the robots.

    Args:
        pool: Where they run.
        count: How many there are.
        staleness: By how many updates a worker's policy may be older than the newest before all others wait for it.
        plan: Returns the plan of the n-th worker that is started.
    """

    def __init__(self, pool: WorkerPool, count: int, staleness: int, plan: Callable[[int], WorkerPlan]) -> None:
        self.pool, self.staleness = pool, staleness
        self.replaced = 0
        """Workers that died and were started again."""
        self._plan, self._started = plan, 0
        self._workers = [_Worker() for _ in range(count)]
        self._figures = _Figures()
        self._come: list[tuple[int, Block]] = []
        for number in range(count):
            self._start(number)

    def give(self, version: int, weights: Mapping[str, Tensor], how: Any, but: Container[int] = ()) -> None:
        """Give an order to each worker without one, if the rule of staleness lets it.

        Args:
            version, weights, how: See :class:`Order`.
            but: Numbers of workers that get none.
        """
        for number, worker in enumerate(self._workers):
            acting = [one.acts for one in self._workers if one.acts is not None]
            if number in but or worker.acts is not None or (acting and version - min(acting) > self.staleness):
                continue
            sent = weights if worker.has != version else None
            worker.has = worker.acts = version
            worker.since_s = time.monotonic()
            self.pool.give(number, Order(version, sent, how))

    def arrived(self, newest: int, timeout_s: float, most: int) -> list[tuple[int, Block]]:
        """Return blocks that have arrived, with their workers' numbers; start workers again that died.

        Args:
            newest: Version of the newest policy.
            timeout_s: How long to wait for one.
            most: How many to return; others are kept for the next call.

        Raises:
            UserError: A worker refuses, or dies again and again.
            NotFinite: A worker met a value that is not finite.
        """
        if not self._come:
            self._receive(newest, timeout_s)
        found, self._come = self._come[:most], self._come[most:]
        return found

    def figures(self) -> dict[str, float]:
        """Return figures since the last call: mean age of the policies, share of time that workers waited, deaths."""
        now, was = time.perf_counter(), self._figures
        self._figures = _Figures(begun_s=now)
        spent = max((now - was.begun_s) * len(self._workers), 1e-9)
        return {
            "workers/age_updates": sum(was.ages) / max(len(was.ages), 1),
            "workers/waited": min(max(1.0 - was.busy_s / spent, 0.0), 1.0),
            "workers/replaced": float(self.replaced),
        }

    def close(self) -> None:
        """End all workers; what they did since their last block does not count."""
        self.pool.close()

    def _receive(self, newest: int, timeout_s: float) -> None:
        waiting = [number for number, worker in enumerate(self._workers) if worker.acts is not None]
        if not waiting:
            time.sleep(timeout_s)
            return
        for number, came in self.pool.arrived(waiting, timeout_s):
            if isinstance(came, Refused):
                raise came.error
            if isinstance(came, Lost):
                self._replace(number)
                continue
            worker = self._workers[number]
            worker.acts, worker.deaths = None, 0
            self._figures.ages.append(max(0, newest - came.version))
            self._figures.busy_s += came.seconds
            self._come.append((number, came))
        now = time.monotonic()
        for number, worker in enumerate(self._workers):
            if worker.acts is not None and now - worker.since_s > _SILENT_S:
                self._replace(number)

    def _replace(self, number: int) -> None:
        deaths = self._workers[number].deaths + 1
        if deaths >= _DEATHS:
            raise UserError(f"Rollout worker {number} died {deaths} times without a step: {self.pool.why(number)}")
        self._workers[number] = _Worker(deaths=deaths)
        self.replaced += 1
        self._start(number)

    def _start(self, number: int) -> None:
        self.pool.start(number, self._plan(self._started))
        self._started += 1


def check_shares(workers: int, robots: int) -> None:
    """Raise ``UserError`` if workers cannot share robots equally."""
    if workers and robots % workers:
        raise UserError(
            f"algorithm_settings: workers: {workers} is not allowed with envs: {robots}: each has as many robots: give"
            " envs that it divides."
        )


def start_fleet(
    folder: Path,
    workers: int,
    robots: int,
    threads: int,
    ray: str,
    begun: Callable[[], int],
    staleness: int = 0,
    fixed: Any = None,
    nice: int = 0,
) -> RolloutFleet:
    """Start a run's workers.

    Args:
        folder: The run's.
        workers: How many, which divides ``robots``.
        robots: Of all of them.
        threads: Of each.
        ray: Address of a Ray cluster; empty: processes of this machine.
        begun: Returns a number that an interrupted run did not have before, such as its steps.
        staleness: As of :class:`RolloutFleet`.
        fixed: As of :class:`.WorkerPlan`.
        nice: By how much processes of this machine give way to others.
    """
    seed, recipe = torch.initial_seed(), (folder / RECIPE).read_text(encoding="utf-8")

    def plan(number: int) -> WorkerPlan:
        """Return a worker's plan, with starts that no worker had before, of an interrupted run neither."""
        drawn = np.random.SeedSequence([seed, begun(), number]).generate_state(1)
        return WorkerPlan(recipe, robots // workers, threads, int(drawn[0]), fixed)

    pool = RayPool(ray, workers, threads) if ray else LocalPool(folder / WORKERS, nice)
    return RolloutFleet(pool, workers, staleness, plan)
