"""The benchmark's package and its modules, each with the figures of its evaluator that are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlstack.foreign.workers import Package

Module = Literal["goal_interpretation", "subgoal_decomposition", "action_sequencing", "transition_modeling"]

PACKAGE = Package(
    title="The Embodied Agent Interface",
    versions={"eai-eval": "1.0.5", "up-fast-downward": "1.0.0"},
    why="whose figures may differ",
    program=Path(__file__).with_name("worker.py"),
    further=("setuptools<81",),  # pkg_resources, which the benchmark's packages import
)


@dataclass(frozen=True)
class Figure:
    """A figure of an evaluator.

    Args:
        title: What it is, %.
        path: Where it is in the evaluator's summary.
        whole: What the evaluator writes for 100%.
    """

    title: str
    path: tuple[str, ...]
    whole: float = 100.0

    def of(self, summary: Mapping[str, Any]) -> float:
        """Return it, %."""
        found: Any = summary
        for name in self.path:
            found = found[name]
        return 100.0 * float(found) / self.whole


FIGURES: dict[Module, tuple[Figure, ...]] = {
    "goal_interpretation": (
        Figure("F1 of goals", ("all_f1",)),
        Figure("precision", ("all_precision",)),
        Figure("recall", ("all_recall",)),
    ),
    "subgoal_decomposition": (
        Figure("task success", ("goal_evaluation", "task_success_rate"), 1.0),
        Figure("executable", ("trajectory_evaluation", "execution_success_rate"), 1.0),
        Figure("goals reached", ("goal_evaluation", "overall_goal"), 1.0),
    ),
    "action_sequencing": (
        Figure("task success", ("goal_evaluation", "task_success_rate")),
        Figure("executable", ("trajectory_evaluation", "execution_success_rate")),
        Figure("goals reached", ("goal_evaluation", "total_goal")),
    ),
    "transition_modeling": (
        Figure("F1 of conditions and effects", ("overall", "f1")),
        Figure("problems that a planner solves with it", ("overall", "planner_success_rate")),
    ),
}

MODULES: tuple[Module, ...] = tuple(FIGURES)
