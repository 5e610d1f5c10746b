#!/usr/bin/env python3
"""Say how soon a lidar robot sees unknown floors that a policy leads, beside frontier exploration on the same floors.

    python benchmarks/exploration_floors.py policies/base_exploration_floors/policy.onnx    # 60 held-out floors (8 min)
    python benchmarks/exploration_floors.py --tune                                           # which weight suits them

The robot drives in the batch simulator, with its limits, lag and lidar's noise, by the same planner whoever says where
to. Coverage is the share of the ground that it can get to, as its own map knows it. Each floor is explored by each, so
differences are paired; intervals are of 95%, by bootstrap over floors.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from exploration import interval, row, spans
from numpy.typing import NDArray

from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.grids.terrain import Floors
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.verification.exploration_trials import explore_floors
from rlstack.verification.trial_records import ExplorationRecord

Array = NDArray[np.float64]

PLANNER_NAMES = ("frontier_greedy", "frontier_utility")
TIMES = (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120)
WEIGHTS = (0.1, 0.25, 0.5, 1.0, 2.0)
REPORTING, TUNING = 100, 0
"""Seeds by which held-out floors are drawn; what is reported was never tuned on."""


def floors(seed: int, count: int) -> list[FloorMap]:
    """Return floors of all kinds in turn, as the task's."""
    return Floors().maps(np.random.default_rng((1, seed)), count, held_out=True)


def drives(name: str, robot: WheeledBase, maps: list[FloorMap], seconds: int, **options: Any) -> ExplorationRecord:
    """Return what one explorer saw, twelve robots at a time."""
    explorer = PLANNERS.load(name)(robot, **options)
    return ExplorationRecord.joined(
        [explore_floors(explorer, maps[k : k + 12], robot, duration_s=seconds) for k in range(0, len(maps), 12)]
    )


def report(found: Mapping[str, ExplorationRecord], seconds: int) -> dict[str, Any]:
    """Print the tables and return their figures."""
    rng, times = np.random.default_rng(0), [t for t in TIMES if t <= seconds]
    print(row("coverage after, s", [f"{t}" for t in times]))
    print("| --- |" + " --- |" * len(times))
    figures: dict[str, Any] = {"times": times}
    for name, driven in found.items():
        mean = driven.coverage.mean(axis=0)
        print(row(name, [f"{100 * mean[t]:.1f}" for t in times]))
        figures[name] = {"coverage": mean.round(4).tolist()}
    print()
    print(row("", ["s to 90%", "s to 95%", "median to 90%", "90% in time", "collided"]))
    print("| --- |" + " --- |" * 5)
    for name, driven in found.items():
        to_90, to_95 = driven.time_to(0.9), driven.time_to(0.95)
        low, high = interval(np.column_stack((to_90, to_95)), rng)
        done, hit = float((driven.coverage[:, -1] >= 0.9).mean()), float(driven.crashed.mean())
        cells = [
            f"{to_90.mean():.1f} ({low[0]:.1f} to {high[0]:.1f})",
            f"{to_95.mean():.1f} ({low[1]:.1f} to {high[1]:.1f})",
        ]
        print(row(name, [*cells, f"{np.median(to_90):.0f}", f"{100 * done:.1f}%", f"{100 * hit:.1f}%"]))
        figures[name] |= {"to_90": to_90.tolist(), "to_95": to_95.tolist(), "done": done, "collided": hit}
    if "policy" in found and len(found) > 1:
        compare(found, rng)
    return figures


def compare(found: Mapping[str, ExplorationRecord], rng: np.random.Generator) -> None:
    """Print how the policy is to the best planner at every time."""
    others = [driven for name, driven in found.items() if name != "policy"]
    curves = np.array([driven.coverage for driven in others])
    best = curves[curves.mean(axis=1).argmax(axis=0), :, np.arange(curves.shape[2])].T
    ahead = found["policy"].coverage - best
    low, high = interval(ahead, rng)
    mean, worst = ahead.mean(axis=0), int(ahead.mean(axis=0).argmin())
    soonest = min((driven.time_to(0.9) for driven in others), key=lambda seconds: float(seconds.mean()))
    mine = found["policy"].time_to(0.9)
    draws = rng.integers(0, len(mine), (1000, len(mine)))
    bounds = np.quantile(1.0 - mine[draws].mean(axis=1) / soonest[draws].mean(axis=1), (0.025, 0.975))
    print(
        f"\nAgainst the planner that is best at each time: the least lead is {100 * mean[worst]:.2f} points"
        f" ({100 * low[worst]:.2f} to {100 * high[worst]:.2f}), after {worst} s.\nBehind after"
        f" {spans(np.flatnonzero(mean < 0.0))} s, for sure after {spans(np.flatnonzero(high < 0.0))} s.\nTime to 90% is"
        f" {100 * (1.0 - mine.mean() / soonest.mean()):.1f}% less ({100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}) than"
        " the soonest planner's."
    )


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", nargs="?", type=Path, help="a policy file; without one only planners are shown")
    parser.add_argument("--robot", default="turtlebot3_burger")
    parser.add_argument("--floors", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=120, help="of every drive")
    parser.add_argument("--seed", type=int, default=REPORTING)
    parser.add_argument("--planners", nargs="*", default=list(PLANNER_NAMES), help="which of them, beside the policy")
    parser.add_argument("--options", type=json.loads, default={}, help="of explorer_policy, as JSON")
    parser.add_argument("--tune", action="store_true", help="try the utility planner's weights instead")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    robot = load_robot(arguments.robot)
    assert isinstance(robot, WheeledBase)
    start, found = time.process_time(), {}
    if arguments.tune:
        maps = floors(TUNING, arguments.floors)
        for weight in WEIGHTS:
            options = {"frontier": {"weight_m": weight}}
            found[f"weight_m {weight:g}"] = drives("frontier_utility", robot, maps, arguments.seconds, **options)
    else:
        maps = floors(arguments.seed, arguments.floors)
        if arguments.policy is not None:
            options = {"policy": str(arguments.policy), **arguments.options}
            found["policy"] = drives("explorer_policy", robot, maps, arguments.seconds, **options)
        for name in arguments.planners:
            found[name] = drives(name, robot, maps, arguments.seconds)
    figures = report(found, arguments.seconds)
    print(f"\n{len(maps)} floors, {time.process_time() - start:.0f} CPU-s.")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
