"""Trials of a policy on Meta-World."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rlstack.foreign.workers import Workers
from rlstack.training import simulated_trials
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.metaworld.demonstrations import tokens_of

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
    said = dict(zip(tasks, tokens_of(tasks, policy)))
    simulated_trials.run_trials(workers, partial(_planned, policy, said), list(tasks), seeds, steps, _TOGETHER, on_task)


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
