"""Evaluation of policies during training, by the held-out trials that the task's verification declares."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class Evaluation:
    """Result of evaluating a policy.

    Args:
        success: Success rate.
        rank: Sort key of policies, compared element by element; larger is better.
        figures: Figures for the record, by name; all finite.
    """

    success: float
    rank: tuple[float, ...]
    figures: dict[str, float]


class Evaluator:
    """Evaluates policies in the same held-out trials of a task.

    Args:
        task: The task with its settings.
        robot: The robot.
        episodes: Number of trials.
        seed: Seed of the trials and of the sensors' noise.
    """

    def __init__(self, task: Any, robot: RobotSpec, episodes: int, seed: int) -> None:
        self._task, self._robot, self._seed = task, robot, seed
        self._verification = verification_of(task, robot.kind)
        self._trials = self._verification.draw_evaluation(task, robot, episodes, seed)

    def evaluate(self, policy: Any) -> Evaluation:
        """Evaluate ``policy``.

        Raises:
            UserError: The policy's command was not finite.
        """
        found: Evaluation = self._verification.evaluate(policy, self._trials, self._task, self._robot, self._seed)
        return found


def evaluated_figures(task: Any, kind: str) -> tuple[str, ...]:
    """Return the names of the figures of an :class:`Evaluation` of a task, which it declares.

    None: they are known after a training only.

    Args:
        task: The task.
        kind: The robot's kind.
    """
    verification = verification_of(task, kind)
    declared = tuple(getattr(verification, "evaluated", ()))
    return (*declared, *(f"success_{one}" for one in verification.told_apart(task))) if declared else ()


def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
    """Describe the figures of an :class:`Evaluation` in a sentence."""
    return str(verification_of(task).describe_evaluation(task, figures))


def verification_of(task: Any, kind: str = "") -> Any:
    """Return the subclass of ``TaskVerification`` that evaluates and verifies a task's policies.

    Args:
        task: A task or its class; its ``verification`` is a kind of robot or ``module:OBJECT``. None: an unknown task.
        kind: The kind of robot to use if the task does not name a verification.

    Raises:
        UserError: The kind has no verification.
    """
    module, colon, name = (getattr(task, "verification", "") or kind).partition(":")
    return getattr(importlib.import_module(module), name) if colon else find_kind(module).load("verification")
