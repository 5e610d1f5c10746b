"""A policy that plans chunks, for N robots in step: what plans is run once for each chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.policies.contract import ACTION, PLAN, STATE_PREFIX
from rlstack.policies.inference import Policy
from rlstack.policies.planning import halves


class ChunkwisePolicy:
    """A policy file that plans chunks, with the interface of :class:`rlstack.policies.Policy` for trials in step.

    It gives the same commands as the file that is stepped as a whole. Only in the steps that begin a chunk does it take
    what plans, such as images, and run the larger part of the graph.

    Args:
        policy: The loaded policy.

    Raises:
        UserError: As of :func:`rlstack.policies.planning.halves`.
    """

    def __init__(self, policy: Policy) -> None:
        self.contract, self.path, self.sha256 = policy.contract, policy.path, policy.sha256
        self._plan, self._act = halves(policy)
        self._plans_from, self._acts_from = (
            {port.name for port in (*part.contract.inputs, *part.contract.optional)} for part in (self._plan, self._act)
        )
        self._steps = policy.contract.chunk[0]
        self.reset()

    @property
    def due(self) -> tuple[str, ...]:
        """Names of the inputs that the next step takes; others may be left out."""
        names = self._acts_from | self._plans_from if self._taken == 0 else self._acts_from
        return tuple(port.name for port in self.contract.inputs if port.name in names)

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero, forget what is planned, and set the number of robots.

        Raises:
            ValueError: ``batch`` is below 1.
        """
        for part in (self._plan, self._act):
            part.reset(batch)
        self._taken = 0
        self._chunk: Array = np.zeros(0)

    def step(self, inputs: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Return the commands (batch, width) by name for inputs (batch, \\*shape).

        Raises:
            ValueError: As of :meth:`rlstack.policies.Policy.step`.
            PolicyOutputError: As there.
        """
        if self._taken == 0:
            state = {STATE_PREFIX + name: value for name, value in self._act.state.items()}
            given = {**inputs, **state}
            self._chunk = self._plan.step({name: given[name] for name in self._plans_from if name in given})[PLAN]
        given = {**inputs, ACTION: self._chunk[:, self._taken]}
        command = self._act.step({name: given[name] for name in self._acts_from if name in given})
        self._taken = (self._taken + 1) % self._steps
        return command


def chunkwise(driver: Any) -> Any:
    """Return a policy file that plans chunks as one that is run once for each; any other driver as it is."""
    if not isinstance(driver, Policy) or not driver.contract.chunk:
        return driver
    try:
        return ChunkwisePolicy(driver)
    except UserError:  # its graph cannot be cut
        return driver
