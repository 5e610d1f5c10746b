"""Bases among landmarks: their motion in the batch simulator, and their own state."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Index
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.parameters import drawn
from rlstack.sim.batch_wheeled_base.simulator import PlanarSimulator
from rlstack.tasks.core.pipeline import Tensors, Term


class BaseVehicles:
    """N bases; see :class:`rlstack.tasks.landmarks.scene.Vehicles`.

    Args:
        robot: The base; each episode draws its response from the ranges of its file.
        count: N.
        rate_hz: Control rate.
    """

    def __init__(self, robot: WheeledBase, count: int, rate_hz: float) -> None:
        self._robot, self._simulator = robot, PlanarSimulator(robot, count, rate_hz=rate_hz)
        self._waiting = np.zeros((count, self._simulator.model.command_width))

    def place(self, index: Index, start: Array, rng: np.random.Generator) -> None:
        """Place some robots (n) at rest at (n, 4) x, y, z, m, and yaw, rad."""
        self._simulator.restart(index, start[:, [0, 1, 3]], drawn(self._robot, len(index), rng))

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, 2), m/s and rad/s."""
        self._simulator.step(command)

    def signals(self) -> dict[str, Array]:
        """Return the signals of odometry (N, ...)."""
        return self._simulator.state()

    def waiting(self) -> Array:
        """Return a command (N, 2) to stand."""
        return self._waiting

    def state_dict(self) -> dict[str, Array]:
        """Return the mutable arrays."""
        return {name: array.astype(float) for name, array in self._simulator.arrays.items()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, array in self._simulator.arrays.items():
            array[:] = state[name]


class PlanarTwist(Term):
    """Speed ahead and turning rate of a base, as measured."""

    name, size, unit, meaning = "twist", 2, "m/s, rad/s", "speed ahead and turning rate in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2)."""
        return torch.cat([inputs["linear_velocity"][:, :1], inputs["angular_velocity"][:, 2:]], dim=-1)
