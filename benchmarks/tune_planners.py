#!/usr/bin/env python3
"""Tune the classical planners fairly, and say how well they drive.

Settings are searched around the best so far, every fourth try anywhere, for the least mean cost of drives on training
maps: the time taken over the shortest way at full speed, 4 for a contact and 3.5 for a goal not reached in time. All
candidates drive the same maps; who is far behind after the first third of them is left. What is reported comes from
held-out maps, which no seed of the search can draw.

    python benchmarks/tune_planners.py                          # report the settings that the planners carry
    python benchmarks/tune_planners.py --tune 40                # search first, from those
    python benchmarks/tune_planners.py --planner dwa --robot husky --maps 200 --json FILE
    python benchmarks/tune_planners.py --known                  # astar_dwa with the true map given beforehand
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.control.navigation import PLANNERS
from rlstack.control.navigation.occupancy import Field
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.parameters import drawn
from rlstack.sim.maps.generate import TRAINING_SEEDS
from rlstack.sim.maps.occupancy_grid import occupancy
from rlstack.sim.maps.pool import build_pool
from rlstack.verification.navigation_episodes import NavigationEpisodes, held_out_episodes
from rlstack.verification.navigation_trials import drive
from rlstack.verification.trial_records import NavigationRecord

KINDS = ("clutter", "rooms", "corridors", "doorways", "dead_ends", "mazes")
ARRIVAL_M = 0.2
"""As the task base_navigation has it."""

DWA = {
    "dwa.horizon_s": (1.5, 3.5),
    "dwa.goal": (1.0, 10.0),
    "dwa.heading": (0.1, 3.0),
    "dwa.clearance": (0.1, 4.0),
    "dwa.safe": (0.5, 4.0),
    "dwa.collision": (0.3, 5.0),
    "dwa.speed": (0.05, 2.0),
    "dwa.smooth": (0.01, 1.0),
    "dwa.margin": (0.05, 0.5),
}
PATH = {
    "path.lookahead_s": (1.5, 5.0),
    "path.costs.fade": (0.5, 4.0),
    "path.costs.near": (0.5, 12.0),
    "path.costs.unknown": (0.1, 3.0),
    "path.costs.margin": (0.05, 0.5),
}
ORCA = {
    "orca.fixed_horizon_s": (0.3, 3.0),
    "orca.margin_m": (0.005, 0.06),
    "orca.offset_m": (0.03, 0.2),
}
SPACE = {"astar_dwa": {**DWA, **PATH}, "dwa": DWA, "orca": {**ORCA, **PATH}}
"""Least and greatest of what is searched; drawn evenly in their logarithms."""

FIXED: dict[str, dict[str, Any]] = {"orca": {"people": False}}


def nested(flat: dict[str, float], name: str) -> dict[str, Any]:
    """Return options as the planners take them, from names with dots."""
    options: dict[str, Any] = dict(FIXED.get(name, {}))
    for key, number in flat.items():
        *folders, last = key.split(".")
        inner = options
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = number
    return options


def carried(name: str, robot: WheeledBase) -> dict[str, float]:
    """Return the settings that a planner carries, of those that are searched."""
    planner = PLANNERS.load(name)(robot, **FIXED.get(name, {}))
    local = {"orca": ORCA, "dwa": DWA}["orca" if name == "orca" else "dwa"]
    found = {key: getattr(planner.local.settings, key.rpartition(".")[2]) for key in local}
    for key in PATH if name != "dwa" else ():
        settings = planner.global_planner.settings.costs if ".costs." in key else planner.global_planner.settings
        found[key] = getattr(settings, key.rpartition(".")[2])
    if name == "orca":
        found["orca.offset_m"] = planner.local.offset
    return {key: float(found[key]) for key in SPACE[name]}


def training_course(robot: WheeledBase, count: int, seed: int, kinds: tuple[str, ...] = KINDS) -> NavigationEpisodes:
    """Return ways in training maps, of all difficulties."""
    rng = np.random.default_rng([seed, 11])
    seeds = TRAINING_SEEDS.start + rng.choice(len(TRAINING_SEEDS), count, replace=False)
    pool = build_pool(kinds, count, seeds=seeds.tolist(), radius_m=robot.radius_m, fields=False)
    limit = 15.0 + 2.5 * pool.shortest_m.astype(float) / robot.limits.linear_velocity_m_s
    return NavigationEpisodes(pool, drawn(robot, count, rng), limit)


def driven(
    name: str, options: dict[str, Any], course: NavigationEpisodes, robot: WheeledBase, *, known: bool = False
) -> NavigationRecord:
    """Drive a course with a planner."""
    planner = PLANNERS.load(name)(robot, **options)
    # drives of about the same length together: all are computed until the last has ended
    course, many = course.take(np.argsort(course.pool.shortest_m)), 10
    if known:
        planner.global_planner.use_map(true_maps(course))
        many = len(course)
    return drive(planner, course, robot, rate_hz=10.0, arrival_m=ARRIVAL_M, name=name, batch_size=many)


def true_maps(course: NavigationEpisodes, resolution_m: float = 0.05) -> Field:
    """Return the grids of a course's maps."""
    grids = [occupancy(drawn_map, resolution_m) for drawn_map in course.pool.maps]
    occupied = np.stack([grid.occupied for grid in grids])
    origin = np.array([grid.frame.origin_m for grid in grids])
    return Field(occupied, np.zeros_like(occupied), origin, resolution_m)


