"""What a training run says while it goes on, and at its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.machine import machine
from rlstack.training.export import PolicyGraph
from rlstack.training.recipe import Recipe


@dataclass(frozen=True)
class Progress:
    """Progress of a run after an iteration."""

    steps: int
    total_steps: int
    steps_per_s: float
    reward_per_s: float
    lost_share: float
    success: float | None
    """Success in the latest evaluation on held-out starts; None before the first."""
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Result:
    """Result of a run."""

    recipe: Recipe[Any, Any]
    folder: Path
    policy: Path
    finished: bool
    """False if it was stopped before its last step."""
    until: float
    """The share of the steps that it was asked for and has done; 0: it was interrupted before."""
    steps: int
    seconds: float
    cpu_seconds: float
    """CPU-seconds of learning and evaluating, without set-up and export."""
    evaluation_cpu_seconds: float
    """CPU-seconds of evaluating alone."""
    setup_cpu_seconds: float
    """CPU-seconds before learning began: imports, kernels, environment, network."""
    evaluation: dict[str, float]
    """Figures of the best policy, which is the exported one."""
    margins: dict[str, float]
    """The best policy's margins of the reality grid, of those that the recipe names; see :mod:`.run_margins`."""
    evaluations: list[dict[str, float]]
    """Figures of each evaluation, in order; ``cpu_seconds`` counts learning alone up to then."""

    def as_json(self) -> str:
        """Return all fields but the recipe, which has its own file, and what computed them."""
        figures = {**schema.to_data(self), "folder": str(self.folder), "policy": str(self.policy)}
        figures["machine"] = machine(self.recipe.device)
        del figures["recipe"]
        return json.dumps(figures, indent=2) + "\n"


RUN_FIGURES = tuple(one.name for one in fields(Result) if one.type in ("int", "float"))
"""Names of the figures of a run itself, rather than of its best policy."""

OnProgress = Callable[[Progress], None]
OnBest = Callable[[PolicyGraph, Any, int], None]
"""Called with the graph of a new best policy, its contract, and the steps so far."""
