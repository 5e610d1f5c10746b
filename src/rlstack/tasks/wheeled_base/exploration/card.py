"""Task card of the exploration task."""

from __future__ import annotations

from typing import Any

from rlstack.sim.grids.worlds import MOVES
from rlstack.tasks.core.card import TaskCard

_UNITS = {"new_cells": "a cell", "move": "a move", "complete": "once", "lost": "once"}
"""Unit of each reward term, in the environment's order."""


def exploration_card(task: Any) -> TaskCard:
    """Return the card of :class:`rlstack.tasks.catalog.base_exploration.ExplorationTask`."""
    expedition = task.expedition
    enough = f"more than {100 * expedition.enough:g}% is known"
    return TaskCard(
        length=f"episodes of {min(task.longest, expedition.steps)} moves at most in training",
        critic=(),
        actions=tuple((f"next cell at {move}", "-", "-", "the highest is chosen") for move in MOVES),
        rewards=tuple((name, f"{getattr(task.reward, name):g}", unit) for name, unit in _UNITS.items()),
        endings=(
            ("lost", "a crash: into an obstacle, or off the grid"),
            ("complete", enough),
            ("timed out", f"after {min(task.longest, expedition.steps)} moves; the value of going on is counted"),
        ),
        episode="world",
        scale="actions: scores",
        judged=(
            ("succeeds", f"{enough} within {expedition.steps} moves, without a crash"),
            ("better", "the mean share known, over the first half of those moves"),
        ),
    )
