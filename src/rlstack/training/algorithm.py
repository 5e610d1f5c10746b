"""Interface of a learning algorithm to the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.tasks.core.interface import LearningEnvironment


class NotFinite(UserError):
    """Learning stopped at a value that is not finite; the message names the step and the term."""


class Actor(nn.Module):
    """The network in a policy file: maps observation and hidden state to action and hidden state.

    Attributes:
        memory: Shapes of its hidden state by name; empty for a feed-forward network.
    """

    memory: Mapping[str, tuple[int, ...]] = {}

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the deterministic action (batch, actions), unclipped, and the next hidden state.

        Args:
            observation: (batch, columns) from the pipeline; the actor normalises it.
            memory: (batch, ...) hidden state by name.
        """
        raise TypeError(f"{type(self).__name__} does not define forward")


@dataclass(frozen=True)
class IterationResult:
    """Result of one iteration for the training loop."""

    reward_per_s: float
    """Mean over the robots."""
    lost_share: float
    """Share of the ended episodes that failed, 0 to 1."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Further scalars, by their name in TensorBoard."""

    def logged(self) -> dict[str, float]:
        """Return all scalars by their name in TensorBoard."""
        return {"train/reward_per_s": self.reward_per_s, "train/lost_share": self.lost_share, **self.scalars}


class Algorithm(Protocol):
    """A learning algorithm: built for one environment, it learns one iteration at a time."""

    Settings: ClassVar[type]
    """Dataclass of its settings."""
    needs_gradients: ClassVar[bool]
    """Whether it needs a differentiable simulator."""
    steps_per_iteration: int
    """Environment steps of one iteration over all robots."""

    def __init__(self, settings: Any, environment: LearningEnvironment) -> None:
        """Build networks and buffers for one environment."""

    def iterate(self, done: float) -> IterationResult:
        """Collect experience and learn from it.

        Args:
            done: Completed share of the run's iterations, for curricula and schedules.

        Raises:
            NotFinite: A value became NaN or infinite.
        """

    def actor(self) -> Actor:
        """Return a copy of the current actor, on the CPU, ready for evaluation and export."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume: networks, optimiser, environment, random state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""


@runtime_checkable
class KeepsReplay(Protocol):
    """An algorithm with experience on disk, outside of checkpoints."""

    def open(self, folder: Path) -> None:
        """Open the experience in a run's folder, which may hold some already; called before the first iteration."""


@runtime_checkable
class TakesMore(Protocol):
    """An algorithm whose robots may take extra steps outside of iterations."""

    extra_steps: int
    """Extra steps so far, over all robots."""
