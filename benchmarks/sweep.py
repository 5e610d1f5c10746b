"""What a sweep costs beside its trainings, and whether one that is killed again and again loses or repeats a trial.

    python benchmarks/sweep.py [--trials 200] [--killed-trials 40] [--kills 50] [--jobs 2] [--ray] [--whole FOLDER]
        [--killed FOLDER] [--json FILE]

The trainings are as short as they get: hover, one iteration of 8 robots, 8 held-out episodes. First the sweep runs
undisturbed; then one of its first trials, with the same seed, is killed (SIGKILL) at random moments, its driver or one
of its trainings, and goes on with `--resume` each time. With --ray, the second one runs on a Ray cluster of this
machine, and Ray's own processes are killed, too: its workers, the raylet and the store of the cluster's state. Kills
are spread over the sweep: each waits until a number of trials is over, all numbers equally likely, and then for some
seconds, which may be those in which the sweep starts again. Its trials must have the same settings and the same
figures, each told once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.sweep.plan import read_plan
from rlstack.bringup.sweep.study import STUDY, Study
from rlstack.training.recipe import load_recipe, recipe_to_yaml
from rlstack.training.run_files import FIGURES

TICKS = os.sysconf("SC_CLK_TCK")
WAIT_S = 1.0, 10.0
"""From when a kill may come until it comes: some come while the sweep starts, most while a training runs."""
FAILURES = 3
"""Starts that may fail by themselves, such as Ray's on a machine that is too busy."""
VARY = ("learning_rate=log:1e-4:1e-2", "envs=8,16")


def start(folder: Path, trials: int, jobs: int, ray: bool = False) -> subprocess.Popen[bytes]:
    """Start a sweep, or go on with it."""
    words = [sys.executable, "-m", "rlstack", "sweep"]
    if (folder / "plan.json").is_file():
        words += ["--resume", str(folder), "--jobs", str(jobs)]
    else:
        words += [str(short_recipe(folder)), "--vary", *VARY]
        words += ["--trials", str(trials), "--tests", "0", "--jobs", str(jobs), "--out", str(folder)]
    words += ["--ray", "local"] if ray else []
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def short_recipe(folder: Path) -> Path:
    """Write a recipe whose trainings are as short as they get beside a sweep's folder, and return its file."""
    recipe = load_recipe("quadrotor_hover")
    recipe = replace(recipe, name="short", steps=512, selection=replace(recipe.selection, episodes=8))
    file = folder.with_suffix(".yaml")
    file.write_text(recipe_to_yaml(recipe))
    return file


