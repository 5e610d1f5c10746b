"""How the best policy of a training run is chosen: by held-out episodes, in a way that its task names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rlstack.registry import Registry
from rlstack.robots import RobotSpec
from rlstack.verification.runner import Steppable

EXAMINERS = Registry("examiner", "rlstack.verification.examiners", "EXAMINER", "rlstack.examiners")
"""Each entry is a class of the kind :class:`Examiner`; a task says which by its ``examiner``."""


@dataclass(frozen=True)
class Marks:
    """How a policy did.

    Args:
        success: Share of the episodes.
        rank: What policies are compared by, the better one first by its first number, then by the next.
        figures: For the record, by name; all finite.
    """

    success: float
    rank: tuple[float, ...]
    figures: dict[str, float]


def described(task: Any, figures: Mapping[str, float]) -> str:
    """Return in a sentence how a policy did, from the figures of its :class:`Marks`, by the measure of its task."""
    describe = getattr(EXAMINERS.load(task.examiner), "describe", None)
    if describe is not None:
        return str(describe(task, figures))
    shown = ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items() if name != "episodes")
    return f"Over {figures['episodes']:.0f} held-out episodes: {shown}."


class Examiner(Protocol):
    """Drives or flies a policy through the held-out episodes of a task.

    A static method ``describe(task, figures)`` may tell its figures in a sentence.
    """

    def __init__(self, task: Any, robot: RobotSpec, episodes: int, seed: int) -> None:
        """Draw the episodes."""

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` did.

        Raises:
            UserError: The policy's command was not finite.
        """
