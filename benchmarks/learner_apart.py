#!/usr/bin/env python3
"""Steps per second of a training that learns and moves its robots in one process, beside those with several.

The same recipe four times, each in processes of its own: all in one process with one thread and with two, with a
learner apart, and with rollout workers beside it (one thread each). Updates per step are the same: the robots wait for
a learner that is ``lead`` iterations behind. The algorithms of language have no learner apart: their workers wait while
the policy learns, with as many threads as there are workers.
Counted is from a quarter of the steps on, when random actions, demonstrations and pretraining are over, to the
iteration before the evaluation at the end, which tells whether as many steps have taught as much. The median of the
rounds is compared; each has a seed of its own.

Beside the steps per second there is what they could be if the processes had two cores to themselves: by the CPU time of
the busiest process, or half of all. On a machine with other work, that is the figure to look at, but for workers that
wait while the policy learns.

    python benchmarks/learner_apart.py [--recipe arm_pick_place] [--steps 40000] [--rounds 3] [--workers 2]
        [--only WORDS ...] [--json FILE] [more options of `rlstack train`]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.bench import machine
from rlstack.training.recipe import load_recipe

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
    settings = load_recipe(options.recipe).algorithm_settings
    variants: dict[str, tuple[int, dict[str, str]]] = {ONE: (1, {}), TWO: (2, {})}
    workers = {"workers": str(options.workers)}
    if hasattr(settings, "apart"):
        apart = {"apart": "True"}
        variants |= {APART: (1, apart), WORKERS: (1, {**apart, **workers})}
    else:
        variants[WORKERS] = (options.workers, workers)
    variants = {name: one for name, one in variants.items() if any(words in name for words in options.only)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for round_ in range(options.rounds):
        for name, (threads, given) in variants.items():
            words = [options.recipe, "--steps", str(options.steps), "--seed", str(100 + round_), *more]
            words += ["--threads", str(threads)]
            words += [word for key, one in given.items() for word in (f"--algorithm-settings.{key}", one)]
            command = [sys.executable, __file__, "--one", json.dumps(words)]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[name].append(json.loads(said.splitlines()[-1]))
            print(f"round {round_ + 1}, {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    rates = {name: statistics.median(each["steps_per_s"] for each in runs) for name, runs in found.items()}
    first = next(iter(rates.values()))
    print(f"{options.recipe}, {options.steps} steps, {machine()}")
    bounds = {
        name: statistics.median(each["steps_per_s_of_two_cores"] for each in runs) for name, runs in found.items()
    }
    print(
        f"{'':26}{'steps/s':>10}{'ratio':>8}{'of 2 cores':>12}{'ratio':>8}{'success':>9}"
        "  each: steps/s, of 2 cores, success"
    )
    for name, rate in rates.items():
        runs = found[name]
        success, bound, least = (
            statistics.mean(run["success"] for run in runs),
            bounds[name],
            next(iter(bounds.values())),
        )
        each = ", ".join(
            f"{run['steps_per_s']:.0f} {run['steps_per_s_of_two_cores']:.0f} {run['success']:.3f}" for run in runs
        )
        print(f"{name:26}{rate:10.0f}{rate / first:8.2f}{bound:12.0f}{bound / least:8.2f}{success:9.3f}  {each}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "runs": found}, indent=2) + "\n")
    return 0


def one(words: list[str]) -> int:
    """Train once, and print the rate as JSON."""
    from rlstack.training import run
    from rlstack.training.command import parse_recipe

    recipe = parse_recipe(words[0], words[1:]).recipe
    recipe = replace(recipe, selection=replace(recipe.selection, after=1.0, every=1.0))
    times: list[tuple[float, int, dict[int, float]]] = []
    with tempfile.TemporaryDirectory() as name:
        result = run.start(
            recipe, Path(name) / "run", lambda progress: times.append((time.monotonic(), progress.steps, cpu_s()))
        )
    counted = [one for one in times[:-1] if one[1] >= COUNTED_FROM * recipe.steps]
    (begun, first, before), (ended, last, after) = counted[0], counted[-1]
    used = [after[pid] - before.get(pid, 0.0) for pid in after]
    need = max(*used, sum(used) / 2.0) if len(used) > 1 else used[0] / recipe.threads
    figures: dict[str, Any] = {"steps_per_s": (last - first) / (ended - begun), "seconds": ended - begun}
    figures |= {"steps_per_s_of_two_cores": (last - first) / need, "cpu_seconds_of_processes": sorted(used)}
    figures |= {"cpu_seconds": result.cpu_seconds, "success": result.evaluation["success"]}
    print(json.dumps(figures))
    return 0


def cpu_s() -> dict[int, float]:
    """Return the CPU time of this process and of those that it has started, by their ids."""
    found = {}
    listed = [file.read_text() for file in Path("/proc/self/task").glob("*/children")]
    for pid in [os.getpid(), *(int(word) for text in listed for word in text.split())]:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
