"""What a learning algorithm is to the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.tasks.core.interface import LearningEnvironment


class NotFinite(UserError):
    """Learning stopped because a number was not finite; the message names the step and the term."""


class Actor(nn.Module):
    """The network that a policy file holds: observation and hidden state in, action and hidden state out.

    Attributes:
        memory: Shapes of its hidden state by name; empty for a feed-forward network.
    """

    memory: Mapping[str, tuple[int, ...]] = {}

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the deterministic action (batch, actions), unclipped, and the next hidden state.

        Args:
            observation: (batch, columns), as the pipeline makes it; normalisation is the actor's.
            memory: (batch, ...) hidden state by name.
        """
        raise TypeError(f"{type(self).__name__} does not define forward")


@dataclass(frozen=True)
class IterationResult:
    """What an algorithm owes the training loop after an iteration."""

    reward_per_s: float
    """Mean over the robots."""
    lost_share: float
    """Of the episodes that ended, those that failed; 0 to 1."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """What else is logged, by its name in TensorBoard."""

    def logged(self) -> dict[str, float]:
        """Return all of it by its name in TensorBoard."""
        return {"train/reward_per_s": self.reward_per_s, "train/lost_share": self.lost_share, **self.scalars}


class Algorithm(Protocol):
    """A learning algorithm: built for one environment, it learns one iteration at a time."""

    Settings: ClassVar[type]
    """Dataclass of its settings."""
    needs_gradients: ClassVar[bool]
    """Whether it learns only from tasks whose simulator can be differentiated."""
    steps_per_iteration: int
    """Environment steps of one iteration over all robots."""

    def __init__(self, settings: Any, environment: LearningEnvironment) -> None:
        """Build networks and buffers for one environment."""

    def iterate(self, done: float) -> IterationResult:
        """Collect experience and learn from it.

        Args:
            done: Share of the run's iterations that lie behind, for curricula and schedules.

        Raises:
            NotFinite: Something became NaN or infinite.
        """

    def actor(self) -> Actor:
        """Return a copy of the present actor, on the CPU, ready for evaluation and export."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning needs to go on: networks, optimiser, environment, random state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""


@runtime_checkable
class KeepsReplay(Protocol):
    """An algorithm that keeps what it learns from on disk, so that no checkpoint has to hold it."""

    def open(self, folder: Path) -> None:
        """Keep it in a run's folder, which may hold some of it already; called before the first iteration."""


@runtime_checkable
class TakesMore(Protocol):
    """An algorithm whose robots may have to take more steps than its iterations have."""

    extra_steps: int
    """Of all robots, so far."""
