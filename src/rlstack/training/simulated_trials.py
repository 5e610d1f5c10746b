"""Trials of a policy in a benchmark's simulators: one environment for each task, whose trials follow each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlstack.foreign.workers import Workers

Seen = tuple[str, Any, Any]
"""A task, and the state and picture at the beginning of a chunk."""


def run_trials(
    workers: Workers,
    plan: Callable[[list[Seen]], dict[str, Any]],
    tasks: Sequence[str],
    seeds: Sequence[int],
    steps: int,
    together: int,
    on_task: Callable[[str, list[bool]], None],
) -> None:
    """Run the trials of each task; a trial ends with success.

    Workers answer ``begin`` with states, perhaps more, and pictures of trials, each of a task and a seed; ``act`` with
    these, success and steps so far after chunks of some tasks; and ``close``.

    Args:
        workers: Processes with the simulator.
        plan: Returns the chunk (chunk, axes) of each task that it gets.
        tasks: Their names.
        seeds: Of the trials' layouts; the same for each task.
        steps: Longest trial.
        together: Tasks whose environments exist at once.
        on_task: Called with each task that is done, and the success of its trials.
    """
    for first in range(0, len(tasks), together):
        groups = dealt(tasks[first : first + together], len(workers))
        going: list[dict[str, list[bool]]] = [{task: [] for task in group} for group in groups]  # their successes
        begun: list[Any] = [None] * len(going)  # what each worker's tasks see, by task
        for worker, trials in enumerate(going):
            begun[worker] = _begin(workers, worker, [(task, seeds[0]) for task in trials])
        while any(going):
            acting = [(worker, task) for worker, trials in enumerate(going) for task in trials]
            planned = plan([(task, *begun[worker][task]) for worker, task in acting])
            for worker, trials in enumerate(going):
                if trials:
                    workers.send(worker, "act", list(trials), np.stack([planned[task] for task in trials]), steps)
            for worker, trials in enumerate(going):
                if not trials:
                    continue
                states, *_, pictures, success, taken = workers.receive(worker)
                again = []
                for k, (task, found) in enumerate(list(trials.items())):
                    begun[worker][task] = (states[k], pictures[k])
                    if not success[k] and taken[k] < steps:
                        continue
                    found.append(bool(success[k]))
                    if len(found) < len(seeds):
                        again.append((task, seeds[len(found)]))
                    else:
                        on_task(task, found)
                        del trials[task]
                if again:
                    begun[worker].update(_begin(workers, worker, again))
        for worker in range(len(workers)):
            workers.ask(worker, "close")


def dealt(tasks: Sequence[str], workers: int) -> list[list[str]]:
    """Return the tasks of each worker."""
    return [list(tasks[k::workers]) for k in range(workers)]


def _begin(workers: Workers, worker: int, trials: list[tuple[str, int]]) -> dict[str, tuple[Any, Any]]:
    """Begin trials, and return state and picture of each task."""
    if not trials:
        return {}
    states, *_, pictures = workers.ask(worker, "begin", trials)
    return {task: (states[k], pictures[k]) for k, (task, _) in enumerate(trials)}
