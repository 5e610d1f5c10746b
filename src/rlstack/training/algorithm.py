"""Interface of a learning algorithm to the training loop."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.tasks.core.learning_environment import GoalStep, LearningEnvironment, StepResult, failed
from rlstack.tasks.core.pipeline import TermInfo


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


class PlanningActor(Actor):
    """An actor that plans a chunk of actions, and carries all of it out before it plans the next.

    Args:
        chunk: Number of actions in a chunk.
        actions: Number of an action's axes.
    """

    def __init__(self, chunk: int, actions: int) -> None:
        super().__init__()
        self.chunk, self.actions = chunk, actions
        self.noise: tuple[int, ...] = ()
        """Shape of the noise that its actions come from, if any."""
        self.memory = {"ahead": (chunk - 1, actions), "left": (1,)} if chunk > 1 else {}

    @abstractmethod
    def plan(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return deterministic chunks (batch, chunk, actions) for observations (batch, columns), the next one first.

        Args:
            observation: From the pipeline.
            noise: (batch or 1, *shape) with the shape of :attr:`noise`; None: 0, and always so without that.
        """

    def take(self, planned: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the present action (batch, actions) and the rest of the chunk with its length.

        Args:
            planned: (batch, chunk, actions), which counts where the last chunk is over.
            memory: The rest of the last chunk.
        """
        if self.chunk == 1:
            return planned[:, 0], {}
        left = memory["left"]
        over = (left < 0.5).float()
        ahead = torch.cat([memory["ahead"], torch.zeros_like(planned[:, :1])], dim=1)
        chosen = over[:, :, None] * planned + (1.0 - over)[:, :, None] * ahead
        left = over * (self.chunk - 1) + (1.0 - over) * (left - 1.0)
        return chosen[:, 0], {"ahead": chosen[:, 1:], "left": left}

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the present action (batch, actions), unclipped, and the next memory; see :class:`Actor`."""
        return self.take(self.plan(observation), memory)


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
    """Environment steps of one iteration over all robots; others, if any, are counted by an ``extra_steps``."""

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


class RolloutTotals:
    """Sums of rewards and ended episodes over the steps of a rollout."""

    def __init__(self) -> None:
        self.terms: dict[str, Tensor] = {}
        """Sum of each reward term's mean over the robots."""
        self._ended = self._lost = self._won = torch.zeros(())

    def add(self, result: StepResult, lost: Tensor | None = None) -> None:
        """Add a step; ``lost`` (N,) are the robots that failed in it, by default those of :func:`failed`."""
        for name, term in result.terms.items():
            self.terms[name] = self.terms.get(name, 0.0) + term.mean()
        self._ended = self._ended + result.done.sum()
        self._lost = self._lost + (failed(result) if lost is None else lost).sum()
        if isinstance(result, GoalStep):
            self._won = self._won + (result.success & result.done).sum()

    @staticmethod
    def together(parts: Sequence[RolloutTotals]) -> RolloutTotals:
        """Return the totals of rollouts of equally many robots and steps, side by side."""
        whole = RolloutTotals()
        for one in parts:
            for name, term in one.terms.items():
                whole.terms[name] = whole.terms.get(name, 0.0) + term / len(parts)
            whole._ended = whole._ended + one._ended
            whole._lost = whole._lost + one._lost
            whole._won = whole._won + one._won
        return whole

    def result(self, rate: float, scalars: Mapping[str, float]) -> IterationResult:
        """Return the result of an iteration; ``rate`` is that of the control divided by the number of steps, Hz."""
        earned = {f"reward/{name}": float(total) * rate for name, total in self.terms.items()}
        return IterationResult(sum(earned.values()), self._share(self._lost), {**scalars, **earned})

    @property
    def lost_share(self) -> float:
        """Share of the ended episodes that failed."""
        return self._share(self._lost)

    @property
    def success(self) -> float:
        """Share of the ended episodes that succeeded."""
        return self._share(self._won)

    def _share(self, count: Tensor) -> float:
        return float(count / self._ended.clamp(min=1))


def check_finite(values: Mapping[str, Any], message: str) -> None:
    """Check tensors or numbers by name; ``message`` has ``{}`` in place of the name.

    Raises:
        NotFinite: One of them is not finite.
    """
    for name, value in values.items():
        if not torch.isfinite(torch.as_tensor(value)).all():
            raise NotFinite(message.format(name))


def check_observation(observation: Tensor, table: Sequence[TermInfo], message: str) -> None:
    """Check an observation (..., columns); see :func:`check_finite`."""
    if not torch.isfinite(observation).all():
        check_finite({t.name: observation[..., t.start : t.start + t.size] for t in table}, message)


def check_widths(settings: Any, *names: str) -> None:
    """Raise ``ValueError`` if the widths of a network's hidden layers, in settings of these names, are empty."""
    for name in names:
        if not getattr(settings, name):
            raise ValueError(f"{name}: [] is not allowed: must be the widths of at least one layer.")


def cosine_decay(first: float, last: float, done: float) -> float:
    """Return a learning rate that decays from ``first`` to ``last`` along a cosine, after a share 0 to 1 of the run."""
    return last + (first - last) * 0.5 * (1.0 + math.cos(math.pi * min(max(done, 0.0), 1.0)))


@runtime_checkable
class ChecksFirst(Protocol):
    """An algorithm that begins with something that may be missing, such as another run's policy."""

    def check(self) -> None:
        """Raise ``UserError`` if it is missing; called before a run's folder is made."""


class FineTunes(Protocol):
    """An algorithm that can start from the weights of a trained policy."""

    fine_tunes: ClassVar[str]
    """What it needs: ``policy``: its weights alone, or ``run``: the state of a run of the same algorithm."""

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over weights, and no optimiser, environment or random state; called before the first iteration.

        Args:
            actor: Weights of a policy, as the ``state_dict`` of what :meth:`Algorithm.actor` returns.
            state: What :meth:`Algorithm.state_dict` returned at the end of its run; None: unknown.
        """


@runtime_checkable
class ChangesInRun(Protocol):
    """An algorithm that can go on with other settings in mid-run."""

    changeable: ClassVar[tuple[str, ...]]
    """The settings that may change."""

    def change(self, settings: Any) -> None:
        """Go on with settings that differ in :attr:`changeable` alone; called between two iterations."""


@runtime_checkable
class UsesFolder(Protocol):
    """An algorithm with experience on disk, outside of checkpoints, or with further processes."""

    def open(self, folder: Path) -> None:
        """Open the experience in a run's folder, which may hold some already, and start processes; called before the
        first iteration."""


@runtime_checkable
class HasProcesses(Protocol):
    """An algorithm that may learn and act in further processes."""

    def close(self) -> None:
        """End them, and take over what they have learned; called after the last iteration."""


@runtime_checkable
class ActsElsewhere(Protocol):
    """An algorithm that may have rollout workers."""

    ray: str
    """Address of a Ray cluster for them; empty: processes of this machine."""


def on_ray(algorithm: Algorithm, settings: Any, address: str) -> None:
    """Have an algorithm's rollout workers on a Ray cluster.

    Raises:
        UserError: It has none.
    """
    if not isinstance(algorithm, ActsElsewhere) or not getattr(settings, "workers", 0):
        raise UserError(
            "--ray: this training has no rollout workers: give --algorithm-settings.apart True"
            " --algorithm-settings.workers 4, with sac, rlpd, wsrl, hil_serl or rlif; the latter alone with"
            " vla_ppo, vla_grpo or vla_rejection."
        )
    algorithm.ray = address
