"""What a kind of robot adds to adaptation in flight: which numbers a flight tells, and the robot file with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rlstack.identification.motion_model import Edit, Estimate


@dataclass(frozen=True)
class Told:
    """What a few seconds of flight tell of a robot, against its file.

    Args:
        steps: How far each number is from the file's, in units of the least change that is adapted to.
        sentence: The same in words.
        edits: The changes of the robot file.
    """

    steps: tuple[float, ...]
    sentence: str
    edits: tuple[Edit, ...] = ()

    def apart(self, other: Told) -> float:
        """Return the largest difference from another one, in those units."""
        return float(np.max(np.abs(np.subtract(self.steps, other.steps)), initial=0.0))


class KindAdaptation(ABC):
    """What a kind of robot needs for adaptation in flight."""

    free: ClassVar[tuple[str, ...]]
    """Names of the parameters of its identification that are fitted; all others are the file's."""

    @abstractmethod
    def check(self, robot: Any) -> None:
        """Refuse a robot that cannot be adapted to in flight with a ``UserError``."""

    @abstractmethod
    def unchanged(self) -> Told:
        """Return what a robot tells that is as its file says."""

    @abstractmethod
    def told(self, robot: Any, estimates: Mapping[str, Estimate]) -> Told:
        """Return what the estimates of the free parameters say of the robot.

        Raises:
            UserError: They say nothing.
        """
