#!/usr/bin/env python3
"""How arms learn: success on held-out trials against environment steps and CPU-seconds, of recipes and of
stable-baselines3's SAC with hindsight (HER) on the same task, over several seeds, each on one thread.

    python benchmarks/arm_learning.py --out runs/arm_learning                      # arm_pick_place and arm_push
    python benchmarks/arm_learning.py "RLPD = arm_insert" \\
        "HIL-SERL = arm_insert_interventions" --out runs/insert
    python benchmarks/arm_learning.py "RLPD = arm_push --steps 100000" --out runs/short --seeds 100
    python benchmarks/arm_learning.py --out runs/her "sb3:arm_push steps=400000 demonstrations=20 batch_size=512"

An entry is [LABEL =] RECIPE [options of `rlstack train`], or [LABEL =] sb3:RECIPE [setting=value ...]: task, robot,
robots at once, updates for each step, widths of the networks, batch, discount, rates and evaluations are the recipe's,
all else is stable-baselines3's default. Settings are any of its SAC's, and steps, cpu_s (of learning, at most),
updates, demonstrations (episodes of the scripted expert in its buffer before it begins), future (its n_sampled_goal),
every and after (of evaluations, shares of the run).

Curves are of evaluations while it learns (the recipe's `selection`; their CPU-seconds do not count); the best policy
by these then does other trials that nothing has seen. `steps to` is where two evaluations in a row, or the last one,
are at least as good as asked; `led` counts steps in which an intervener acted. Everything is kept in the folder, so a
run that was stopped goes on where it was: with --cpu-s N this ends by itself after about so many CPU-seconds, with
status 75.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlstack.bringup.bench import machine
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.training.run_folder import recipe_of

ENTRIES = [
    f"{label} = {words.format(task)}"
    for task in ("arm_pick_place", "arm_push")
    for label, words in {
        "RLPD, 20 demonstrations": "{} --selection.every 0.05 --selection.after 0.05",
        "SAC + HER (stable-baselines3), the same 20": "sb3:{} demonstrations=20 cpu_s=450 every=0.05 after=0.05",
    }.items()
]
TRIALS_SEED = 500_000
"""Of the last trials; those that training is judged by while it goes on have 10,000."""
PAUSED = 75
"""Status when there is more to do."""
SB3 = "sb3:"


@dataclass(frozen=True)
class Entry:
    """What learns: its label, its recipe's name and the words after that."""

    label: str
    recipe: str
    words: tuple[str, ...]
    peer: bool


def entry(text: str) -> Entry:
    """Return what an entry says; see the module."""
    label, sign, rest = text.partition(" = ")
    words = shlex.split(rest if sign else text)
    if not words:
        raise UserError(f"'{text}' is no entry: write [LABEL =] RECIPE [options].")
    peer = words[0].startswith(SB3)
    recipe = words[0].removeprefix(SB3)
    return Entry(label.strip() if sign else words[0], recipe, tuple(words[1:]), peer)


def settings_of(words: tuple[str, ...]) -> dict[str, Any]:
    """Return settings written as name=value."""
    found = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise UserError(f"'{word}' is no setting of stable-baselines3's SAC: write name=value.")
        found[name] = yaml.safe_load(text)
    return found


def slug(one: Entry, seed: int) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", f"{one.recipe}-{one.label}".lower()).strip("_")
    return f"{words}-{seed}"


def enough(evaluations: list[dict[str, float]], asked: float) -> dict[str, float] | None:
    """Return the first of two evaluations in a row, or the last one, that are at least as good as asked."""
    for number, now in enumerate(evaluations):
        if now["success"] >= asked and (number + 1 == len(evaluations) or evaluations[number + 1]["success"] >= asked):
            return now
    return None


