#!/usr/bin/env python3
"""Train quadrotor_hover with several seeds and fly each policy file from 1,000 held-out starts of the published task.

Every seed is a process of its own on one thread, one after the other, so that its CPU-seconds (user and system) are its
own: set-up (imports, kernels, environment), learning, evaluation (choosing the best policy), export. The starts are
neither those that training drew nor those that its best policy was chosen on. Learning to Fly in Seconds, by its own
program on the same kind of machine: 30 CPU-seconds, 0 to 86% within 0.2 m, 7 to 23% lost.

    python benchmarks/hover_training.py [--seeds 0 1 2 3 4] [--episodes 1000] [--recipe quadrotor_hover] [--cold]
        [--json FILE] [more options of `rlstack train`]

With --cold every seed compiles its kernels anew; otherwise they are taken from this user's cache where they are there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rlstack.bringup.bench import machine
from rlstack.bringup.measured_process import measure_training
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.tasks import TASKS
from rlstack.training.benchmarks.policy import held_out

COLUMNS = {
    "set-up": ("setup_cpu_s", "8.1f"),
    "learning": ("learning_cpu_s", "10.1f"),
    "evaluation": ("evaluation_cpu_s", "12.1f"),
    "export": ("export_cpu_s", "8.1f"),
    "wall s": ("wall_s", "8.1f"),
    "< 0.2 m": ("success", "10.1%"),
    "< 0.1 m": ("within_0_1", "10.1%"),
    "lost": ("lost", "8.1%"),
    "error m": ("error_m", "10.3f"),
    "recover s": ("recover_s", "11.2f"),
    "farthest m": ("excursion_max_m", "12.2f"),
}
"""Title, key and format of what is printed; the first four are CPU-seconds."""


def measure(recipe: str, seed: int, episodes: int, folder: Path, cold: bool, extra: list[str]) -> dict[str, Any]:
    """Train one seed and return its figures."""
    cache = folder / f"kernels-{seed}" if cold else None
    trained = measure_training(recipe, seed, folder / f"seed-{seed}", extra, cache)
    policy = load_policy(Path(trained.pop("policy")))
    robot = load_quadrotor(policy.contract.robot)
    task = TASKS.load(policy.contract.task)()
    flown = held_out(policy, task, robot, episodes)
    return {**trained, **{name: value for name, value in flown.items() if name != "cpu_s"}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--recipe", default="quadrotor_hover")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json")
    options, extra = parser.parse_known_args()
    print(f"{'seed':>6}" + "".join(f"{title:>{_width(form)}}" for title, (_, form) in COLUMNS.items()))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            rows.append(measure(options.recipe, seed, options.episodes, Path(folder), options.cold, extra))
            print_row(str(seed), rows[-1])
    if len(rows) > 1:
        for name, reduce in {"median": statistics.median, "least": min, "most": max}.items():
            columns = {key: [row[key] for row in rows if row[key] is not None] for key, _ in COLUMNS.values()}
            print_row(name, {key: reduce(values) if values else None for key, values in columns.items()})
    if options.json:
        found = {"machine": machine(), "cold": options.cold, "options": extra, "seeds": rows}
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")


def print_row(name: str, row: dict[str, Any]) -> None:
    """Print one line of the table; None is a figure without bound."""
    cells = [f"{'-':>{_width(form)}}" if row[key] is None else f"{row[key]:{form}}" for key, form in COLUMNS.values()]
    print(f"{name:>6}" + "".join(cells), flush=True)


def _width(form: str) -> int:
    return int(form.partition(".")[0])


if __name__ == "__main__":
    main()