def own_cpu_s(pid: int) -> float:
    """Return the processor time of a process, without its children's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def descendants(pid: int) -> list[tuple[str, int]]:
    """Return the processes that a process has started, and those that they have, each with what it is."""
    found, waiting = [], [pid]
    while waiting:
        try:
            one = waiting.pop()
            listed = [file.read_text() for file in Path(f"/proc/{one}/task").glob("*/children")]
            own = [int(word) for text in listed for word in text.split()]
            found += [
                (kind_of(Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")), child) for child in own
            ]
            waiting += own
        except OSError:  # it has just ended
            continue
    return found


def kind_of(command: str) -> str:
    """Return what a process is by its command."""
    if "\0train\0" in command:
        return "training"
    if command.startswith("ray::"):
        return "Ray's worker"
    return "Ray's own" if "/ray/" in command or "raylet" in command else "other"


def undisturbed(folder: Path, trials: int, jobs: int) -> dict[str, float]:
    """Run a sweep and return what it took."""
    begin, sweep, own = time.perf_counter(), start(folder, trials, jobs), 0.0
    ready = None
    while sweep.poll() is None:
        if Path(f"/proc/{sweep.pid}/stat").exists():
            own = own_cpu_s(sweep.pid)
        if ready is None and (folder / "trials").exists():
            ready = time.perf_counter()
        time.sleep(0.1)
    if sweep.returncode:
        raise RuntimeError(sweep.stderr.read().decode())  # type: ignore[union-attr]
    used = os.times()
    seconds = time.perf_counter() - begin
    return {
        "wall, s": seconds,
        "until the first trial, s": (ready or begin) - begin,
        "sweep's own CPU-s": own,
        "sweep's own CPU-s a trial": own / trials,
        "share of the trainings' CPU time": own / (used.children_user + used.children_system - own),
        "trainings' CPU-s": used.children_user + used.children_system - own,
    }


def killed(folder: Path, trials: int, jobs: int, kills: int, seed: int, ray: bool) -> dict[str, Any]:
    """Run a sweep, killing it, its trainings and Ray's processes; return how many of each, and when."""
    chance, begin = random.Random(seed), time.perf_counter()
    after = sorted(chance.randrange(trials) for _ in range(kills))
    done: dict[str, int] = {}
    over: list[int] = []
    sweep, since, starts = start(folder, trials, jobs, ray), 0, 1
    failed = 0
    due: float | None = None
    while True:
        if sweep.poll() is not None:
            if sweep.returncode == 0:
                return {
                    "killed": done,
                    "trials over at each kill": over,
                    "starts": starts,
                    "starts that failed by themselves": failed,
                    "wall, s": time.perf_counter() - begin,
                }
            if not since:  # nobody killed anything
                failed += 1
                said = sweep.stderr.read().decode()  # type: ignore[union-attr]
                print(said, file=sys.stderr, flush=True)
                if failed > FAILURES:
                    raise RuntimeError(said)
            sweep, since, starts = start(folder, trials, jobs, ray), 0, starts + 1
        now = len(list(folder.glob("trials/*/outcome.json")))
        if due is None and len(over) < kills and now >= after[len(over)]:
            due = time.monotonic() + chance.uniform(*WAIT_S)
        if due is not None and time.monotonic() > due:
            due, there = None, dict[str, list[int]]()
            for kind, pid in descendants(sweep.pid):
                there.setdefault(kind, []).append(pid)
            there.pop("other", None)
            kind = chance.choice(sorted(there)) if there and chance.random() < 0.7 else "driver"
            with suppress(ProcessLookupError):
                os.kill(chance.choice(there[kind]) if kind in there else sweep.pid, signal.SIGKILL)
                done[kind] = done.get(kind, 0) + 1
                over.append(now)
                since += 1
            print(f"{len(over)} kills, {now} trials over: {done}", file=sys.stderr, flush=True)
        time.sleep(0.05)


def told(folder: Path) -> dict[str, int]:
    """Return how many trials a sweep's study has drawn, and how many outcomes it knows."""
    plan = read_plan(folder)
    study = Study(folder / STUDY, plan.ranges, plan.search, plan.prune, plan.lower, plan.seed)
    return {"drawn": study.drawn, "told": study.told}


def trials_of(folder: Path) -> list[dict[str, Any]]:
    """Return the settings and figures of a sweep's trials, and all that their trainings' evaluations tell."""
    told = [json.loads(file.read_text()) for file in sorted((folder / "trials").glob("*/outcome.json"))]
    found = [{name: one[name] for name in ("number", "values", "state", "value", "each")} for one in told]
    for one in found:
        files = sorted((folder / "trials" / f"{one['number']:04d}").glob(f"*/{FIGURES}"))
        one["evaluations"] = [json.loads(file.read_text())["evaluation"] for file in files]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--killed-trials", type=int, default=40, help="of the sweep that is killed")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    parser.add_argument("--ray", action="store_true", help="the sweep that is killed runs on Ray")
    parser.add_argument("--whole", type=Path, help="keep the undisturbed sweep there, or take the one that is there")
    parser.add_argument("--killed", type=Path, help="keep the sweep that is killed there, or go on with it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {
        "machine": f"{platform.processor()}, {os.cpu_count()} processors",
        "trials": options.trials,
        "killed trials": options.killed_trials,
    }
    with tempfile.TemporaryDirectory() as place:
        whole, again = options.whole or Path(place) / "whole", options.killed or Path(place) / "again"
        if not (whole / "sweep.json").is_file():
            found["undisturbed"] = undisturbed(whole, options.trials, options.jobs)
            print(json.dumps(found, indent=2), flush=True)
        if options.kills:
            found["kills"] = killed(
                again, options.killed_trials, options.jobs, options.kills, options.seed, options.ray
            )
            ours, theirs = trials_of(again), trials_of(whole)[: options.killed_trials]
            found["study"] = told(again)
            found["the same trials"] = sum(a == b for a, b in zip(ours, theirs)) if len(ours) == len(theirs) else 0
            print(json.dumps(found, indent=2), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