def measured(one: Entry, seed: int, folder: Path, trials: int, stop_at: float) -> dict[str, Any] | None:
    """Train and try one entry with one seed; None: it is to be gone on with.

    Raises:
        UserError: The folder holds a run with other settings.
    """
    from rlstack.training.command import parse_recipe

    file = folder.with_name(folder.name + ".json")
    options = () if one.peer else one.words
    recipe = parse_recipe(one.recipe, ("--seed", str(seed), "--threads", "1", *options)).recipe
    asked = {"recipe": one.recipe, "words": list(one.words), "seed": seed, "trials": trials}
    if file.is_file():
        kept: dict[str, Any] = json.loads(file.read_text())
        if kept["asked"] == asked:
            return kept
        raise UserError(f"{file} is of other settings than those that are asked for: choose another --out.")
    learn = _peer if one.peer else _own
    found = learn(recipe, settings_of(one.words) if one.peer else {}, folder, trials, stop_at)
    if found is None:
        return None
    row = {"asked": asked, "label": one.label, "task": recipe.task, **found}
    write_atomically(file, json.dumps(row, indent=1) + "\n")
    return row


def _own(recipe: Any, _: Any, folder: Path, trials: int, stop_at: float) -> dict[str, Any] | None:
    from rlstack.data.replay import ReplayReader
    from rlstack.policies import load_policy
    from rlstack.training import run
    from rlstack.training.hindsight_replay import INTERVENTIONS
    from rlstack.training.recipe import recipe_to_yaml

    def watch(progress: run.Progress) -> None:
        if time.process_time() > stop_at:
            raise KeyboardInterrupt

    if (folder / run.FIGURES).is_file() and json.loads((folder / run.FIGURES).read_text())["finished"]:
        done = json.loads((folder / run.FIGURES).read_text())
    else:
        if (folder / run.RECIPE).is_file():
            if recipe_to_yaml(recipe_of(folder)) != recipe_to_yaml(recipe):
                raise UserError(f"{folder} was begun with other settings: choose another --out.")
            result = run.resume(folder, watch)
        else:
            result = run.start(recipe, folder, watch)
        if not result.finished:
            return None
        done = json.loads((folder / run.FIGURES).read_text())
    policy = load_policy(Path(done["policy"]))
    led = folder / INTERVENTIONS
    return {
        "evaluations": [_point(one) for one in done["evaluations"]],
        "learning_cpu_s": round(done["cpu_seconds"] - done["evaluation_cpu_seconds"], 1),
        "steps": done["steps"],
        "led": len(ReplayReader(led)) if led.is_dir() else 0,
        "trials": tried(policy, recipe, trials),
    }


def _peer(recipe: Any, settings: dict[str, Any], folder: Path, trials: int, stop_at: float) -> dict[str, Any] | None:
    from arm_curves.sb3 import Run

    run = Run(recipe, settings, folder)
    if not run.learn(stop_at):
        return None
    return {
        "evaluations": [_point(one) for one in run.evaluations],
        "learning_cpu_s": round(run.cpu_s, 1),
        "steps": int(run.learner.num_timesteps),
        "led": 0,
        "trials": tried(run.policy(), recipe, trials),
    }


def _point(evaluation: dict[str, float]) -> dict[str, float]:
    return {name: float(evaluation[name]) for name in ("step", "cpu_seconds", "success")}


def tried(policy: Any, recipe: Any, trials: int) -> dict[str, float]:
    """Return how a policy does held-out trials."""
    from rlstack.robots import load_robot
    from rlstack.verification.manipulation_trials import held_out, manipulate

    task = recipe.task_settings
    robot = task.reference(load_robot(recipe.robot))
    return manipulate(
        policy, task, robot, held_out(task, robot, trials, TRIALS_SEED), batch_size=trials, threads=1
    ).figures()


