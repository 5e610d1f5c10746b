"""What a task says of itself for the table that people read: one sheet, written by each family of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlstack.interfaces.signals import commanded
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.pipeline import Pipeline, TermInfo

Row = tuple[str, ...]

COMMAND_NAMES: Mapping[str, tuple[str, ...]] = {
    "twist": ("ahead", "turning"),
    "planar_twist": ("ahead", "left", "turning"),
}
"""Elements of the commands of bases."""


@dataclass(frozen=True)
class TaskCard:
    """What differs from one family of tasks to another.

    Args:
        length: How long an episode is, in words.
        critic: Terms that only a critic sees.
        actions: Name, what -1 commands, what +1 commands, and unit, of each action.
        rewards: Name, weight and unit of each term.
        endings: Name of each ending, and when it comes.
        episode: What an episode is called.
        scale: What actions are, and between which bounds.
        drawn: Name, value or range, and unit of what differs from robot to robot, beside what settings say.
        judged: What is judged in a held-out one, and by which limit.
        asked_of: Where figures are asked for; empty: nothing is asked.
        asked: Of each figure its name, then what is asked for in each of those places.
    """

    length: str
    critic: tuple[TermInfo, ...]
    actions: tuple[Row, ...]
    rewards: tuple[Row, ...]
    endings: tuple[Row, ...]
    episode: str
    scale: str = "actions in -1..1"
    drawn: tuple[Row, ...] = ()
    judged: tuple[Row, ...] = ()
    asked_of: tuple[str, ...] = ()
    asked: tuple[Row, ...] = ()


def seconds(task: Any) -> str:
    """Return how long episodes are that last ``episode_s``."""
    return f"episodes of {task.episode_s:g} s ({round(task.episode_s * task.rate_hz)} steps)"


def commands(pipeline: Pipeline) -> tuple[Row, ...]:
    """Return the rows of actions that set the elements of a base's command over their whole range."""
    units = commanded(pipeline.output).unit.split(", ")
    limits = zip(COMMAND_NAMES[pipeline.output], pipeline.minimum.tolist(), pipeline.maximum.tolist(), units)
    return tuple((name, f"{low:g}", f"{high:g}", unit) for name, low, high, unit in limits)


def columns_after(pipeline: Pipeline, terms: tuple[tuple[str, int, str, str], ...]) -> tuple[TermInfo, ...]:
    """Return critics' terms (name, size, unit, meaning) as columns after those of the policy."""
    rows, start = [], pipeline.size
    for name, size, unit, meaning in terms:
        rows.append(TermInfo(name, start, size, unit, meaning))
        start += size
    return tuple(rows)


ASKED: Mapping[str, tuple[str, float, str]] = {
    "success": ("success, at least", 100.0, "%"),
    "lost": ("lost, at most", 100.0, "%"),
    "collided": ("collisions, at most", 100.0, "%"),
    "lead_high": ("lead over the planner, 95% interval's end, at least", 100.0, "%"),
    "time_ratio": ("time over the planner's, at most", 1.0, ""),
    "error_m": ("position error, median, at most", 1.0, " m"),
    "rmse_m": ("RMSE, median, at most", 1.0, " m"),
    "recover_s": ("time to recover, median, at most", 1.0, " s"),
    "intervened": ("episodes with an intervention, at most", 100.0, "%"),
    "latency_p99_ms": ("control latency, 99th percentile, at most", 1.0, " ms"),
    "episodes": ("episodes, at least", 1.0, ""),
}
"""Bounds by the key of the figure: in words, and the scale and unit of the number that is shown."""


def asked_rows(columns: Sequence[Bounds | None]) -> tuple[Row, ...]:
    """Return a row for each figure that has a bound in any of ``columns``; None asks nothing."""
    limits = [{} if bounds is None else bounds.limits for bounds in columns]
    return tuple(
        (words, *(f"{scale * row[key]:g}{unit}" if key in row else "-" for row in limits))
        for key, (words, scale, unit) in ASKED.items()
        if any(key in row for row in limits)
    )
