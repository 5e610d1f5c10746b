#!/usr/bin/env python3
"""Steps per second of a training that learns and moves its robots in one process, beside those with several.

The same recipe four times, each in processes of its own: all in one process with one thread and with two, with a
learner apart, and with rollout workers beside it (one thread each). Updates per step are the same: the robots wait for
a learner that is ``lead`` iterations behind. Counted is from a quarter of the steps on, when random actions,
demonstrations and pretraining are over, to the iteration before the evaluation at the end, which tells whether as many
steps have taught as much. The median of the rounds is compared; each has a seed of its own.

    python benchmarks/learner_apart.py [--recipe arm_pick_place] [--steps 40000] [--rounds 3] [--workers 2]
        [--only WORDS ...] [--json FILE] [more options of `rlstack train`]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.bench import machine

ONE, TWO, APART, WORKERS = "one process, one thread", "one process, two threads", "learner apart", "with workers"
COUNTED_FROM = 0.25


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        return one(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="arm_pick_place")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", nargs="+", default=["one process", "apart", "workers"], help="parts of variants' names"
    )
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options, more = parser.parse_known_args()
    variants = {ONE: (1, False, 0), TWO: (2, False, 0), APART: (1, True, 0), WORKERS: (1, True, options.workers)}
    variants = {name: one for name, one in variants.items() if any(words in name for words in options.only)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for round_ in range(options.rounds):
        for name, (threads, apart, workers) in variants.items():
            words = [options.recipe, "--steps", str(options.steps), "--seed", str(100 + round_), *more]
            words += ["--threads", str(threads), "--algorithm-settings.apart", str(apart)]
            words += ["--algorithm-settings.workers", str(workers)]
            command = [sys.executable, __file__, "--one", json.dumps(words)]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[name].append(json.loads(said.splitlines()[-1]))
            print(f"round {round_ + 1}, {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    rates = {name: statistics.median(each["steps_per_s"] for each in runs) for name, runs in found.items()}
    first = next(iter(rates.values()))
    print(f"{options.recipe}, {options.steps} steps, {machine()}")
    print(f"{'':26}{'steps/s':>10}{'ratio':>8}{'CPU-s':>8}{'success':>9}  each round: steps/s, success")
    for name, rate in rates.items():
        runs = found[name]
        cpu_s, success = (statistics.mean(run[key] for run in runs) for key in ("cpu_seconds", "success"))
        each = ", ".join(f"{run['steps_per_s']:.0f} {run['success']:.3f}" for run in runs)
        print(f"{name:26}{rate:10.0f}{rate / first:8.2f}{cpu_s:8.0f}{success:9.3f}  {each}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "runs": found}, indent=2) + "\n")
    return 0


def one(words: list[str]) -> int:
    """Train once, and print the rate as JSON."""
    from rlstack.training import run
    from rlstack.training.command import parse_recipe

    recipe = parse_recipe(words[0], words[1:]).recipe
    recipe = replace(recipe, selection=replace(recipe.selection, after=1.0, every=1.0))
    times: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as name:
        result = run.start(
            recipe, Path(name) / "run", lambda progress: times.append((time.monotonic(), progress.steps))
        )
    counted = [(at, steps) for at, steps in times[:-1] if steps >= COUNTED_FROM * recipe.steps]
    (begun, first), (ended, last) = counted[0], counted[-1]
    figures: dict[str, Any] = {"steps_per_s": (last - first) / (ended - begun), "seconds": ended - begun}
    figures |= {"cpu_seconds": result.cpu_seconds, "success": result.evaluation["success"]}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
