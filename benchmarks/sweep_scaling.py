#!/usr/bin/env python3
"""Trials a minute of a sweep on one core and on several, in local processes and on a Ray cluster of this machine.

The same trainings of hover each time, as many for each core, one thread each. All of a sweep's processes, and Ray's,
share the cores that it is given (by CPU affinity). Counted is from the first trial's recipe to the last one's outcome:
without the start of the sweep and of Ray. Needs a machine without other work: its load before each sweep is told.

    python benchmarks/sweep_scaling.py [--cores 1 2] [--trials 4] [--steps 200000] [--rounds 3] [--no-ray] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.bench import machine
from rlstack.training.recipe import load_recipe, recipe_to_yaml


def trials_per_minute(recipe: Path, cores: int, trials: int, ray: bool) -> float:
    """Run a sweep of ``trials`` trainings for each core, and return its rate."""
    with tempfile.TemporaryDirectory() as place:
        folder, count = Path(place) / "sweep", cores * trials
        words = [sys.executable, "-m", "rlstack", "sweep", str(recipe), "--vary", "learning_rate=log:1e-3:1e-2"]
        words += ["--trials", str(count), "--tests", "0", "--search", "random", "--jobs", str(cores)]
        words += ["--out", str(folder), *(("--ray", "local") if ray else ())]
        given = sorted(os.sched_getaffinity(0))[:cores]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, given))
        begun = min(file.stat().st_mtime for file in folder.glob("trials/*/seed-*.yaml"))
        ended = [file.stat().st_mtime for file in folder.glob("trials/*/outcome.json")]
        if len(ended) != count:
            raise RuntimeError(f"{len(ended)} of {count} trials have an outcome.")
        return 60.0 * count / (max(ended) - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--trials", type=int, default=4, help="for each core")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ways = {"local": False} | ({} if options.no_ray else {"Ray": True})
    found: dict[str, dict[int, list[float]]] = {name: {cores: [] for cores in options.cores} for name in ways}
    with tempfile.TemporaryDirectory() as place:
        recipe = Path(place) / "hover.yaml"
        plain: Any = load_recipe("quadrotor_hover")
        selection = replace(plain.selection, episodes=100, after=1.0)
        recipe.write_text(recipe_to_yaml(replace(plain, steps=options.steps, threads=1, selection=selection)))
        for round_ in range(options.rounds):
            for name, ray in ways.items():
                for cores in options.cores:
                    load = os.getloadavg()[0]
                    rate = trials_per_minute(recipe, cores, options.trials, ray)
                    found[name][cores].append(rate)
                    said = f"{name}, {cores} cores: {rate:.2f} trials a minute (load before {load:.1f})"
                    print(f"round {round_ + 1}, {said}", file=sys.stderr, flush=True)
    print(f"quadrotor_hover, {options.steps} steps, {machine()}")
    print(f"{'':8}{'cores':>6}{'trials/min':>12}{'of linear':>11}")
    for name, by_cores in found.items():
        first = min(by_cores)
        one = statistics.median(by_cores[first]) / first
        for cores, rates in by_cores.items():
            rate = statistics.median(rates)
            print(f"{name:8}{cores:6}{rate:12.2f}{rate / (cores * one):11.1%}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rates": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
