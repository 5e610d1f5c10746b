#!/usr/bin/env python3
"""Wheeled bases under what simulators leave out: policies, and a planner, at fixed departures of the reality grid.

Every policy drives the same held-out episodes of its task in the batch simulator: base_navigation on cluttered maps,
base_crowd in CrowdNav's crossings. Each row departs in one thing, which no driver is told; ``rlstack verify`` searches
the margins of the same axes. With several policies, such as the seeds of a recipe, a row shows their mean and range.

    python benchmarks/base_reality.py POLICY [POLICY ...] [--planner dwa] [--episodes 500] [--ways 50] [--seed 0]
        [--only KEY ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.verification_crowd import CROWDNAV, course_of
from rlstack.kinds.wheeled_base.verification_reality import crowd_axes, navigation_axes
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.navigation_trials import drive
from rlstack.verification.reality import Axis, Conditions
from rlstack.verification.runner import take

MORE = {
    "mover_speed_m_s": (0.25, 0.5, 1.0),
    "people_delay_s": (0.25,),
    "odometry_drift_share": (0.03,),
    "odometry_jump_m": (0.15,),
    "scan_blind_m": (0.31,),
}
"""Values beside the required ones, by axis."""


@dataclass(frozen=True)
class Setting:
    """Task, robot, episodes and axes."""

    conditions: Conditions
    axes: tuple[Axis, ...]
    rate_hz: float
    arrival_m: float


def setting_of(policy: Path, episodes: int, seed: int) -> Setting:
    """Return the setting that fits a policy file."""
    contract = load_policy(policy).contract
    robot: Any = load_robot(contract.robot)
    if "scan" in {port.name for port in contract.inputs}:
        trials = held_out_episodes(robot, episodes, seed, kinds=("clutter",))
        trials = trials.take(np.random.default_rng(seed).permutation(episodes))
        return Setting(Conditions(trials=trials, robot=robot), navigation_axes(robot, 10.0), 10.0, 0.2)
    trials = course_of(CROWDNAV, robot, episodes, seed)
    axes = crowd_axes(robot, CROWDNAV.rate_hz, False, 1.0)
    return Setting(Conditions(trials=trials, robot=robot), axes, CROWDNAV.rate_hz, CROWDNAV.arrival_m)


def rows_of(setting: Setting, only: list[str] | None) -> list[tuple[str, Axis | None, float]]:
    """Return label, axis and value of each row; the first departs in nothing."""
    rows: list[tuple[str, Axis | None, float]] = [("nominal", None, 0.0)]
    for axis in setting.axes:
        required = () if axis.required is None else (axis.required,)
        for value in dict.fromkeys((*required, *MORE.get(axis.key, ()))):
            rows.append((f"{axis.title} {axis.text(value)}", axis, value))
    return [row for row in rows if only is None or (row[1].key if row[1] else "nominal") in only]


def result(driver: Any, setting: Setting, axis: Axis | None, value: float, count: int, seed: int) -> dict[str, float]:
    """Return the shares of endings, and the time of those that arrive, under one departure."""
    some = Conditions(trials=take(setting.conditions.trials, 0, count), robot=setting.conditions.robot)
    here = some if axis is None else axis.apply(value, some)
    options = {"rate_hz": setting.rate_hz, "arrival_m": setting.arrival_m, "seed": seed}
    record = drive(driver, here.trials, here.robot, departures=here.departures, batch_size=250, **options)
    there = record.ending == "arrived"
    shares = {
        name: float((record.ending == word).mean()) for name, word in (("hit", "collided"), ("late", "timed out"))
    }
    time_s = float(record.time_s[there].mean()) if there.any() else float("nan")
    return {"success": float(there.mean()), **shares, "time_s": time_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+", type=Path)
    parser.add_argument("--planner", help="a planner beside them, such as dwa or orca")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--ways", type=int, default=50, help="episodes of the planner, the first ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="keys of axes, or nominal")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    setting = setting_of(chosen.policies[0], chosen.episodes, chosen.seed)
    robot = setting.conditions.robot
    policies = [load_policy(path, robot=robot) for path in chosen.policies]
    people = {"people": True} if chosen.planner in ("dwa", "astar_dwa") and "scan" not in robot.lidars else {}
    planner = PLANNERS.load(chosen.planner)(robot, **people) if chosen.planner else None
    more = f" {chosen.planner}: success, hit |" if planner else ""
    print(f"| departure | success (range) | hit | late | time s |{more}")
    print("| --- | --- | --- | --- | --- |" + (" --- |" if planner else ""))
    found = []
    for label, axis, value in rows_of(setting, chosen.only):
        each = [result(policy, setting, axis, value, chosen.episodes, chosen.seed) for policy in policies]
        mean = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
        low, high = (f([one["success"] for one in each]) for f in (min, max))
        line = f"| {label} | {mean['success']:.1%} ({low:.1%} to {high:.1%}) | {mean['hit']:.1%} | {mean['late']:.1%}"
        line += f" | {mean['time_s']:.1f} |"
        row: dict[str, Any] = {"departure": label, "key": axis and axis.key, "value": value, "policies": each}
        if planner is not None:
            row["planner"] = beside = result(planner, setting, axis, value, chosen.ways, chosen.seed)
            line += f" {beside['success']:.1%}, {beside['hit']:.1%} |"
        print(line, flush=True)
        found.append(row)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
