"""One control period as kernels over N robots: sensing, observation, command, dynamics, reward.

Values that a robot cannot compute from its own rows, such as a lidar scan, are measured between two kernels: one
moves and rewards the robot, the other observes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rlstack.fused import Kernel, clip, where
from rlstack.fused.expression import Rows
from rlstack.tasks.core.pipeline import Pipeline, Tensors
from rlstack.tasks.core.torch_tracing import trace_call


class FusedStep(ABC):
    """The step of one robot, fused into kernels over N robots.

    Inputs and outputs are (rows, N) arrays:

    - ``state``, ``parameters``: as in the batch simulator's layout
    - ``memory``: the pipeline's memory, then the last action
    - ``noise``: unit normals
    - the ``inputs`` of the subclass, such as a goal or a scan
    - ``action``: the policy's output, unclipped
    - ``past_k``: the command k periods ago, for delayed commands

    Args:
        task: The task's configuration.
        robot: The robot.
        pipeline: On the CPU.
        model: The physics, with the number of ``past_commands`` that may still take effect.
        command: Number of rows of a command.
        noise: Number of rows of the noise of one step.
        inputs: Number of rows of the subclass's further inputs, by name.
        following: Number of rows of the ``next_`` arrays that the reverse mode reads, by name without ``next_``: the
            ``noise`` and inputs of the next observation.
        device: Device of the kernels.
    """

    state_width: ClassVar[int]
    parameter_width: ClassVar[int]
    advance: ClassVar[Callable[..., Any]]
    """The dynamics: map (state, parameters, commands, model) to the next state."""
    inputs_after_step: ClassVar[tuple[str, ...]] = ()
    """Inputs that the reward reads at their values after the step, such as pedestrians."""

    privileged_terms: Sequence[tuple[str, int, str, str]]
    """Name, size, unit and meaning of each privileged term of the critic."""
    parks_lost: ClassVar[bool] = True
    """Whether ``act`` parks lost robots, as ``cycle`` does; unneeded if they are reset before they are observed."""

    def __init__(
        self,
        task: Any,
        robot: Any,
        pipeline: Pipeline,
        model: Any,
        *,
        command: int,
        noise: int,
        inputs: Mapping[str, int],
        following: Mapping[str, int],
        device: str = "cpu",
    ) -> None:
        self.task, self.robot, self.pipeline, self.model, self.device = task, robot, pipeline, model, device
        self.memory: dict[str, slice] = {}
        self._shapes = {**pipeline.memory, "last_action": (pipeline.action_size,)}
        start = 0
        for name, shape in self._shapes.items():
            self.memory[name] = slice(start, start + int(np.prod(shape)))
            start = self.memory[name].stop
        self.memory_width, self.command_width, self.noise_width = start, command, noise
        self.past = [f"past_{k}" for k in range(1, model.past_commands + 1)]
        self.inputs = {
            "state": self.state_width,
            "parameters": self.parameter_width,
            "memory": start,
            "noise": noise,
            **inputs,
        }
        self.following = dict(following)

    @cached_property
    def observe(self) -> Kernel:
        """The present ``actor`` observation, and the ``privileged`` columns of the critic."""
        return Kernel(self._observe, self.inputs, device=self.device)

    @cached_property
    def act(self) -> Kernel:
        """``next_state``, ``next_memory``, ``command``, ``reward``, its ``terms`` and ``lost`` (1 or 0)."""
        return Kernel(self._act_and_park if self.parks_lost else self._act, self._acted(), device=self.device)

    @cached_property
    def judge(self) -> Kernel:
        """``reward``, its ``terms`` and ``lost`` of a step taken elsewhere, to ``next_state`` and ``next_memory``."""
        led_to = {"next_state": self.state_width, "next_memory": self.memory_width}
        return Kernel(self._judge, {**self.inputs, "action": self.pipeline.action_size, **led_to}, device=self.device)

    @cached_property
    def cycle(self) -> Kernel:
        """The outputs of ``act``, and the ``actor`` observation after it, from ``next_noise`` and so on."""
        return Kernel(self._cycle, self._cycled(), device=self.device)

    @cached_property
    def cycle_reverse(self) -> Kernel:
        """The reverse mode of ``cycle``, for all outputs but ``terms`` and ``lost``."""
        kept = ("next_state", "next_memory", "reward", "actor", *(["command"] if self.past else []))
        return Kernel(
            lambda **rows: {name: value for name, value in self._cycle(**rows).items() if name in kept},
            self._cycled(),
            ("state", "memory", "action", *self.past),
            self.device,
        )

    @abstractmethod
    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return the policy's inputs by name, with sensor noise."""

    @abstractmethod
    def _privileged(self, rows: Mapping[str, Rows]) -> Rows | list[Any]:
        """Return the critic's privileged columns."""

    @abstractmethod
    def _rewarded(
        self, moved: Rows, action: Rows, memory: Mapping[str, Rows], after: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> tuple[list[Any], Any]:
        """Return the weighted reward terms in order, without ``lost``, and whether the robot is lost.

        Args:
            moved: The state that the action led to.
            action: Clipped.
            memory: By name, before the step.
            after: The pipeline's memory after it.
            rows: The step's inputs.
        """

    @abstractmethod
    def _parked(self, rows: Mapping[str, Rows]) -> Rows:
        """Return a safe state for a lost robot until its reset, so that no value overflows."""

    def _taken(self, action: Rows, memory: Mapping[str, Rows], rows: Mapping[str, Rows]) -> Rows:
        """Return the action that is taken: the policy's by default."""
        return action

    def _remembered(
        self, after: Mapping[str, Rows], memory: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> Mapping[str, Rows]:
        """Return the pipeline's memory after the step: ``after`` the policy's call by default."""
        return after

    def _next_inputs(self, rows: Mapping[str, Rows], state: Rows) -> dict[str, Rows]:
        """Return the further inputs of the observation after a step, beside state and memory."""
        return {name: rows[f"next_{name}"] for name in self.following}

    def _acted(self) -> dict[str, int]:
        past = dict.fromkeys(self.past, self.command_width)
        return {**self.inputs, "action": self.pipeline.action_size, **past}

    def _cycled(self) -> dict[str, int]:
        return {**self._acted(), **{f"next_{name}": rows for name, rows in self.following.items()}}

    def _observe(self, **rows: Rows) -> dict[str, Rows]:
        return {"actor": self._actor(rows), "privileged": as_objects(self._privileged(rows))}

    def _act(self, **rows: Rows) -> dict[str, Rows]:
        memory = self.unpack_memory(rows["memory"])
        action = self._taken(clip(rows["action"], -1.0, 1.0), memory, rows)
        after, command = trace_call(self._actor_memory, self._sensed(rows), memory, action)
        after = self._remembered(after, memory, rows)
        commands = [command, *(rows[name] for name in self.past)]
        moved = type(self).advance(rows["state"], rows["parameters"], commands, self.model)
        scored = self._scored(moved, action, memory, after, rows)
        return {
            "next_state": moved,
            "next_memory": self._memory_rows(after, action),
            "command": command,
            **scored,
        }

    def _act_and_park(self, **rows: Rows) -> dict[str, Rows]:
        made = self._act(**rows)
        return {**made, "next_state": where(made["lost"][0], self._parked(rows), made["next_state"])}

    def _judge(self, **rows: Rows) -> dict[str, Rows]:
        memory, after = (self.unpack_memory(rows[name]) for name in ("memory", "next_memory"))
        return self._scored(rows["next_state"], clip(rows["action"], -1.0, 1.0), memory, after, rows)

    def _cycle(self, **rows: Rows) -> dict[str, Rows]:
        made = self._act_and_park(**rows)
        after = {**rows, **self._next_inputs(rows, made["next_state"])}
        return {**made, "actor": self._actor({**after, "state": made["next_state"], "memory": made["next_memory"]})}

    def _scored(
        self, moved: Rows, action: Rows, memory: Mapping[str, Rows], after: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """Return ``reward``, its ``terms`` and ``lost`` for the state that an action led to."""
        values, lost = self._rewarded(moved, action, memory, after, rows)
        finite = np.abs(np.concatenate([moved, action])).sum() < 1e30
        lost = lost | ~finite
        # a diverged robot is lost; its reward must not spoil the others' training
        values = [where(finite, value, 0.0) for value in values]
        values.append(where(lost, self.task.reward.lost, 0.0))
        return {"reward": as_objects([sum(values)]), "terms": as_objects(values), "lost": as_objects([lost])}

    def unpack_memory(self, rows: Rows) -> dict[str, Rows]:
        """Return the memory by name."""
        return {name: rows[where_].reshape(self._shapes[name]) for name, where_ in self.memory.items()}

    def _memory_rows(self, after: Mapping[str, Rows], action: Rows) -> Rows:
        return np.concatenate([*(after[name].reshape(-1) for name in self.pipeline.memory), action])

    def _actor(self, rows: Mapping[str, Rows]) -> Rows:
        memory = self.unpack_memory(rows["memory"])
        return as_objects(trace_call(self._actor_observation, self._sensed(rows), memory))

    def _actor_observation(self, inputs: Tensors, memory: Tensors) -> Any:
        return self.pipeline.observe(self.pipeline.prepare(inputs, memory), memory)

    def _actor_memory(self, inputs: Tensors, memory: Tensors, action: Any) -> Any:
        prepared = self.pipeline.prepare(inputs, memory)
        return self.pipeline.remember(prepared, memory, action), self.pipeline.command(action, prepared)


def as_objects(values: Any) -> Rows:
    """Return values as an object array."""
    return np.asarray(values, dtype=object)
