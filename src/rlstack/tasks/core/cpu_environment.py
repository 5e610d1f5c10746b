"""Training environments whose robots are stepped on the CPU, without gradients."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np
import torch

from rlstack.errors import UserError
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.tasks.core.rollout import DifferentiableRollout


class CpuEnvironment(ABC):
    """Base of such a :class:`.LearningEnvironment`; its critic observes what the actor does.

    Args:
        task: The task's configuration.
        pipeline: Makes the observation.
        count: N.
        seed: Seeds the generators.
    """

    no_gradients: ClassVar[str]
    """Error of :meth:`rollout`: why there are no gradients, and what to do."""

    def __init__(self, task: Any, pipeline: Pipeline, count: int, seed: int) -> None:
        self.task, self.count = task, count
        self.pipeline: Any = pipeline
        self.device = torch.device("cpu")
        self.generator = torch.Generator().manual_seed(seed)
        self.critic_size, self.autoreset = pipeline.size, True
        self._rng = self._random(seed)
        self._age = np.zeros(count, dtype=np.intp)

    def _random(self, seed: int) -> np.random.Generator:
        """Return the generator of episodes."""
        return np.random.default_rng((seed, 0))

    def seed(self, seed: int) -> None:
        """Reseed the generators; what was drawn ahead stays."""
        self.generator.manual_seed(seed)
        self._rng = self._random(seed)

    def set_progress(self, done: float) -> None:
        """No-op: there is no curriculum."""
        return None

    def rollout(self, steps: int, steepest: float) -> DifferentiableRollout:
        """Raise an error: there are no gradients.

        Raises:
            UserError: Always.
        """
        raise UserError(self.no_gradients)

    def critic_table(self) -> list[TermInfo]:
        """Return the rows of the actor's observation, which is also the critic's."""
        return list(self.pipeline.table())

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        age, random = torch.from_numpy(self._age.copy()), self._rng.bit_generator.state
        return {"age": age, "random": random, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._age = state["age"].numpy().copy()
        self._rng.bit_generator.state = state["random"]
        self.generator.set_state(state["generator"])

    def close(self) -> None:
        """Release threads and processes; none by default."""
        return None
