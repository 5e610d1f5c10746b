"""Rollout worker: moves its share of a run's robots by a copy of the policy, and returns what came of it in blocks.

It knows the run's recipe alone and writes no file, so it may be on another machine. Its steps count once their block
has arrived: whatever it did since is lost with it, and never counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from torch import Tensor

from rlstack.errors import UserError
from rlstack.training.algorithm import NotFinite
from rlstack.training.elsewhere import build_elsewhere
from rlstack.training.linked_process import receive, send, serve_linked


@dataclass(frozen=True)
class WorkerPlan:
    """A worker.

    Args:
        recipe: The run's recipe, as YAML.
        robots: How many it moves.
        threads: On which it computes.
        seed: Of its robots' starts and its actions; another one at each start of a worker.
        fixed: What the run's algorithm knows and no longer learns, such as an encoder of images; None: nothing.
    """

    recipe: str
    robots: int
    threads: int
    seed: int
    fixed: Any = None


@dataclass(frozen=True)
class Order:
    """What a worker is to do: one iteration's steps.

    Args:
        version: Of the policy: the updates before it.
        weights: The policy's, by name; None: those that the worker has.
        how: What else the algorithm needs to know.
    """

    version: int
    weights: Mapping[str, Tensor] | None
    how: Any


@dataclass(frozen=True)
class Block:
    """What came of an order.

    Args:
        version: Of the policy that acted.
        made: What the algorithm returned.
        seconds: Wall time that it took.
    """

    version: int
    made: Any
    seconds: float


@dataclass(frozen=True)
class Refused:
    """Why a worker cannot go on.

    Args:
        message: The reason.
        finite: Whether it is another one than a value that is not finite.
    """

    message: str
    finite: bool

    @property
    def error(self) -> UserError:
        """The error to raise."""
        return UserError(self.message) if self.finite else NotFinite(self.message)


class RollsOut(Protocol):
    """An algorithm whose robots can be moved apart from what learns."""

    def begin_as_worker(self, fixed: Any) -> None:
        """Prepare to act for a learner elsewhere; called once, before the first order.

        Args:
            fixed: See :class:`WorkerPlan`.
        """

    def roll_out(self, order: Order) -> Any:
        """Step the robots as often as in an iteration; return what the learner needs of it."""


class RolloutWorker:
    """Moves robots in this process.

    Args:
        plan: The worker.
    """

    def __init__(self, plan: WorkerPlan) -> None:
        self._algorithm: RollsOut = build_elsewhere(plan.recipe, plan.robots, plan.threads, plan.seed)
        self._algorithm.begin_as_worker(plan.fixed)

    def block(self, order: Order) -> Block | Refused:
        """Carry out an order."""
        begin = time.perf_counter()
        try:
            made = self._algorithm.roll_out(order)
        except NotFinite as error:
            return Refused(str(error), False)
        except UserError as error:
            return Refused(str(error), True)
        return Block(order.version, made, time.perf_counter() - begin)


def _serve(connection: Connection) -> None:
    worker = RolloutWorker(receive(connection))
    while True:
        send(connection, worker.block(receive(connection)))


def main() -> None:
    """Carry out the orders of the process that started this one."""
    serve_linked(_serve)


if __name__ == "__main__":
    from rlstack.training import rollout_worker  # messages are of its classes, not of those of __main__

    rollout_worker.main()
