#!/usr/bin/env python3
"""Say how soon a policy sees unknown ground, beside frontier planners on the same terrains, in MarsExplorer's setting.

    python benchmarks/exploration.py policies/base_exploration/policy.onnx      # 1,000 held-out terrains (2 min)
    python benchmarks/exploration.py --tune                                     # which power suits the utility planner
    python benchmarks/exploration.py POLICY ... --seeds 100 --episodes 100 --json FILE   # one or several

Coverage is the share of the cells that are known, as a share of what ends an episode (95% of them); who is done stays
at all of it. Each terrain is explored by each, so differences are paired; intervals are of 95%, by bootstrap over
terrains.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.policies import load_policy
from rlstack.sim.grids.simulator import MOVES, allowed_moves
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.exploration_trials import explore_grids
from rlstack.verification.runner import Driver
from rlstack.verification.trial_records import ExplorationRecord

REPORTING, TUNING = range(100, 105), range(10)
"""Seeds of held-out terrains; what is reported was never tuned on."""

POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
PLANNERS = ("frontier, nearest", "frontier, utility", "frontier, MarsExplorer's")


class RandomWalk:
    """Moves to any free cell beside its own."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def reset(self, batch: int = 1) -> None:
        """Do nothing: there is nothing to forget."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the middle of the next cell."""
        seen, size, origin = inputs["map"], inputs["map_resolution"], inputs["map_origin"][:, :2]
        place = np.floor((inputs["position"][:, :2] - origin) / size).astype(np.intp)
        allowed = allowed_moves(seen == 0.0, place[:, 1] * seen.shape[2] + place[:, 0])
        choice = np.where(allowed, self._rng.random(allowed.shape), -1.0).argmax(axis=1)
        place = place + np.where(allowed.any(axis=1, keepdims=True), np.array(MOVES)[choice], 0)
        return {"waypoint": np.column_stack((origin + (place + 0.5) * size, np.zeros(len(place))))}


def explorers(policies: list[Path]) -> dict[str, Driver]:
    """Return who explores, by name."""
    settings = {"greedy": PLANNERS[0], "utility": PLANNERS[1], "published": PLANNERS[2]}
    found: dict[str, Driver] = {}
    for path in policies:
        policy = load_policy(path)
        found[f"policy, seed {policy.contract.training.get('seed', '?')}" if policies[1:] else "policy"] = policy
    for choice, name in settings.items():
        found[name] = GridFrontier(GridFrontierSettings(choice=choice))  # type: ignore[arg-type]
    return {**found, "random walk": RandomWalk()}


def run(explorer: Driver, expedition: ExplorationSetting, seeds: range | list[int], episodes: int) -> ExplorationRecord:
    """Return what was seen of the terrains of all seeds together."""
    parts = [explore_grids(explorer, expedition, expedition.held_out(seed, episodes)) for seed in seeds]
    return ExplorationRecord.joined(parts)


def interval(samples: Array, rng: np.random.Generator, draws: int = 1000) -> tuple[Array, Array]:
    """Return the bounds (M,) of the mean of samples (N, M) over N."""
    weights = rng.multinomial(len(samples), np.full(len(samples), 1.0 / len(samples)), draws) / len(samples)
    low, high = np.quantile(weights @ samples, (0.025, 0.975), axis=0)
    return low, high


def row(name: str, cells: list[str]) -> str:
    """Return one line of a table."""
    return f"| {name} | " + " | ".join(cells) + " |"


