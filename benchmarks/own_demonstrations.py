#!/usr/bin/env python3
"""Say what a released policy of words is worth on an arm that does otherwise than its simulator, and after a few
demonstrations on that arm.

    python benchmarks/own_demonstrations.py --demonstrations 20 --seed 0 --trials 200

The arm turns horizontal motions by 30 degrees and makes 0.7 of each. Who demonstrates has got used to it: the scripted
expert's motions turned back and made larger, as far as the arm goes. Success is of held-out trials in the batch
simulator, before and after `rlstack train table_push_own`. The policy itself knows neither the turn nor the factor.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from rlstack.demonstrations import metadata, recording
from rlstack.kinds.manipulator.spec import load_manipulator
from rlstack.training import run
from rlstack.training.command import parse_recipe

YAW_RAD, GAIN = math.radians(30.0), 0.7
SHIFT = ["--task-settings.action-shift.yaw-rad", str(YAW_RAD), "--task-settings.action-shift.gain", str(GAIN)]


def used_to_it(station: recording.DemonstrationEnvironment) -> recording.Choice:
    """Return the action whose motion, turned and weakened, is the expert's, or has its direction at least."""
    wanted = np.array(station.expert(), dtype=np.float64)
    turned = np.array(
        [
            math.cos(YAW_RAD) * wanted[0] + math.sin(YAW_RAD) * wanted[1],
            math.cos(YAW_RAD) * wanted[1] - math.sin(YAW_RAD) * wanted[0],
            wanted[2],
        ]
    )
    action = turned / GAIN
    return recording.Choice(action / max(1.0, float(np.abs(action).max())))


def main() -> None:
    """Record, train and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demonstrations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of demonstrations and training")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True, help="folder for the dataset and the run")
    options, more = parser.parse_known_args()
    dataset = options.out / "shown"
    if not dataset.exists():
        settings = {"rewards": "sparse", "action_shift": {"yaw_rad": YAW_RAD, "gain": GAIN}}
        task = metadata.task_called("table_push", settings, "")
        begun = time.process_time()
        recording.record(
            dataset,
            "table_push",
            task,
            load_manipulator("panda"),
            used_to_it,
            options.demonstrations,
            seed=options.seed,
        )
        print(f"{options.demonstrations} demonstrations, {time.process_time() - begun:.0f} CPU-s.", flush=True)
    trials = ["--selection.episodes", str(options.trials), "--seed", str(options.seed)]
    words = ["--algorithm-settings.dataset", str(dataset), *SHIFT, *trials, *more]
    for name, further in (("before", ["--steps", "640", "--algorithm-settings.learning-rate", "1e-12"]), ("after", [])):
        recipe = parse_recipe("table_push_own", [*words, *further]).recipe
        result = run.start(recipe, options.out / name)
        print(
            f"{name}: success {100.0 * result.evaluation['success']:.1f}% of {options.trials},"
            f" {result.cpu_seconds:.0f} CPU-s.",
            flush=True,
        )


if __name__ == "__main__":
    main()
