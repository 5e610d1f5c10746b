"""The reinforcement stage of the Meta-World benchmark: the supervised policy goes on by PPO, from success and progress.

It must not harm the tasks that are learned already. What the policy sees stays fixed; each update also repeats
demonstrations of all tasks; tasks are left out that always succeed; and the policy that is kept is the best,
the supervised one included, on layouts that are neither practised nor those of the benchmark's trials.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from rlstack.files import write_atomically
from rlstack.foreign.workers import Workers
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.proximal import Proximal, ProximalSettings
from rlstack.training.language.rollouts import Rollouts
from rlstack.training.metaworld.demonstrations import Demonstrations
from rlstack.training.metaworld.learning import POLICY, load_policy, make_policy
from rlstack.training.metaworld.robots import Robots
from rlstack.training.metaworld.suite import Suite
from rlstack.training.metaworld.trials import FIRST_SEED, run_trials
from rlstack.training.run_folder import save_state

REINFORCED = "reinforced.pt"
"""File of policies, critic and optimisers."""

SETTINGS = ProximalSettings(rollout=256, batch=256, epochs=4, temperature=0.7, warm_up=1, head_rate=1.0, progress=0.3)
"""Settings of PPO. An iteration has 10 episodes or more of each task: with 3, no gain was seen. Samples stray by
7 mm in a chunk. The head is that of all tasks, so that it learns no faster than the rest."""

_ANCHOR, _SHOWN, _SHOWN_TOGETHER = 1.0, 64, 6000
"""Weight of the loss on demonstrations in each update, how many chunks it is of, and of how many they are drawn."""
_VALIDATED_SEED = 500_000
"""Seeds of validation begin here, beyond those of the benchmark's trials."""
_VALIDATED_EVERY = 10
"""Iterations between two validations."""


@dataclass
class Reinforced:
    """How far reinforcement is.

    Args:
        iterations: Iterations so far.
        episodes: Episodes that ended in them.
        cpu_s: Spent so far, workers and validation included.
        practised: Tasks that are practised.
        kept: Iterations of the policy that is kept; 0: the supervised one.
        validated: Success of all tasks in validation, mean, of policies after some ``iterations``.
        curve: Success of each iteration's episodes, with the CPU time until then.
    """

    iterations: int = 0
    episodes: int = 0
    cpu_s: float = 0.0
    practised: list[str] = field(default_factory=list)
    kept: int = 0
    validated: list[dict[str, float]] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)


def reinforce(
    workers: Workers,
    suite: Suite,
    folder: Path,
    seed: int,
    iterations: int,
    steps: int,
    layouts: int,
    on_progress: Callable[[int, int], None],
) -> Reinforced:
    """Improve the folder's supervised policy by PPO; go on where it was interrupted, with new trials.

    Args:
        workers: Processes with Meta-World.
        suite: Its tasks.
        folder: The benchmark's folder.
        seed: Of layouts and samples.
        iterations: Number of iterations.
        steps: Longest episode.
        layouts: Of each task in validation.
        on_progress: Called with the iterations done and their number.
    """
    torch.manual_seed(seed)
    file, far = folder / REINFORCED, Reinforced()
    held = torch.load(file, weights_only=True) if file.is_file() else None
    policy = make_policy(suite)
    policy.load_state_dict(held["policy"] if held else torch.load(folder / POLICY, weights_only=True))
    policy.fix_eyes()
    best = held["best"] if held else copy.deepcopy(policy.state_dict())
    if held:
        far = Reinforced(**held["far"])
    cpu = time.process_time() + workers.cpu_s() - far.cpu_s

    def validate() -> Mapping[str, float]:
        found: dict[str, list[bool]] = {}
        first = FIRST_SEED * (seed + 1) + _VALIDATED_SEED
        greedy = policy.copied().eval()
        run_trials(workers, greedy, suite.sentences, range(first, first + layouts), steps, found.__setitem__)
        return {task: fmean(map(float, trials)) for task, trials in found.items()}

    if not held:
        found = validate()
        far.practised = practised(found)
        far.validated.append({"iterations": 0, "success": fmean(found.values())})
    generator = torch.Generator().manual_seed(seed + 1_000_003 * far.iterations)
    robots = Robots(workers, suite, far.practised, FIRST_SEED * (seed + 1) + far.iterations, steps)
    rollouts = Rollouts(robots, policy, SETTINGS.temperature, generator)
    anchor = anchored(Demonstrations(folder, suite.sentences, policy), policy, generator)
    proximal = Proximal(SETTINGS, rollouts, policy, robots.privileged_size, generator, apart=True, anchor=anchor)
    if held:
        proximal.load_state_dict(held["proximal"])
    while far.iterations < iterations:
        _, scalars = proximal.iterate(far.iterations / iterations)
        far.iterations += 1
        far.episodes += int(scalars["train/episodes"])
        won = {"episodes": far.episodes, "success": scalars["train/success"]}
        if far.iterations % _VALIDATED_EVERY == 0 or far.iterations == iterations:
            success = fmean(validate().values())
            if success > max(one["success"] for one in far.validated):
                best, far.kept = copy.deepcopy(policy.state_dict()), far.iterations
            far.validated.append({"iterations": far.iterations, "success": success})
            robots.restart()
            rollouts.begin()
        far.cpu_s = time.process_time() + workers.cpu_s() - cpu
        far.curve.append({**won, "cpu_s": round(far.cpu_s, 1)})
        state = {"policy": policy.state_dict(), "best": best, "proximal": proximal.state_dict()}
        save_state(file, {**state, "far": vars(far)})
        write_atomically(folder / "reinforcing.json", json.dumps(vars(far), indent=1) + "\n")
        on_progress(far.iterations, iterations)
    for worker in range(len(workers)):
        workers.ask(worker, "close")
    return far


def practised(success: Mapping[str, float]) -> list[str]:
    """Return the tasks that do not always succeed, or all.

    A few layouts do not tell what seldom succeeds, which can be learned, from what never does.

    Args:
        success: Of each task, 0 to 1.
    """
    return [task for task, share in success.items() if share < 1.0] or list(success)


def anchored(shown: Demonstrations, policy: LanguageActor, generator: torch.Generator) -> Callable[[], Tensor]:
    """Return the loss on random demonstrations of all tasks, which keeps a policy whose eyes are fixed near them.

    Args:
        shown: The demonstrations.
        policy: The policy.
        generator: Draws them.
    """
    drawn = torch.randperm(len(shown), generator=generator)[:_SHOWN_TOGETHER]
    lessons = [shown.lesson(some) for some in drawn.split(_SHOWN)]
    seen = Seen(*(torch.cat(parts) for parts in zip(*(policy.sighted(one.seen) for one in lessons))))
    action, inside = torch.cat([one.action for one in lessons]), torch.cat([one.inside for one in lessons])

    def loss() -> Tensor:
        some = torch.randint(len(action), (_SHOWN,), generator=generator)
        wrong = policy.head.loss(policy.features(seen.take(some)), action[some], generator)
        return _ANCHOR * (wrong * inside[some]).sum() / inside[some].sum()

    return loss


def load_reinforced(suite: Suite, folder: Path) -> Any:
    """Return the policy that :func:`reinforce` kept."""
    policy = load_policy(suite, folder)
    policy.load_state_dict(torch.load(folder / REINFORCED, weights_only=True)["best"])
    return policy.eval().requires_grad_(False)