def table(rows: list[dict[str, Any]], asked: float) -> str:
    """Return a line for each run, and for entries of several seeds one of their medians."""
    title = f"steps to {asked:.0%}"
    lines = [f"{'':44}{'seed':>7}{'success':>9}{title:>15}{'CPU-s to it':>13}{'steps':>9}{'CPU-s':>8}{'led':>8}"]
    for name in dict.fromkeys((row["task"], row["label"]) for row in rows):
        same = [row for row in rows if (row["task"], row["label"]) == name]
        reached = [enough(row["evaluations"], asked) for row in same]
        for row, first in zip(same, reached):
            to = ("-", "-") if first is None else (f"{first['step']:,.0f}", f"{first['cpu_seconds']:.0f}")
            lines.append(
                f"{name[0] + ': ' + name[1]:44.44}{row['asked']['seed']:7}{row['trials']['success']:9.1%}{to[0]:>15}"
                f"{to[1]:>13}{row['steps']:9,}{row['learning_cpu_s']:8.0f}{row['led']:8,}"
            )
        if len(same) > 1:
            middle = statistics.median(row["trials"]["success"] for row in same)
            every = [first["step"] for first in reached if first is not None]
            steps = f"{statistics.median(every):,.0f}" if len(every) == len(same) else "-"
            lines.append(f"{name[0] + ': ' + name[1]:44.44}{'median':>7}{middle:9.1%}{steps:>15}")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw the curves: a row for each task, against environment steps and against CPU-seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, axes = pyplot.subplots(len(tasks), 2, figsize=(11, 3.6 * len(tasks)), squeeze=False, layout="constrained")
    for task, (left, right) in zip(tasks, axes):
        labels = list(dict.fromkeys(row["label"] for row in rows if row["task"] == task))
        for number, label in enumerate(labels):
            same = [row for row in rows if (row["task"], row["label"]) == (task, label)]
            for axis, key in ((left, "step"), (right, "cpu_seconds")):
                points = list(zip(*(row["evaluations"] for row in same)))
                for row in same:
                    curve = [(point[key], 100 * point["success"]) for point in row["evaluations"]]
                    axis.plot(*zip(*curve), color=f"C{number}", linewidth=0.8, alpha=0.4)
                middle = [
                    [statistics.median(one[name] for one in point) for name in (key, "success")] for point in points
                ]
                axis.plot(
                    [at for at, _ in middle],
                    [100 * good for _, good in middle],
                    color=f"C{number}",
                    linewidth=2.0,
                    label=label,
                )
        left.set(title=task, xlabel="environment steps", ylabel="held-out success, %", ylim=(0, 101))
        right.set(title=task, xlabel="CPU-seconds of learning", ylim=(0, 101))
        for axis in (left, right):
            axis.grid(alpha=0.3)
            axis.axhline(95, color="grey", linewidth=0.8, linestyle=":")
        left.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", default=ENTRIES, metavar="ENTRY")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs, curves.png and figures.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    parser.add_argument("--trials", type=int, default=500, help="held-out ones of each policy at the end")
    parser.add_argument("--asked", type=float, default=0.95, help="success that is asked for")
    parser.add_argument("--cpu-s", type=float, default=float("inf"), help="end after about so many CPU-seconds")
    options = parser.parse_args()
    entries = [entry(text) for text in options.entries or ENTRIES]
    rows, paused = [], False
    for seed in options.seeds:
        for one in entries:
            row = None
            if time.process_time() < options.cpu_s:
                row = measured(one, seed, options.out / slug(one, seed), options.trials, options.cpu_s)
            else:  # what is there is shown all the same
                file = options.out / f"{slug(one, seed)}.json"
                row = json.loads(file.read_text()) if file.is_file() else None
            if row is None:
                paused = True
            else:
                rows.append(row)
    if rows:
        print(table(rows, options.asked))
        options.out.mkdir(parents=True, exist_ok=True)
        found = {"machine": machine(), "asked": options.asked, "runs": rows}
        write_atomically(options.out / "figures.json", json.dumps(found, indent=1) + "\n")
        draw(rows, options.out / "curves.png")
    if paused:
        print(f"There is more to do: call this again to go on in {options.out}.", file=sys.stderr)
    return PAUSED if paused else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"arm_learning: {error}")
