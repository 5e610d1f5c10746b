"""The runner in process: a policy, planner or controller acts on what N robots sense until every trial is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Record = TypeVar("Record")
OnProgress = Callable[[int, int], None]


def in_batches(
    run: Callable[[slice], Record], count: int, at_once: int, on_progress: OnProgress | None = None
) -> list[Record]:
    """Return what ``run`` makes of each batch of ``count`` trials.

    Args:
        run: Takes the numbers of a batch.
        count: Of all trials.
        at_once: Trials in a batch, at most.
        on_progress: Called after every batch with the trials done and ``count``.
    """
    parts = []
    for first in range(0, count, at_once):
        parts.append(run(slice(first, min(first + at_once, count))))
        if on_progress is not None:
            on_progress(min(first + at_once, count), count)
    return parts
