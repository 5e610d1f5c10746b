"""Trials of a policy on Meta-World: one environment for each task, whose trials follow each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.metaworld.demonstrations import tokens_of
from rlstack.training.metaworld.workers import Workers, dealt

TOGETHER = 10
"""Tasks whose environments exist at once; each takes about 100 MB."""

FIRST_SEED = 1_000_000
"""Seeds of trials begin here; those of demonstrations are drawn from all others with negligible overlap."""


@dataclass
class _Trial:
    """A task's trials: how many are done, and the present one."""

    task: str
    seeds: list[int]
    found: list[bool] = field(default_factory=list)


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
    for first in range(0, len(names), TOGETHER):
        groups = dealt(names[first : first + TOGETHER], len(workers))
        going = [{task: _Trial(task, list(seeds)) for task in group} for group in groups]
        begun: list[Any] = [None] * len(going)  # what each worker's tasks see, by task
        for worker, trials in enumerate(going):
            begun[worker] = _begin(workers, worker, [(task, trial.seeds[0]) for task, trial in trials.items()])
        while any(going):
            acting = [(worker, task) for worker, trials in enumerate(going) for task in trials]
            planned = _planned(policy, said, [(task, *begun[worker][task]) for worker, task in acting])
            for worker, trials in enumerate(going):
                if trials:
                    workers.send(worker, "act", list(trials), np.stack([planned[task] for task in trials]), steps)
            for worker, trials in enumerate(going):
                if not trials:
                    continue
                states, pictures, success, taken = workers.receive(worker)
                again = []
                for k, (task, trial) in enumerate(list(trials.items())):
                    begun[worker][task] = (states[k], pictures[k])
                    if not success[k] and taken[k] < steps:
                        continue
                    trial.found.append(bool(success[k]))
                    if len(trial.found) < len(trial.seeds):
                        again.append((task, trial.seeds[len(trial.found)]))
                    else:
                        on_task(task, trial.found)
                        del trials[task]
                if again:
                    begun[worker].update(_begin(workers, worker, again))
        for worker in range(len(workers)):
            workers.ask(worker, "close")


def _begin(workers: Workers, worker: int, trials: list[tuple[str, int]]) -> dict[str, tuple[Any, Any]]:
    """Begin trials, and return state and picture of each task."""
    if not trials:
        return {}
    states, pictures = workers.ask(worker, "begin", trials)
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
