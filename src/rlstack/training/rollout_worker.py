"""Rollout worker: moves its share of a run's robots by a copy of the policy, and returns what came of it in blocks.

It knows the run's recipe alone and writes no file, so it may be on another machine. Its steps count once their block
has arrived: whatever it did since is lost with it, and never counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch
import yaml
from torch import Tensor

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.training import ALGORITHMS
from rlstack.training.algorithm import NotFinite
from rlstack.training.linked_process import receive, send, serve_linked
from rlstack.training.recipe import recipe_from_data


@dataclass(frozen=True)
class WorkerPlan:
    """A worker.

    Args:
        recipe: The run's recipe, as YAML.
        robots: How many it moves.
        threads: On which it computes.
        seed: Of its robots' starts and its actions; another one at each start of a worker.
    """

    recipe: str
    robots: int
    threads: int
    seed: int


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

    def begin_as_worker(self) -> None:
        """Prepare to act for a learner elsewhere; called once, before the first order."""

    def roll_out(self, order: Order) -> Any:
        """Step the robots as often as in an iteration; return what the learner needs of it."""


class RolloutWorker:
    """Moves robots in this process.

    Args:
        plan: The worker.
    """

    def __init__(self, plan: WorkerPlan) -> None:
        recipe = recipe_from_data(yaml.safe_load(plan.recipe), "the worker's recipe")
        torch.set_num_threads(plan.threads)
        torch.manual_seed(plan.seed)
        task = recipe.task_settings
        robot = task.reference(load_robot(recipe.robot))
        pipeline = task.pipeline(robot)
        environment = task.environment(robot, pipeline, plan.robots, device=recipe.device, seed=plan.seed)
        settings, elsewhere = recipe.algorithm_settings, {"apart": False, "overlap": False, "workers": 0}
        has = {one.name for one in fields(settings)}
        alone = replace(settings, **{name: value for name, value in elsewhere.items() if name in has})
        self._algorithm: RollsOut = ALGORITHMS.load(recipe.algorithm)(alone, environment)
        self._algorithm.begin_as_worker()

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
