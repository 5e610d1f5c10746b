"""What the training environments of all bases have in common: arrays, steps, time, and the state to go on from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.tasks.core.arrays import NoiseTable, learning_device, zero_rows
from rlstack.tasks.core.interface import StepResult
from rlstack.tasks.core.pipeline import Pipeline, TermInfo

NOISE_TABLE = 1 << 22
"""Unit normals drawn ahead."""

Launches = tuple[Callable[[], None], Callable[[], None]]


class DrivingEnvironment(ABC):
    """N bases in the batch simulator; most of a :class:`rlstack.tasks.core.interface.LearningEnvironment`.

    Who derives from it calls :meth:`_allocate` once its ``task_step`` is there, and at the end of its constructor
    :meth:`reset_all`.

    Args:
        task: The task's configuration.
        robot: What drives.
        pipeline: Makes the actor's observation.
        count: N.
        device: ``"cpu"`` or a CUDA device.
        seed: Of places, starts, departures from the robot file, noise and resets.

    Raises:
        UserError: The device is not there, or torch cannot use it.
    """

    task_step: Any
    kept: ClassVar[tuple[str, ...]]
    """Names of its arrays that change as it runs, beside past commands and the noise."""

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        self.task, self.robot, self.count, self.pipeline = task, robot, count, pipeline
        self.device = learning_device(device)
        self.max_steps = round(task.episode_s * task.rate_hz)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self._table = NoiseTable(self.generator, seed + 1, NOISE_TABLE)
        self.age = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps since each robot's start; it times out at ``max_steps``."""
        self.autoreset = True
        self._launches: Launches | None = None

    def seed(self, seed: int) -> None:
        """Seed the generators anew; places and departures from the robot file stay."""
        self.generator.manual_seed(seed)
        self._table.seed(seed + 1)

    def _allocate(self, noise: int, privileged: int, terms: tuple[str, ...]) -> None:
        """Make the arrays.

        Args:
            noise: Rows of a step's noise.
            privileged: Columns that only the critic sees.
            terms: Names of the reward's terms, in order, ``lost`` last.
        """
        step, rows = self.task_step, self._rows
        self.state, self._next_state = rows(STATE_WIDTH), rows(STATE_WIDTH)
        self.memory, self._next_memory = rows(step.memory_width), rows(step.memory_width)
        self.parameters = rows(PARAMETER_WIDTH)
        self._noise = rows(noise).unsqueeze(1)
        self._action, self._command = rows(self.pipeline.action_size), rows(step.model.command_width)
        self.past = [rows(step.model.command_width) for _ in step.past]
        """(command_width, N) each: past commands that may still act, newest first."""
        self._term_names = terms
        self._reward, self._lost, self._terms = rows(1), rows(1), rows(len(terms))
        self.critic_size = self.pipeline.size + privileged
        self._seen = rows(self.critic_size)

    @abstractmethod
    def restart(self, index: Tensor) -> None:
        """Start the robots at ``index`` anew: in another place, as another robot."""

    @abstractmethod
    def _sense(self) -> None:
        """Bring up to date what the observation of the present reads."""

    @abstractmethod
    def _given(self) -> dict[str, Tensor]:
        """Return what observing and acting read of the surroundings, by name."""

    @abstractmethod
    def _begin_step(self) -> None:
        """Let a period pass for what moves by itself."""

    def _arrived(self) -> Tensor | None:
        """Return (N,) bool: whose episode is over because nothing is left to do; None where there is no such thing."""
        return None

    def reset_all(self) -> None:
        """Start every robot anew, spread over the episode so that they do not end together."""
        self.restart(torch.arange(self.count, device=self.device))
        self.age = torch.randint(self.max_steps, (self.count,), generator=self.generator, device=self.device)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present.

        The noise is new each time; the arrays are written again by the next call.
        """
        self.fill_noise(self._noise, 1)
        self._sense()
        self._launch()[0]()
        return self._seen[: self.pipeline.size].T, self._seen.T

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""
        self._action.copy_(action.detach().T)
        self._begin_step()
        self._launch()[1]()
        self.state.copy_(self._next_state)
        self.memory.copy_(self._next_memory)
        for k in reversed(range(len(self.past))):
            self.past[k].copy_(self.past[k - 1] if k else self._command)
        self.passed(1)
        lost = self._lost[0].bool()
        over, arrived = self.ended(lost), self._arrived()
        timed_out = over if arrived is None else over & ~arrived
        done = lost | over
        reward, terms = self._reward[0].clone(), self._terms.clone()
        again = done.nonzero().squeeze(-1)
        if self.autoreset and len(again):
            self.restart(again)
        actor, critic = self.observe()
        return StepResult(actor, critic, reward, done, timed_out, dict(zip(self._term_names, terms)))

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: who has arrived or whose time is over, of those that are not ``lost``."""
        over, arrived = self.age >= self.max_steps, self._arrived()
        return (over if arrived is None else over | arrived) & ~lost

    def passed(self, steps: int) -> None:
        """Count steps that every robot has driven."""
        self.age += steps

    def fill_noise(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        self._table.fill(array, slots)

    @abstractmethod
    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order, ``lost`` last."""
        return self._term_names

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""
        return {
            **{name: getattr(self, name) for name in self.kept},
            "past": self.past,
            **self._table.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        for name in self.kept:
            getattr(self, name).copy_(state[name])
        for mine, saved in zip(self.past, state["past"]):
            mine.copy_(saved)
        self._table.load_state_dict(state)
        self.generator.set_state(state["generator"].cpu())

    def _launch(self) -> Launches:
        """Return what observes the present and what acts on it."""
        if self._launches is None:
            step, columns = self.task_step, self.pipeline.size
            given = {"state": self.state, "memory": self.memory, "noise": self._noise[:, 0], **self._given()}
            seen = {"actor": self._seen[:columns], "privileged": self._seen[columns:]}
            made = {
                "parameters": self.parameters,
                "action": self._action,
                **dict(zip(step.past, self.past)),
                "next_state": self._next_state,
                "next_memory": self._next_memory,
                "command": self._command,
                "reward": self._reward,
                "terms": self._terms,
                "lost": self._lost,
            }
            self._launches = step.observe.prepare({**given, **seen}), step.act.prepare({**given, **made})
        return self._launches

    def _rows(self, rows: int) -> Tensor:
        return zero_rows(rows, self.count, self.device)
