"""HEIGHT's setting: policies and planners over the same halls among people, who are tracked from the scan.

    python benchmarks/crowd_hall.py --policies runs/base_crowd-00*/policy.onnx

Prints one line for each driver and crowd: arrivals without contact with their Wilson 95% interval, who hit a person or
a thing, ran out of time or gave up, mean time and way over shortest of those that arrived, share of the time within
0.2 m to somebody. All drivers know of people what the tracker finds in their own scans (``--truth``: what is true).
``--people 1 1.5`` is the setting and half as many people again. The seed picks halls that neither training nor the
choice of a run's best policy has seen. In the batch simulator; robots depart from their file as in training
(``--exact``: they do not, as HEIGHT's).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.crowds.scenes import Scenes, halls
from rlstack.tasks.catalog.base_crowd import CrowdTask
from rlstack.verification.crowd_trials import CrowdDrives, drive_among_people
from rlstack.verification.scores import wilson

_APART = 9_000_000
"""Added to the seed: training draws from small ones, the choice of a run's best policy from 7,000,000 on."""

_OPTIONS: dict[str, dict[str, Any]] = {
    "orca": {"goal": {"tolerance_m": 0.2}},
    "dwa": {"people": True, "goal": {"tolerance_m": 0.2}},
    "astar_dwa": {"people": True, "goal": {"tolerance_m": 0.2}},
}
"""What planners are told: there are people, and when a goal counts as reached."""


def held_out(task: CrowdTask, robot: WheeledBase, count: int, seed: int, times: float) -> Scenes:
    """Return ``count`` halls with ``times`` as many people."""
    hall = task.hall.crowded(times)
    rng = np.random.default_rng(_APART + seed)
    return halls(rng, count, hall.walking[1] + hall.standing[1], hall, robot.radius_m)


def line(driven: CrowdDrives) -> str:
    """Return what became of drives, in words and figures."""
    f, count = driven.figures(), len(driven)
    low, high = wilson(round(f["arrived"] * count), count)
    shares = ", ".join(
        f"{name.replace('_', ' ')} {100.0 * f[name]:.1f}%"
        for name in ("hit_a_person", "hit_a_thing", "timed_out", "gave_up")
    )
    return (
        f"arrived {100.0 * f['arrived']:.1f}% ({100.0 * low:.1f} to {100.0 * high:.1f}), {shares},"
        f" {f['time_s']:.1f} s, {f['length_over_shortest']:.2f} of the shortest way,"
        f" people disturbed {100.0 * f['disturbed']:.1f}% of the time"
    )


def main() -> None:
    """Drive and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="*", type=Path, default=[])
    parser.add_argument("--planners", nargs="*", default=["orca", "dwa", "astar_dwa"])
    parser.add_argument("--robot", default="turtlebot2")
    parser.add_argument("--scenes", type=int, default=500)
    parser.add_argument("--people", nargs="+", type=float, default=[1.0, 1.5], help="times as many as in the setting")
    parser.add_argument("--truth", action="store_true", help="tell drivers where people are, instead of tracking them")
    parser.add_argument("--exact", action="store_true", help="robots just as their file says: no delay, lag or slip")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    robot = load_robot(options.robot)
    assert isinstance(robot, WheeledBase)
    task = CrowdTask(rate_hz=10.0, episode_s=50.0, arrival_m=0.3)
    drivers: dict[str, Any] = {n: PLANNERS.load(n)(robot, **_OPTIONS.get(n, {})) for n in options.planners}
    drivers.update({str(path): load_policy(path, robot=robot) for path in options.policies})
    found: dict[str, dict[str, dict[str, float]]] = {}
    told = "told of people" if options.truth else "people tracked from the scan"
    print(f"{options.scenes} halls, seed {options.seed}, {robot.name}, {told}", flush=True)
    for times in options.people:
        scenes = held_out(task, robot, options.scenes, options.seed, times)
        for name, driver in drivers.items():
            begin = time.perf_counter()
            driven = drive_among_people(
                driver,
                scenes,
                robot,
                rate_hz=task.rate_hz,
                arrival_m=task.arrival_m,
                limit_s=task.episode_s,
                name=name,
                tracked=not options.truth,
                departures=not options.exact,
                seed=options.seed,
            )
            found.setdefault(name, {})[f"{times:g}"] = driven.figures()
            print(f"{times:g} x people, {name}: {line(driven)} ({time.perf_counter() - begin:.0f} s)", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