def report(found: Mapping[str, ExplorationRecord], expedition: ExplorationSetting) -> dict[str, Any]:
    """Print the tables and return their figures."""
    rng = np.random.default_rng(0)
    times = [5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 200, expedition.steps]
    times = [t for t in times if t <= expedition.steps]
    print(row("coverage after", [f"{t}" for t in times]))
    print("| --- |" + " --- |" * len(times))
    figures: dict[str, Any] = {"times": times}
    for name, explored in found.items():
        mean = explored.normalized().coverage.mean(axis=0)
        print(row(name, [f"{100 * mean[t]:.1f}" for t in times]))
        figures[name] = {"coverage": [round(float(mean[t]), 4) for t in times]}
    print()
    print(row("", ["steps to 90%", "steps to more than 95%", "median to 90%", "done in time", "crashed"]))
    print("| --- |" + " --- |" * 5)
    for name, explored in found.items():
        to_90, to_95 = explored.time_beyond(0.9), explored.time_beyond(0.95)
        low, high = interval(np.column_stack((to_90, to_95)), rng)
        done, crashed = float(explored.done.mean()), float(explored.crashed.mean())
        cells = [
            f"{to_90.mean():.1f} ({low[0]:.1f} to {high[0]:.1f})",
            f"{to_95.mean():.1f} ({low[1]:.1f} to {high[1]:.1f})",
        ]
        print(row(name, [*cells, f"{np.median(to_90):.0f}", f"{100 * done:.1f}%", f"{100 * crashed:.1f}%"]))
        figures[name] |= {"to_90": float(to_90.mean()), "to_95": float(to_95.mean()), "done": done, "crashed": crashed}
    for name in found:
        if name.startswith("policy"):
            figures[name]["against"] = compared(name, found, rng)
    return figures


def compared(name: str, found: Mapping[str, ExplorationRecord], rng: np.random.Generator) -> dict[str, Any]:
    """Print how a policy is to the best planner at every time, and return it."""
    policy = found[name]
    curves = {name: found[name].normalized().coverage for name in PLANNERS}
    means = np.array([curve.mean(axis=0) for curve in curves.values()])
    best = np.array(list(curves.values()))[means.argmax(axis=0), :, np.arange(means.shape[1])].T
    ahead = policy.normalized().coverage - best
    low, high = interval(ahead, rng)
    mean, worst = ahead.mean(axis=0), int(ahead.mean(axis=0).argmin())
    soonest = min((found[name].time_beyond(0.9) for name in PLANNERS), key=lambda steps: float(steps.mean()))
    share = 1.0 - policy.time_beyond(0.9).mean() / soonest.mean()
    draws = rng.integers(0, len(soonest), (1000, len(soonest)))
    shares = 1.0 - policy.time_beyond(0.9)[draws].mean(axis=1) / soonest[draws].mean(axis=1)
    bounds = np.quantile(shares, (0.025, 0.975))
    behind = np.flatnonzero(mean < 0.0)
    sure = np.flatnonzero(low <= 0.0)
    print(
        f"\n{name}, against the planner that is best at each time: the least lead is {100 * mean[worst]:.2f} points of"
        f" coverage ({100 * low[worst]:.2f} to {100 * high[worst]:.2f}), after {worst} steps.\nBehind after"
        f" {spans(behind)} steps, by more than the interval after {spans(np.flatnonzero(high < 0.0))}; not surely ahead"
        f" after {spans(sure)}.\nTime to 90% is {100 * share:.1f}% less"
        f" ({100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}) than the soonest planner's."
    )
    return {"least_lead": float(mean[worst]), "behind": behind.tolist(), "less_time_to_90": float(share)}


def spans(steps: NDArray[np.intp]) -> str:
    """Return numbers as text, such as ``0 to 4, 200``."""
    groups = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1) if len(steps) else []
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else f"{g[0]}" for g in groups) or "no"


def tune(expedition: ExplorationSetting, episodes: int) -> None:
    """Print how each power of the utility planner does on the tuning seeds."""
    print(row("power", ["steps to 90%", "mean coverage in 100 steps"]))
    print("| --- | --- | --- |")
    for power in POWERS:
        planner = GridFrontier(GridFrontierSettings(choice="utility", power=power))
        explored = run(planner, expedition, TUNING, episodes)
        print(
            row(
                f"{power:g}",
                [f"{explored.time_beyond(0.9).mean():.1f}", f"{explored.normalized().coverage[:, :100].mean():.4f}"],
            )
        )


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="*", type=Path, help="policy files; without one only planners are shown")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(REPORTING))
    parser.add_argument("--episodes", type=int, default=200, help="terrains of each seed")
    parser.add_argument("--tune", action="store_true", help="try the utility planner's settings instead")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    expedition = ExplorationSetting()
    if arguments.tune:
        tune(expedition, max(1, arguments.episodes // 10))
        return
    start, found = time.process_time(), {}
    for name, explorer in explorers(arguments.policies).items():
        found[name] = run(explorer, expedition, arguments.seeds, arguments.episodes)
    figures = report(found, expedition)
    print(f"\n{len(arguments.seeds) * arguments.episodes} terrains, {time.process_time() - start:.0f} CPU-s.")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
