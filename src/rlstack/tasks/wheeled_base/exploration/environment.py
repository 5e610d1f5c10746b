"""Training environment of N rovers that explore grid worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.sim.grids.simulator import MOVES
from rlstack.tasks.core.cpu_environment import CpuEnvironment
from rlstack.tasks.core.learning_environment import StepResult
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.wheeled_base.exploration.setting import TRAINING

POOL = 4096
"""Sites drawn ahead; every reset uses one of them."""


class ExplorationEnvironment(CpuEnvironment):
    """A :class:`.LearningEnvironment` whose step is the move of the highest action.

    Args:
        task: The setting and the rewards.
        robot: The rover; only its map matters here.
        pipeline: Makes the observation.
        count: N.
        device: The worlds are on the CPU.
        seed: Seed of terrains and resets.

    Raises:
        UserError: The device is not the CPU.
    """

    no_gradients = "Moves from cell to cell have no gradients: learn base_exploration with ppo_discrete."

    def __init__(
        self, task: Any, robot: RobotSpec, pipeline: Pipeline, count: int, *, device: str = "cpu", seed: int = 0
    ) -> None:
        if device != "cpu":
            raise UserError(f"Grid worlds are simulated on the CPU, not on '{device}': use the device cpu.")
        super().__init__(task, pipeline, count, seed)
        self._expedition = task.expedition
        self._pool = self._expedition.training(self._rng, POOL)
        self._worlds = self._expedition.worlds(count)
        self._enough = np.zeros(count, dtype=np.intp)
        self._limit = np.zeros(count, dtype=np.intp)
        side = self._expedition.terrain.side
        self._cells = side * side
        self._fixed = {
            "map_resolution": torch.full((count, 1), self._expedition.cell_m),
            "map_origin": torch.from_numpy(self._expedition.origin().astype(np.float32)).expand(count, 3),
        }
        self.reset_all()

    def _random(self, seed: int) -> np.random.Generator:
        return np.random.default_rng((TRAINING, seed))

    def reset_all(self) -> None:
        """Reset every rover, staggered over the episode so that they do not end together."""
        self.restart(torch.arange(self.count))
        self._age = self._rng.integers(0, self._limit)

    def restart(self, index: Tensor) -> None:
        """Reset the rovers at ``index``, on terrains of the pool."""
        rovers = index.numpy()
        chosen = self._pool.take(self._rng.integers(0, len(self._pool), len(rovers)))
        self._worlds.place(rovers, chosen.occupied, chosen.start)
        self._enough[rovers] = np.floor(self._expedition.enough * chosen.total) + 1
        self._age[rovers] = 0
        broken_off = self._rng.random(len(rovers)) < self.task.short_share
        longest = min(self.task.longest, self._expedition.steps)
        self._limit[rovers] = np.where(broken_off, min(self.task.short, longest), longest)
        self._wander(rovers[broken_off])

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations; both are the same."""
        position = torch.from_numpy(self._expedition.position(self._worlds).astype(np.float32))
        inputs = {**self._fixed, "map": torch.from_numpy(self._worlds.map), "position": position}
        with torch.no_grad():
            seen = self.pipeline.observe(self.pipeline.prepare(inputs, {}), {})
        return seen, seen

    def step(self, action: Tensor) -> StepResult:
        """Move every rover by its highest action (N, 4), and reset those that crashed, are done or out of time."""
        reward = self.task.reward
        before = self._worth()
        crashed = self._worlds.move(action.argmax(dim=-1).numpy())
        self._age += 1
        known = self._worlds.known()
        complete = known >= self._enough
        terms = {
            "new_cells": reward.new_cells * (self._worth() - before),
            "move": np.full(self.count, reward.move),
            "complete": reward.complete * complete,
            "lost": reward.lost * crashed,
        }
        timed_out = (self._age >= self._limit) & ~crashed & ~complete
        done = crashed | complete | timed_out
        earned = {name: torch.from_numpy(term.astype(np.float32)) for name, term in terms.items()}
        if self.autoreset and done.any():
            self.restart(torch.from_numpy(np.flatnonzero(done)))
        actor, critic = self.observe()
        total = torch.stack(list(earned.values())).sum(dim=0)
        return StepResult(actor, critic, total, torch.from_numpy(done), torch.from_numpy(timed_out), earned)

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("new_cells", "move", "complete", "lost")

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        worlds = self._worlds
        return {
            **super().state_dict(),
            "occupied": torch.from_numpy(np.packbits(worlds.occupied, axis=1)),
            "map": torch.from_numpy(worlds.map.astype(np.int8)),
            "cell": torch.from_numpy(worlds.cell.copy()),
            "limit": torch.from_numpy(self._limit.copy()),
            "enough": torch.from_numpy(self._enough.copy()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        worlds = self._worlds
        worlds.occupied[:] = np.unpackbits(state["occupied"].numpy(), axis=1, count=self._cells).astype(np.bool_)
        worlds.map[:] = state["map"].numpy()
        worlds.cell = state["cell"].numpy().copy()
        self._limit = state["limit"].numpy().copy()
        self._enough = state["enough"].numpy().copy()

    def _wander(self, rovers: NDArray[np.intp]) -> None:
        """Make some random moves, with preferred directions for each rover."""
        left = np.zeros(self.count, dtype=np.intp)
        left[rovers] = self._rng.integers(0, self.task.wander + 1, len(rovers))
        liking = self._rng.random((self.count, len(MOVES)))
        while (left > 0).any():
            wish = np.where(self._worlds.allowed(), liking * self._rng.random(liking.shape), -1.0)
            self._worlds.move(wish.argmax(axis=1), left > 0)
            left -= 1

    def _worth(self) -> NDArray[np.float64]:
        """Return the value (N,) of the known map in cells, capped at the target so that finishing is not delayed."""
        share = np.minimum(self._worlds.known() / self._enough, 1.0)
        return np.asarray(self._enough * (share + self.task.reward.early * 0.2 * (1.0 - (1.0 - share) ** 5)))
