"""Policies of arms under the departures that a real arm has: success held to the end of the trial, beside the expert's.

    python benchmarks/arm_reality.py runs/arm_reach-001/policy.onnx --trials 500
    python benchmarks/arm_reality.py a/policy.onnx b/policy.onnx --robot so100 --axes command_delay_s stiffness_scale

Prints for each file the nominal success in the batch simulator, and for each judged axis of the kind's reality grid
(src/rlstack/kinds/manipulator/verification_reality.py) the success at the required margin, on the same trials, with the
points lost. Without files it tries the expert of ``--task`` alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rlstack.kinds.manipulator.verification import task_of
from rlstack.kinds.manipulator.verification_reality import arm_axes
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.manipulator.expert_driver import ExpertDriver
from rlstack.verification.manipulation_trials import held_out, manipulate
from rlstack.verification.reality import Conditions


def table(driver: Any, task: Any, robot: Any, trials: int, seed: int, axes: Sequence[str], name: str) -> list[str]:
    """Return the lines of a driver's table."""
    judged = task.judged()
    drawn = held_out(judged, robot, trials, seed)

    def success(conditions: Conditions) -> float:
        options = {"task": judged, "seed": seed, "batch_size": 250, "threads": 1, **conditions.options}
        record = manipulate(driver, robot=robot, trials=conditions.trials, departures=conditions.departures, **options)
        return float(record.success.mean())

    nominal = Conditions(trials=drawn, robot=robot)
    best = success(nominal)
    lines = [f"{name}, {robot.name}: {100.0 * best:.1f}% of {trials} trials of {judged.episode_s:g} s, seed {seed}"]
    for axis in arm_axes(robot, judged, "object_position" in judged.inputs):
        value = axis.farthest if axis.required is None else axis.required
        if axis.key in axes or (not axes and axis.required is not None):
            there = success(axis.apply(value, nominal))
            change = 100.0 * (there - best)
            lines.append(f"  {axis.title} {axis.text(value)}: {100.0 * there:.1f}% ({change:+.1f} points)")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="*")
    parser.add_argument("--robot", default="panda")
    parser.add_argument("--task", default="arm_reach", help="whose expert is tried without policies")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the trials")
    parser.add_argument("--axes", nargs="+", default=[], help="keys; all judged ones by default")
    given = parser.parse_args()
    robot = load_robot(given.robot)
    shared = given.trials, given.seed, given.axes
    for path in given.policies:
        policy = load_policy(path, robot=robot)
        task = task_of(policy.contract, path)
        print("\n".join(table(policy, task, task.reference(robot), *shared, path)), flush=True)
    if not given.policies:
        task = TASKS.load(given.task)()
        driver = ExpertDriver(task, task.reference(robot))
        print("\n".join(table(driver, task, robot, *shared, f"expert of {given.task}")), flush=True)


if __name__ == "__main__":
    main()
