"""How bases come to their goals: policies beside the classical planners, on the same held-out ways.

    python benchmarks/navigation.py --policies runs/base_navigation-00*/policy.onnx

Prints one line for each driver: success without contact with its Wilson 95% interval, collisions, mean time to the
goal, time over the first planner's on ways that both finish, path over shortest, least clearance, jerk; then success by
map class. A policy is also driven along planned ways with ``--guided``. In the batch simulator; robots depart from
their file as in training. The seed picks maps that no training and no choice of a run's best policy has seen.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.tasks.catalog.base_navigation import NavigationTask
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.navigation_score import score_drives
from rlstack.verification.navigation_trials import drive
from rlstack.verification.scores import Score
from rlstack.verification.trial_records import NavigationRecord


def main() -> None:
    """Drive and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="*", type=Path, default=[])
    parser.add_argument("--guided", nargs="*", type=Path, default=[], help="policies led along planned ways")
    parser.add_argument("--planners", nargs="*", default=["astar_dwa", "dwa"], help="the first is compared with")
    parser.add_argument("--robot", default="turtlebot3_burger")
    parser.add_argument("--kinds", nargs="+", default=["clutter"])
    parser.add_argument("--movers", nargs=2, type=int, metavar=("LEAST", "MOST"), help="discs that walk about, per map")
    parser.add_argument("--ways", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    robot = load_robot(options.robot)
    assert isinstance(robot, WheeledBase)
    task = NavigationTask()
    movers = MovingObstacles(count=tuple(options.movers)) if options.movers else None
    course = held_out_episodes(robot, options.ways, options.seed, kinds=options.kinds, movers=movers)
    drivers: dict[str, Any] = {name: PLANNERS.load(name)(robot) for name in options.planners}
    for path in options.policies:
        drivers[str(path)] = load_policy(path, robot=robot)
    for path in options.guided:
        drivers[f"astar_policy {path}"] = PLANNERS.load("astar_policy")(robot, policy=str(path))
    beside: NavigationRecord | None = None
    scores: dict[str, Score] = {}
    print(f"{len(course)} ways over {', '.join(options.kinds)}, seed {options.seed}, {robot.name}", flush=True)
    for name, driver in drivers.items():
        driven = drive(driver, course, robot, rate_hz=task.rate_hz, arrival_m=task.arrival_m, name=name)
        scores[name] = score_drives(driven, arrival_m=task.arrival_m, beside=beside)
        beside = beside or driven
        shown = ", ".join(
            f"{figure.title} {figure.text}" for figure in scores[name].figures if figure.value is not None
        )
        kinds = ", ".join(f"{kind} {group.figure('success').text}" for kind, group in scores[name].groups.items())
        print(f"{name}: {shown}\n    by class: {kinds}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({name: score.to_json() for name, score in scores.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
