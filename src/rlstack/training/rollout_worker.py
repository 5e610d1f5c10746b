"""Rollout worker: moves its share of a run's robots by a copy of the policy, and returns their steps in blocks.

It knows the run's recipe alone and writes no file, so it may be on another machine. Its steps count once their block
has arrived: whatever it did since is lost with it, and never counted.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch
import yaml
from torch import Tensor

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.robots import load_robot
from rlstack.training import ALGORITHMS
from rlstack.training.algorithm import NotFinite, RolloutTotals
from rlstack.training.recipe import recipe_from_data
from rlstack.training.replay_journal import ReplayJournal, Written


@dataclass(frozen=True)
class WorkerPlan:
    """A worker.

    Args:
        recipe: The run's recipe, as YAML.
        robots: How many it moves.
        seed: Of its robots' starts and its actions; another one at each start of a worker.
    """

    recipe: str
    robots: int
    seed: int


@dataclass(frozen=True)
class Order:
    """What a worker is to do: one iteration's steps.

    Args:
        version: Of the policy: the critic updates before it.
        weights: The policy's, by name; None: those that the worker has.
        steps: Of all robots so far, on which a warm-up depends.
        done: Completed share of the run, 0 to 1.
        able: Whether the policy acts in the warm-up, too.
    """

    version: int
    weights: Mapping[str, Tensor] | None
    steps: int
    done: float
    able: bool


@dataclass(frozen=True)
class Block:
    """What came of an order.

    Args:
        version: Of the policy that acted.
        written: What is to be stored.
        totals: Of the steps.
        figures: Further figures of theirs, each the sum of the steps' means over the robots.
        seconds: Wall time that it took.
    """

    version: int
    written: list[Written]
    totals: RolloutTotals
    figures: dict[str, float]
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

    def record(self, journal: ReplayJournal) -> None:
        """List steps in a journal instead of storing them; called once, before the first step."""

    def roll_out(self, order: Order) -> tuple[RolloutTotals, dict[str, float]]:
        """Step the robots as often as in an iteration; return the totals and figures of :class:`Block`."""


class RolloutWorker:
    """Moves robots in this process.

    Args:
        plan: The worker.
    """

    def __init__(self, plan: WorkerPlan) -> None:
        recipe = recipe_from_data(yaml.safe_load(plan.recipe), "the worker's recipe")
        torch.set_num_threads(recipe.threads)
        torch.manual_seed(plan.seed)
        task = recipe.task_settings
        robot = task.reference(load_robot(recipe.robot))
        pipeline = task.pipeline(robot)
        environment = task.environment(robot, pipeline, plan.robots, device=recipe.device, seed=plan.seed)
        settings = replace(recipe.algorithm_settings, apart=False, workers=0)
        self._journal = ReplayJournal()
        self._algorithm: RollsOut = ALGORITHMS.load(recipe.algorithm)(settings, environment)
        self._algorithm.record(self._journal)

    def block(self, order: Order) -> Block | Refused:
        """Carry out an order."""
        begin = time.perf_counter()
        try:
            totals, figures = self._algorithm.roll_out(order)
        except NotFinite as error:
            return Refused(str(error), False)
        except UserError as error:
            return Refused(str(error), True)
        return Block(order.version, self._journal.taken(), totals, figures, time.perf_counter() - begin)


def send(connection: Connection, message: Any) -> None:
    """Send a message; tensors are copied, not shared."""
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """Return the next message; raise ``EOFError`` if the other end is gone."""
    return pickle.loads(connection.recv_bytes())


def serve(connection: Connection) -> None:
    """Carry out orders until the other end is gone."""
    try:
        worker = RolloutWorker(receive(connection))
        while True:
            send(connection, worker.block(receive(connection)))
    except (EOFError, ConnectionError):
        return


def main() -> None:
    """Serve the process that gave the number of a connection's file and its own id as arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run's process handles Ctrl-C and stops this one
    die_with_parent(int(sys.argv[2]), signal.SIGKILL)
    serve(Connection(os.dup(int(sys.argv[1]))))


if __name__ == "__main__":
    from rlstack.training import rollout_worker  # messages are of its classes, not of those of __main__

    rollout_worker.main()
