#!/usr/bin/env python3
"""Steps per second of a training that learns and moves its robots in one process, beside one with a learner apart.

The same recipe three times, each in a process of its own: all in one process with one thread and with two, and with
``apart`` (robots and learner on one thread each). Updates per step are the same: the robots wait for a learner that is
``lead`` iterations behind. Counted is from a quarter of the steps on, when random actions, demonstrations and
pretraining are over; nothing is evaluated meanwhile. The median of the rounds is compared.

    python benchmarks/learner_apart.py [--recipe arm_pick_place] [--steps 40000] [--rounds 3] [--json FILE]
        [more options of `rlstack train`]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlstack.bringup.bench import machine

VARIANTS: dict[str, tuple[int, bool]] = {
    "one process, one thread": (1, False),
    "one process, two threads": (2, False),
    "learner apart, one thread each": (1, True),
}
COUNTED_FROM = 0.25


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        return one(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="arm_pick_place")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options, more = parser.parse_known_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for round_ in range(options.rounds):
        for name, (threads, apart) in VARIANTS.items():
            words = [options.recipe, "--steps", str(options.steps), "--seed", str(100 + round_), *more]
            words += ["--threads", str(threads), "--algorithm-settings.apart", str(apart)]
            command = [sys.executable, __file__, "--one", json.dumps(words)]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[name].append(json.loads(said.splitlines()[-1]))
            print(f"round {round_ + 1}, {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    rates = {name: statistics.median(each["steps_per_s"] for each in runs) for name, runs in found.items()}
    first = next(iter(rates.values()))
    print(f"{options.recipe}, {options.steps} steps, {machine()}")
    print(f"{'':32}{'steps/s':>10}{'ratio':>8}{'each round':>28}")
    for name, rate in rates.items():
        each = ", ".join(f"{run['steps_per_s']:.0f}" for run in found[name])
        print(f"{name:32}{rate:10.0f}{rate / first:8.2f}{each:>28}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "runs": found}, indent=2) + "\n")
    return 0


def one(words: list[str]) -> int:
    """Train once, and print the rate as JSON."""
    from rlstack.training import run
    from rlstack.training.command import parse_recipe

    recipe = parse_recipe(words[0], words[1:]).recipe
    times: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as name:
        run.start(
            recipe,
            Path(name) / "run",
            lambda progress: times.append((time.monotonic(), progress.steps)),
            evaluate=False,
        )
    counted = [(at, steps) for at, steps in times if steps >= COUNTED_FROM * recipe.steps]
    (begun, first), (ended, last) = counted[0], counted[-1]
    figures: dict[str, Any] = {"steps_per_s": (last - first) / (ended - begun), "seconds": ended - begun}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
