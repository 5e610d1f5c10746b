"""A task's scripted expert as a driver: from the signals of its topics to joint targets, like a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator


class ExpertDriver:
    """The expert of a task that has one for what its policies sense.

    Args:
        task: The task.
        robot: The arm.
    """

    def __init__(self, task: Any, robot: Manipulator) -> None:
        self.inputs = tuple(task.inputs)
        self._expert, self._pipeline = task.fitted(robot).expert(), task.pipeline(robot)
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Begin trials of ``batch`` arms."""
        self._memory = self._pipeline.initial_memory(batch)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return joint targets (batch, joints) rad or m by name."""
        pipeline = self._pipeline
        with torch.no_grad():
            sensed = {name: torch.from_numpy(np.asarray(inputs[name], np.float32)) for name in self.inputs}
            prepared = pipeline.prepare(sensed, self._memory)
            seen = {name: tensor.numpy().astype(np.float64) for name, tensor in prepared.items()}
            action = pipeline.clip(torch.from_numpy(self._expert.act(seen, pipeline).astype(np.float32)))
            command = pipeline.command(action, prepared)
            self._memory = pipeline.remember_command(prepared, self._memory, action, command)
        return {pipeline.output: command.numpy().astype(np.float64)}
