"""Trials of a policy on Meta-World: one environment for each task, whose trials follow each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlstack.foreign.workers import Workers
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.metaworld.demonstrations import tokens_of
from rlstack.training.metaworld.workers import dealt

_TOGETHER = 10
"""Tasks whose environments exist at once; each takes about 100 MB."""

FIRST_SEED = 1_000_000
"""Seeds of trials begin here; those of demonstrations are drawn from all others with negligible overlap."""


def run_trials(
    workers: Workers,
    policy: LanguageActor,
    tasks: Mapping[str, str],
    seeds: Sequence[int],
    steps: int,
    on_task: Callable[[str, list[bool]], None],
) -> None:
    """Run the trials of each task; a trial ends with success.

    Args:
        workers: Processes with Meta-World.
        policy: The policy, greedy.
        tasks: Sentence of each task.
        seeds: Of the trials' layouts; the same for each task.
        steps: Longest trial.
        on_task: Called with each task that is done, and the success of its trials.
    """
    names = list(tasks)
    said = dict(zip(names, tokens_of(tasks, policy)))
    for first in range(0, len(names), _TOGETHER):
        groups = dealt(names[first : first + _TOGETHER], len(workers))
        going: list[dict[str, list[bool]]] = [{task: [] for task in group} for group in groups]  # their successes
        begun: list[Any] = [None] * len(going)  # what each worker's tasks see, by task
        for worker, trials in enumerate(going):
            begun[worker] = _begin(workers, worker, [(task, seeds[0]) for task in trials])
        while any(going):
            acting = [(worker, task) for worker, trials in enumerate(going) for task in trials]
            planned = _planned(policy, said, [(task, *begun[worker][task]) for worker, task in acting])
            for worker, trials in enumerate(going):
                if trials:
                    workers.send(worker, "act", list(trials), np.stack([planned[task] for task in trials]), steps)
            for worker, trials in enumerate(going):
                if not trials:
                    continue
                states, _, pictures, success, taken = workers.receive(worker)
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


def _begin(workers: Workers, worker: int, trials: list[tuple[str, int]]) -> dict[str, tuple[Any, Any]]:
    """Begin trials, and return state and picture of each task."""
    if not trials:
        return {}
    states, _, pictures = workers.ask(worker, "begin", trials)
    return {task: (states[k], pictures[k]) for k, (task, _) in enumerate(trials)}


def _planned(
    policy: LanguageActor, said: Mapping[str, torch.Tensor], seen: list[tuple[str, Any, Any]]
) -> dict[str, Any]:
    """Return the planned chunk (chunk, 4) of each task."""
    states = torch.from_numpy(np.stack([state for _, state, _ in seen]))
    pictures = torch.from_numpy(np.stack([picture for _, _, picture in seen]))[:, None]
    with torch.no_grad():
        tokens = torch.stack([said[task] for task, _, _ in seen])
        chunks = policy.head(policy.features(Seen(states, tokens, pictures)))
    return {task: chunk for (task, _, _), chunk in zip(seen, chunks.clamp(-1.0, 1.0).numpy())}