def costs(drives: NavigationRecord, robot: WheeledBase) -> np.ndarray:
    """Return the cost (N,) of drives."""
    ratio = drives.time_s * robot.limits.linear_velocity_m_s / drives.shortest_m
    return np.where(drives.success, np.minimum(ratio, 3.0), np.where(drives.ending == "collided", 4.0, 3.5))


def tune(
    name: str, robot: WheeledBase, tries: int, count: int, seed: int, kinds: tuple[str, ...] = KINDS
) -> tuple[dict[str, float], float]:
    """Search; return the best settings and their cost on the training course."""
    course, rng, space = training_course(robot, count, seed, kinds), np.random.default_rng([seed, 12]), SPACE[name]
    # the first third has all kinds: they come in turn
    first = course.take(slice(0, count // 3))
    rest = course.take(slice(count // 3, None))

    def drive_all(flat: dict[str, float], bound: float) -> tuple[float, str]:
        some = driven(name, nested(flat, name), first, robot)
        cost = costs(some, robot)
        if cost.mean() > bound + 0.15:
            return float(cost.mean()) + 10.0, f"left at {cost.mean():.3f}"
        more = driven(name, nested(flat, name), rest, robot)
        cost = np.concatenate((cost, costs(more, robot)))
        return float(cost.mean()), f"{cost.mean():.3f}, success {np.mean([*some.success, *more.success]):.3f}"

    best = carried(name, robot)
    lowest, said = drive_all(best, np.inf)
    print(f"as they are: {said}", flush=True)
    for k in range(tries):
        candidate, wide = {}, 0.25 * (1.0 - k / tries) + 0.05
        for key, (low, high) in space.items():
            anywhere, near = rng.uniform(np.log(low), np.log(high)), rng.normal(0.0, wide * np.log(high / low))
            moved = np.log(best[key]) + (near if rng.random() < 0.5 else 0.0)
            candidate[key] = float(np.clip(np.exp(anywhere if k % 4 == 3 else moved), low, high))
        begin = time.perf_counter()
        cost, said = drive_all(candidate, lowest)
        print(f"{k + 1}/{tries}: {said} ({time.perf_counter() - begin:.0f} s)", flush=True)
        if cost < lowest:
            lowest, best = cost, candidate
            print(json.dumps({key: round(number, 4) for key, number in best.items()}), flush=True)
    return best, lowest


def report(drives: NavigationRecord, robot: WheeledBase) -> list[dict[str, Any]]:
    """Return and print one row for each kind of map, and one for all."""
    rows = []
    print(
        "| maps | drives | arrived | touched | late or given up | time s | time over shortest | length over shortest |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    ratio = drives.time_s * robot.limits.linear_velocity_m_s / drives.shortest_m
    for kind in (*KINDS, "all"):
        mine = np.ones(len(drives), dtype=bool) if kind == "all" else drives.labels == kind
        if not mine.any():
            continue
        there = mine & drives.success
        row = {
            "maps": kind,
            "drives": int(mine.sum()),
            "arrived": float(drives.success[mine].mean()),
            "touched": float((drives.ending[mine] == "collided").mean()),
            "late": float(np.isin(drives.ending[mine], ("timed out", "gave up")).mean()),
            "time_s": float(drives.time_s[there].mean()) if there.any() else None,
            "time_ratio": float(ratio[there].mean()) if there.any() else None,
            "length_ratio": float((drives.length_m / drives.shortest_m)[there].mean()) if there.any() else None,
        }
        rows.append(row)
        shown = ["-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()]
        print(f"| {' | '.join(shown)} |", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planner", default="astar_dwa", choices=sorted(SPACE))
    parser.add_argument("--robot", default="turtlebot3_burger")
    parser.add_argument("--tune", type=int, default=0, metavar="TRIES")
    parser.add_argument("--training-maps", type=int, default=54)
    parser.add_argument("--maps", type=int, default=200, help="held-out maps of the report; 0: none")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", default="{}", help='settings to report, such as {"dwa.goal": 3}')
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    robot = load_robot(arguments.robot)
    assert isinstance(robot, WheeledBase)
    flat: dict[str, float] = json.loads(arguments.options)
    found: dict[str, Any] = {"planner": arguments.planner, "robot": arguments.robot}
    kinds = tuple(arguments.kinds.split(","))
    if arguments.tune:
        flat, found["training_cost"] = tune(
            arguments.planner, robot, arguments.tune, arguments.training_maps, arguments.seed, kinds
        )
        found["settings"] = flat
    if arguments.maps:
        course = held_out_episodes(robot, arguments.maps, arguments.seed, kinds=kinds)
        drives = driven(arguments.planner, nested(flat, arguments.planner), course, robot, known=arguments.known)
        found["held_out"] = report(drives, robot)
        steps = float(drives.time_s.sum() * 10.0)
        print(f"{drives.wall_s:.0f} s, {1e3 * drives.wall_s / steps:.2f} ms for a robot's step, simulation included")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
