"""Trials of a published checkpoint on LIBERO, from its folder to figures; they go on where they were interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from rlstack.data.lerobot.processors import read_json
from rlstack.errors import UserError
from rlstack.files import lock, write_atomically, write_json
from rlstack.foreign.workers import Workers
from rlstack.interfaces.instruction import encoded, split_words
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.training.language import actor as language
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from rlstack.training.libero.suite import AXES, PACKAGE, SIZE, STATE, STEPS, LiberoName
from rlstack.training.simulated_trials import Seen, run_trials

RESULTS, REPORT, TRIALS = "results.json", "report.md", "trials.json"

OnProgress = Callable[[str, int, int], None]

_OPENVLA = "openvla"


@dataclass(frozen=True)
class Options:
    """What is run.

    Args:
        suite: Name of the suite.
        policy: Folder of a SmolVLA or OpenVLA checkpoint with the statistics of LIBERO's demonstrations.
        trials: Of each task, in as many of the benchmark's initial states.
        chunk: Actions that are executed of each plan.
        steps: Longest trial; None: the suite's.
    """

    suite: LiberoName
    policy: str
    trials: int = 10
    chunk: int = 8
    steps: int | None = None


def bench(options: Options, folder: Path, python: Path, workers: int, on_progress: OnProgress) -> dict[str, Any]:
    """Run the trials that are left, write ``results.json`` and ``report.md``, and return the results.

    Args:
        options: What is run.
        folder: Where trials and figures are kept.
        python: Interpreter of an environment with LIBERO.
        workers: Its processes.
        on_progress: Called with a stage, and how much of it is done.

    Raises:
        UserError: LIBERO is missing, the folder is of other options, or the checkpoint cannot be used.
    """
    config = read_json(Path(options.policy).expanduser(), "config.json", {})
    cameras = cameras_of(config)
    held = lock(folder, ".lock", f"--out {folder} is not allowed: another benchmark runs in it.")
    try:
        steps = options.steps or STEPS[options.suite]
        kept = {**asdict(options), "steps": steps}
        file = folder / TRIALS
        far: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"options": kept, "tasks": {}}
        if far["options"] != kept:
            raise UserError(f"--out {folder} is not allowed: it is of other options, {json.dumps(far['options'])}.")
        with Workers(PACKAGE, python, workers) as processes:
            for worker in range(workers):
                said: list[str] = processes.ask(worker, "choose", options.suite, cameras, SIZE)
            policy = open_policy(options, cameras, said)
            left = [task for task in said if task not in far["tasks"]]
            on_progress("trials", len(said) - len(left), len(said))

            def keep(task: str, success: list[bool]) -> None:
                far["tasks"][task] = success
                write_json(file, far)
                on_progress("trials", len(far["tasks"]), len(said))

            plan = planner(policy, said, config)
            run_trials(processes, plan, left, range(options.trials), steps, workers, keep)
            versions = processes.versions
        success = {task: fmean(map(float, far["tasks"][task])) for task in said}
        results = {**kept, "versions": versions, "tasks": success, "mean": fmean(success.values())}
        write_json(folder / RESULTS, results)
        write_atomically(folder / REPORT, report_of(results))
        return results
    finally:
        os.close(held)


def cameras_of(config: dict[str, Any]) -> int:
    """Return how many cameras a checkpoint sees: the scene's, or also the wrist's.

    Raises:
        UserError: It is not of a kind that is read, or sees another number.
    """
    kind = str(config.get("type") or config.get("model_type"))
    if kind == _OPENVLA:
        return 1
    cameras = [name for name in config.get("input_features", {}) if name.startswith("observation.images.")]
    if kind == "smolvla" and len(cameras) in (1, 2):
        return len(cameras)
    if kind == "smolvla":
        raise UserError(f"--policy is not allowed: it sees {len(cameras)} cameras, and LIBERO has two.")
    raise UserError(f"--policy is not allowed: a checkpoint of the type '{kind}'; smolvla and openvla are read.")


def open_policy(options: Options, cameras: int, sentences: list[str]) -> LanguageActor:
    """Return a checkpoint's policy, normalised as it was trained.

    Raises:
        UserError: It is not whole, or its state, actions or cameras are not LIBERO's.
    """
    words = tuple(sorted({word for sentence in sentences for word in split_words(sentence)}))
    checkpoint = CheckpointSettings(folder=options.policy, statistics="checkpoint")
    settings = PolicySettings(checkpoint=checkpoint, chunk=options.chunk)
    layout = Layout(STATE, (cameras, SIZE, SIZE, 3), INSTRUCTION_BYTES)
    return LanguageActor(layout, words, AXES, settings).eval().requires_grad_(False)


def planner(
    policy: LanguageActor, sentences: list[str], config: dict[str, Any]
) -> Callable[[list[Seen]], dict[str, Any]]:
    """Return what plans chunks (chunk, 7) for tasks by their sentences."""
    with torch.no_grad():
        said = policy.tokeniser(torch.from_numpy(np.stack([encoded(one) for one in sentences])).float())
    tokens = dict(zip(sentences, said))
    of_openvla = (config.get("type") or config.get("model_type")) == _OPENVLA

    def plan(seen: list[Seen]) -> dict[str, Any]:
        states = torch.from_numpy(np.stack([state for _, state, _ in seen]))
        pictures = torch.from_numpy(np.stack([picture for _, _, picture in seen]))
        with torch.no_grad():
            inputs = language.Seen(states, torch.stack([tokens[task] for task, _, _ in seen]), pictures)
            chunks = policy.head(policy.features(inputs)).numpy()
        if of_openvla:  # its gripper is 0 closed to 1 open, and LIBERO's -1 open and 1 closed
            chunks = np.concatenate([chunks[..., :-1], np.sign(1.0 - 2.0 * chunks[..., -1:])], axis=-1)
        return {task: chunk for (task, _, _), chunk in zip(seen, chunks.clip(-1.0, 1.0))}

    return plan


def report_of(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [
        f"# {results['suite']}: {results['policy']}",
        "",
        f"Success in **{100 * results['mean']:.1f}%** of {results['trials']} trials of each task, of at most"
        f" {results['steps']} steps, {results['chunk']} of each plan executed. {versions}.",
        "",
        "| task | success |",
        "| --- | --- |",
        *(f"| {task} | {100 * success:.0f}% |" for task, success in results["tasks"].items()),
    ]
    return "\n".join(lines) + "\n"
