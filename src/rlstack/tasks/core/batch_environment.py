"""Training environments in batch simulators: fused step, noise, endings, resets and saved state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.fused import check_device, zeros
from rlstack.tasks.core.learning_environment import StepResult
from rlstack.tasks.core.pipeline import Pipeline, TermInfo, term_table
from rlstack.tasks.core.rollout import DifferentiableRollout
from rlstack.tasks.core.step import FusedStep

Launch = Callable[[], None]
Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class _StepBuffers:
    """One of two sets of arrays: a step reads one and writes the other, so that it allocates no array and no view."""

    state: Tensor  # (rows, N), like all others
    memory: Tensor
    observation: Tensor  # the critic's observation, whose first rows are the actor's
    reward: Tensor
    terms: Tensor
    lost: Tensor
    views: tuple[Tensor, Tensor]  # (N, columns) of the actor and of the critic
    terms_by_name: dict[str, Tensor]  # (N,) by term


class BatchEnvironment(ABC):
    """N copies of a task in a batch simulator; a :class:`rlstack.tasks.core.learning_environment.LearningEnvironment`.

    An algorithm that learns from samples calls :meth:`step`, which resets robots by itself. One that differentiates
    through the simulator uses :meth:`rollout`, and calls :meth:`restart` between rollouts.

    A subclass calls :meth:`_allocate` with its step, and :meth:`reset_all` at the end of its constructor.

    Args:
        task: The task's configuration.
        robot: The robot.
        pipeline: Makes the actor's observation.
        count: N.
        device: ``"cpu"`` or a CUDA device.
        seed: Seeds starts, parameter randomisation, noise and resets.

    Raises:
        UserError: The device is missing, or torch cannot use it.
    """

    saved_arrays: ClassVar[tuple[str, ...]] = ("state", "memory", "parameters", "age")
    """Names of the mutable arrays, beside past commands and noise."""
    noise_table: ClassVar[tuple[int, int]] = (1 << 22, 2)
    """Least number of unit normals drawn ahead, and least number of steps that they last."""
    measures_each_step: ClassVar[bool] = True
    """Whether :meth:`sensing` depends on each state; otherwise its values are known for a whole rollout in advance."""

    def __init__(
        self, task: Any, robot: Any, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        self.task, self.robot, self.count, self.pipeline = task, robot, count, pipeline
        self.device = _learning_device(device)
        self.max_steps = round(task.episode_s * task.rate_hz)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        size, times = self.noise_table
        self._table = NoiseTable(self.generator, seed + 1, size, times)
        self.age = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps since each robot's reset; a robot times out at ``max_steps``."""
        self.autoreset = True
        """Whether :meth:`step` resets the robots whose episode has ended."""

    def seed(self, seed: int) -> None:
        """Reseed the generators; pools of episodes, maps and randomised parameters stay."""
        self.generator.manual_seed(seed)
        self._table.seed(seed + 1)

    def _allocate(self, step: FusedStep, terms: tuple[str, ...]) -> None:
        """Allocate the arrays of a step whose reward has these terms, ``lost`` last."""
        self.task_step, self._term_names = step, terms
        self.critic_size = sum(term.size for term in self.critic_table())
        """Columns of the critic's observation: the actor's, then the privileged ones."""
        self._buffers = [self._allocate_buffers(), self._allocate_buffers()]
        self.parameters = self._rows(step.parameter_width)
        self.noise = self._rows(step.noise_width).unsqueeze(1)
        self._action = self._rows(self.pipeline.action_size)
        self._commands = self._rows(step.command_width * (len(step.past) + 1))
        self._step_index = 0
        """Steps so far, modulo the period of the double buffers; selects the arrays read and written."""
        self._launches: dict[int, tuple[Launch, Launch, Launch]] = {}

    @property
    def state(self) -> Tensor:
        """(rows, N) in the simulator's layout; a different array after each step."""
        return self._buffers[self._step_index % 2].state

    @property
    def memory(self) -> Tensor:
        """(rows, N): the pipeline's memory, then the last action; a different array after each step."""
        return self._buffers[self._step_index % 2].memory

    @property
    def past(self) -> list[Tensor]:
        """(rows, N) each: past commands that may still take effect, newest first."""
        return self._command_ring()[1:]

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return [*self.pipeline.table(), *term_table(self.task_step.privileged_terms, self.pipeline.size)]

    @abstractmethod
    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``: draw new starts and new parameters."""

    @abstractmethod
    def varying(self) -> dict[str, Tensor]:
        """Return the present arrays (rows, N) that :meth:`sensing` and :meth:`begin_step` write, by name."""

    @abstractmethod
    def sensing(self, arrays: Arrays) -> Launch:
        """Return a callable that updates the sensed arrays of one time step from its state.

        Args:
            arrays: As returned by :meth:`step_arrays`.
        """

    def fixed(self) -> dict[str, Tensor]:
        """Return the arrays (rows, N) that steps read and that change only at a reset, by name."""
        return {"parameters": self.parameters}

    def step_arrays(self, arrays: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return ``state``, ``memory``, ``noise`` and the :meth:`varying` arrays of one step, and views of them."""
        return arrays

    def begin_step(self, now: Arrays, after: Arrays) -> None:
        """Advance everything that moves on its own by one control period, from one step's arrays to the next's."""
        return None

    def begin_rollout(self, inputs: Arrays, slots: int) -> None:
        """Write the initial values of a rollout into its :meth:`varying` arrays (rows, slots, >= N)."""
        return None

    def end_rollout(self, last: Arrays) -> None:
        """Copy back the arrays of a rollout's last step, except state, memory and commands."""
        return None

    def acting(self, steps: int) -> Tensor | None:
        """Return (steps, N) of 1 where the policy is called, and 0 where its command holds; None: it always is."""
        return None

    def set_progress(self, done: float) -> None:
        """Set the curriculum to the share ``done`` of the training steps."""
        return None

    def reset_all(self) -> None:
        """Reset every robot, staggered over the episode so that they do not end together."""
        self.restart(torch.arange(self.count, device=self.device))
        self.age = torch.randint(self.max_steps, (self.count,), generator=self.generator, device=self.device)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present.

        The noise is new each time; the arrays are written again by the next call and in the step after the next.
        """
        self.fill_noise(self.noise, 1)
        sense, observe, _ = self._launch()
        sense()
        observe()
        return self._buffers[self._step_index % 2].views

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""
        self._action.copy_(action.detach().T)
        self._launch()[2]()
        self._step_index = (self._step_index + 1) % (2 * (len(self.task_step.past) + 1))
        result = self._buffers[self._step_index % 2]
        self.advance_counters(1)
        lost = result.lost[0].bool()
        over, arrived = self.ended(lost), self._arrived()
        timed_out = over if arrived is None else over & ~arrived
        done = lost | over
        again = done.nonzero().squeeze(-1)
        if self.autoreset and len(again):
            self.restart(again)
        actor, critic = self.observe()
        return StepResult(actor, critic, result.reward[0], done, timed_out, dict(result.terms_by_name))

    def rollout(self, steps: int, steepest: float) -> DifferentiableRollout:
        """Return a rollout over the robots."""
        return DifferentiableRollout(self, steps, steepest)

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: robots that arrived or timed out and are not ``lost``."""
        over, arrived = self.age >= self.max_steps, self._arrived()
        return (over if arrived is None else over | arrived) & ~lost

    def arrived(self) -> Tensor:
        """Return (N,) bool: robots that have completed the task."""
        found = self._arrived()
        return torch.zeros_like(self.age, dtype=torch.bool) if found is None else found

    def advance_counters(self, steps: int) -> None:
        """Advance every robot's step counter."""
        self.age += steps

    def fill_noise(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        self._table.fill(array, slots)

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order, ``lost`` last."""
        return self._term_names

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        return {
            **{name: getattr(self, name) for name in self.saved_arrays},
            "past": self.past,
            **self._table.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name in self.saved_arrays:
            getattr(self, name).copy_(state[name])
        for mine, saved in zip(self.past, state["past"]):
            mine.copy_(saved)
        self._table.load_state_dict(state)
        self.generator.set_state(state["generator"].cpu())

    def _arrived(self) -> Tensor | None:
        """Return (N,) bool: robots that completed the task; None if it never completes early."""
        return None

    def _launch(self) -> tuple[Launch, Launch, Launch]:
        """Return the launches that sense, observe and act in the current set of arrays."""
        if self._step_index not in self._launches:
            step, now = self.task_step, self._buffers[self._step_index % 2]
            after = self._buffers[(self._step_index + 1) % 2]
            own = {"state": now.state, "memory": now.memory, "noise": self.noise[:, 0]}
            given = self.step_arrays({**own, **self.varying()})
            command, *past = self._command_ring()
            columns, arrays = self.pipeline.size, {**self.fixed(), **given}
            actor, privileged = now.observation[:columns], now.observation[columns:]
            observe = step.observe.prepare({**arrays, "actor": actor, "privileged": privileged})
            act = step.act.prepare(
                {
                    **arrays,
                    **dict(zip(step.past, past)),
                    "action": self._action,
                    "next_state": after.state,
                    "next_memory": after.memory,
                    "command": command,
                    "reward": after.reward,
                    "terms": after.terms,
                    "lost": after.lost,
                }
            )

            def begin_and_act() -> None:
                self.begin_step(given, given)
                act()

            self._launches[self._step_index] = self.sensing(given), observe, begin_and_act
        return self._launches[self._step_index]

    def _allocate_buffers(self) -> _StepBuffers:
        observation, terms = self._rows(self.critic_size), self._rows(len(self._term_names))
        return _StepBuffers(
            state=self._rows(self.task_step.state_width),
            memory=self._rows(self.task_step.memory_width),
            observation=observation,
            reward=self._rows(1),
            terms=terms,
            lost=self._rows(1),
            views=(observation[: self.pipeline.size].T, observation.T),
            terms_by_name=dict(zip(self._term_names, terms)),
        )

    def _command_ring(self) -> list[Tensor]:
        """Return the command arrays: the one to write next, then the past ones, newest first."""
        arrays = self._commands.split(self.task_step.command_width)
        first = -self._step_index % len(arrays)
        return [*arrays[first:], *arrays[:first]]

    def _rows(self, rows: int) -> Tensor:
        return torch.as_tensor(zeros(rows, self.count, str(self.device)))


def _learning_device(name: str) -> torch.device:
    """Return the device ``name``.

    Raises:
        UserError: The device is missing, or torch cannot use it.
    """
    device = torch.device(check_device(name))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"This torch was built without CUDA, so it cannot learn on '{name}': use the device cpu.")
    return device


class NoiseTable:
    """Unit normals drawn ahead; a step reads them from a random offset, since drawing takes longer than the step.

    Args:
        generator: Draws the table, on its own device.
        seed: Seeds the offsets.
        size: Least number of values in the table.
        times: Least size as a multiple of what one step reads.
    """

    def __init__(self, generator: torch.Generator, seed: int, size: int, times: int = 2) -> None:
        self._generator, self._size, self._times = generator, size, times
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Reseed the offsets, and redraw the table at its next use."""
        self._offsets = np.random.default_rng(seed)
        self._table = torch.empty(0, device=self._generator.device)

    def fill(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        rows, _, stride = array.shape
        size = rows * slots * stride
        if self._table.numel() < self._times * size:
            table = torch.empty(max(self._times * size, self._size), device=self._table.device)
            self._table = table.normal_(generator=self._generator)
        start = int(self._offsets.integers(self._table.numel() - size + 1))
        array[:, :slots].copy_(self._table[start : start + size].view(rows, slots, stride))

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state."""
        return {"noise_table": self._table, "offsets": self._offsets.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._table = state["noise_table"].to(self._table.device)
        self._offsets.bit_generator.state = state["offsets"]
