"""Rollout workers without processes, so that tests see what each does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlstack.training.rollout_worker import Block, Order, WorkerPlan
from rlstack.training.worker_pool import Arrived, Lost


class Inside:
    """Workers in this process: a :class:`rlstack.training.worker_pool.WorkerPool`.

    Args:
        make: Makes a worker's algorithm by its plan.

    Attributes:
        workers: The algorithms by number.
        orders: All orders, with whose they were.
        acted: What arrived, by the order's version.
        dying: Numbers of workers that die over their next order.
    """

    def __init__(self, make: Callable[[WorkerPlan], Any]) -> None:
        self._make = make
        self.workers: dict[int, Any] = {}
        self.orders: list[tuple[int, Order]] = []
        self.acted: dict[int, list[Any]] = {}
        self.dying: set[int] = set()
        self._answers: list[tuple[int, Arrived]] = []

    def start(self, number: int, plan: WorkerPlan) -> None:
        self.workers[number] = self._make(plan)
        self.workers[number].begin_as_worker(plan.fixed)

    def give(self, number: int, order: Order) -> None:
        self.orders.append((number, order))
        acted = self.workers[number].roll_out(order)
        if number in self.dying:
            self.dying.remove(number)
            self._answers.append((number, Lost()))
            return
        self.acted.setdefault(order.version, []).append(acted)
        self._answers.append((number, Block(order.version, acted, 0.0)))

    def arrived(self, numbers: Sequence[int], timeout_s: float) -> list[tuple[int, Arrived]]:
        came, self._answers = self._answers, []
        return came

    def why(self, number: int) -> str:
        return ""

    def close(self) -> None:
        pass
