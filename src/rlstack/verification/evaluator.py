"""How the best policy of a training run is chosen: by held-out trials, as the verification of its task declares."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class Evaluation:
    """How a policy did.

    Args:
        success: Share of the trials.
        rank: What policies are compared by, the better one first by its first number, then by the next.
        figures: For the record, by name; all finite.
    """

    success: float
    rank: tuple[float, ...]
    figures: dict[str, float]


class Evaluator:
    """Runs policies through the same held-out trials of a task.

    Args:
        task: With its settings.
        robot: What moves.
        episodes: How many trials.
        seed: Of the trials and of the sensors' noise.
    """

    def __init__(self, task: Any, robot: RobotSpec, episodes: int, seed: int) -> None:
        self._task, self._robot, self._seed = task, robot, seed
        self._way = verification_of(task, robot.kind)
        self._trials = self._way.draw_evaluation(task, robot, episodes, seed)

    def evaluate(self, policy: Any) -> Evaluation:
        """Return how ``policy`` did.

        Raises:
            UserError: The policy's command was not finite.
        """
        found: Evaluation = self._way.evaluate(policy, self._trials, self._task, self._robot, self._seed)
        return found


def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
    """Return in a sentence how a policy did, from the figures of its :class:`Evaluation`."""
    return str(verification_of(task).describe_evaluation(task, figures))


def verification_of(task: Any, kind: str = "") -> Any:
    """Return how policies of a task are evaluated and verified: a subclass of ``TaskVerification``.

    Args:
        task: A task or its class; its ``verification`` is a kind of robot or ``module:OBJECT``. None: an unknown one.
        kind: The kind of robot that decides where the task does not say.

    Raises:
        UserError: The kind has no verification.
    """
    module, colon, name = (getattr(task, "verification", "") or kind).partition(":")
    return getattr(importlib.import_module(module), name) if colon else find_kind(module).load("verification")
