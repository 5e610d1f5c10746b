"""The Meta-World benchmark from demonstrations to figures, in stages that go on where they were interrupted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.files import lock, write_atomically, write_json
from rlstack.foreign.workers import Workers
from rlstack.training.language.actor import LanguageActor
from rlstack.training.metaworld.demonstrations import Recording, check_folder, described, record
from rlstack.training.metaworld.learning import CHUNK, learn, load_policy
from rlstack.training.metaworld.reinforcing import load_reinforced, reinforce
from rlstack.training.metaworld.report import REPORT, RESULTS, report_of, summarise, summarise_reinforced
from rlstack.training.metaworld.suite import SUITES, Suite, SuiteName
from rlstack.training.metaworld.trials import FIRST_SEED, run_trials
from rlstack.training.metaworld.workers import PACKAGE

OnProgress = Callable[[str, int, int], None]

_TRIALS_SHARE = 0.25
"""Share of the time that is kept for trials."""


_EXPERT_STEPS = 400
"""Longest demonstration; an expert that has not succeeded by then has lost its object."""


@dataclass(frozen=True)
class Options:
    """What is run.

    Args:
        suite: Name of the suite.
        seed: Of demonstrations, learning and trials' layouts.
        demonstrations: Of each task.
        stray: Deviation of the noise on what experts do in half of the chunks, and not on what they show.
        trials: Of each task.
        steps: Longest trial.
        updates: Supervised updates; None: the suite's.
        reinforce: Iterations of PPO after it; 0: none.
        episode: Longest episode of these, steps.
        validation: Layouts of each task by which the policy that these leave is chosen; they are none of the trials'.
        minutes: Time for demonstrations, supervised learning and its trials, of which learning gets what
            demonstrations leave, without a share for trials; None: as long as it takes.
    """

    suite: SuiteName
    seed: int = 0
    demonstrations: int = 50
    stray: float = 0.2
    trials: int = 10
    steps: int = 500
    updates: int | None = None
    reinforce: int = 0
    episode: int = 200
    validation: int = 5
    minutes: float | None = None


def bench(options: Options, folder: Path, python: Path, workers: int, on_progress: OnProgress) -> dict[str, Any]:
    """Run the stages that are left, write ``results.json`` and ``report.md`` in the folder, and return the results.

    Args:
        options: What is run.
        folder: Where everything is kept.
        python: Interpreter of an environment with Meta-World.
        workers: Its processes.
        on_progress: Called with a stage, and how much of it is done.

    Raises:
        UserError: Meta-World is missing, the folder is of other options, or an expert seldom succeeds.
    """
    suite = SUITES[options.suite]
    held = lock(folder, ".lock", f"--out {folder} is not allowed: another benchmark runs in it.")
    try:
        return _bench(options, suite, folder, python, workers, on_progress)
    finally:
        os.close(held)


def _bench(
    options: Options, suite: Suite, folder: Path, python: Path, workers: int, on_progress: OnProgress
) -> dict[str, Any]:
    """Run the stages; see :func:`bench`."""
    kept = {**asdict(options), "updates": options.updates or suite.updates}
    for later in ("minutes", "reinforce", "episode", "validation"):
        del kept[later]
    check_folder(folder, kept)
    begun = time.monotonic()
    with Workers(PACKAGE, python, workers) as processes:
        recording = Recording(options.demonstrations, CHUNK, options.stray, _EXPERT_STEPS, options.seed)
        tasks = suite.sentences
        record(processes, tasks, folder, recording, lambda done, count: on_progress("demonstrations", done, count))
        limit = float("inf")
        if options.minutes is not None:
            limit = (1.0 - _TRIALS_SHARE) * 60.0 * options.minutes - (time.monotonic() - begun)
            if limit <= 0.0:
                raise UserError(
                    f"--minutes {options.minutes:g} is not enough: demonstrations alone took"
                    f" {(time.monotonic() - begun) / 60.0:.0f}. They are kept: give more, and it goes on."
                )
        learned = learn(
            suite,
            folder,
            options.seed,
            kept["updates"],
            limit,
            lambda done, count: on_progress("learning", done, count),
        )

        def trials(policy: LanguageActor, name: str) -> tuple[dict[str, list[bool]], float]:
            tell = partial(on_progress, "trials")
            return _try(processes, suite, folder / f"{name}.json", policy, options, tell)

        tried, trials_cpu_s = trials(load_policy(suite, folder), "trials")
        results = summarise(kept, processes.versions, described(folder, tasks), learned, tried, trials_cpu_s)
        if options.reinforce:
            tell = partial(on_progress, "reinforcement")
            asked = (options.seed, options.reinforce, options.episode, options.validation)
            far = reinforce(processes, suite, folder, *asked, tell)
            after = trials(load_reinforced(suite, folder), f"trials-{far.iterations}") if far.kept else (tried, 0.0)
            results["reinforced"] = summarise_reinforced(far, options.episode, *after)
    write_json(folder / RESULTS, results)
    write_atomically(folder / REPORT, report_of(results))
    return results


def _try(
    workers: Workers,
    suite: Suite,
    file: Path,
    policy: LanguageActor,
    options: Options,
    on_progress: Callable[[int, int], None],
) -> tuple[dict[str, list[bool]], float]:
    """Return the success of each trial of each task, and the CPU time; tasks that are done are not tried again."""
    held: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"tasks": {}, "cpu_s": 0.0}
    tried: dict[str, list[bool]] = held["tasks"]
    left = {task: said for task, said in suite.sentences.items() if task not in tried}

    def keep(task: str, success: list[bool]) -> None:
        tried[task] = success
        write_json(file, held)
        on_progress(len(tried), len(suite.sentences))

    if left:
        first = FIRST_SEED * (options.seed + 1)
        begun = time.process_time() + workers.cpu_s()
        run_trials(workers, policy, left, range(first, first + options.trials), options.steps, keep)
        held["cpu_s"] += time.process_time() + workers.cpu_s() - begun
        write_json(file, held)
    return tried, held["cpu_s"]
