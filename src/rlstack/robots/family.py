"""Families of robots: the inputs that describe a robot to a policy for many, and the parameters of its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class RobotFamily(Protocol):
    """The family of one kind of robot; created once, without a robot."""

    parameters: Mapping[str, str]
    """Every parameter that distinguishes robots of the family, by name, with its meaning; the unit is in the name."""
    sizes: Mapping[str, int]
    """Number of elements that all robots of the family have, such as ``rotors``."""
    layout_input: str
    """The signal that identifies the elements: every policy for the family takes it."""

    def parameters_of(self, robot: Any) -> dict[str, float]:
        """Return the value of each of :attr:`parameters` for one robot."""

    def inputs(self, robot: Any) -> dict[str, NDArray[np.float64]]:
        """Return the value of every signal of :data:`rlstack.interfaces.signals.ROBOT_FILE` for one robot."""

    def check_layout(self, robot: Any, where: str) -> None:
        """Refuse a robot whose elements are arranged differently than policies for the family expect.

        Raises:
            UserError: The arrangement differs; ``where`` names the policy.
        """
