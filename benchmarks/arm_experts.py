"""Scripted experts of arms' tasks: how many of fresh trials they do.

    python benchmarks/arm_experts.py --tasks arm_push arm_stack --trials 500 --seed 90001

Prints a line for each task: successes with their Wilson 95% interval, mean time of those that succeed, trials that were
lost, CPU time and physics step. Trials differ in where the arm, the object and its goal are, and in size, mass and
friction; the expert sees what a policy sees, noise included.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rlstack.robots import load_robot
from rlstack.sim.arms.scene import TIMESTEP_S
from rlstack.tasks import TASKS
from rlstack.verification.scores import wilson


@dataclass(frozen=True)
class Tried:
    """How N trials went.

    Args:
        won: (N,) whether it was done.
        lost: (N,) whether the object left the table, or a number was not finite.
        time_s: (N,) when the episode ended.
    """

    won: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    time_s: NDArray[np.float64]


def trials(name: str, robot_name: str, count: int, seed: int, threads: int) -> Tried:
    """Return how a task's expert does N trials."""
    task, robot = TASKS.load(name)(), load_robot(robot_name)
    robot = task.reference(robot)
    torch.set_num_threads(threads)
    environment = task.environment(robot, task.pipeline(robot), count, "cpu", seed)
    environment.restart(torch.arange(count))  # all begin now
    won, over, lost = (torch.zeros(count, dtype=torch.bool) for _ in range(3))
    ended = np.full(count, task.episode_s)
    for k in range(task.steps):
        step = environment.step(environment.expert_action())
        if not task.ends:
            won = torch.where(over, won, step.success)  # to the end
        won = won | (step.success & ~over) if task.ends else won
        lost |= step.done & ~step.timed_out & ~step.success & ~over
        ended[(step.done & ~over).numpy()] = (k + 1) / task.rate_hz
        over |= step.done
    environment.close()
    return Tried(won.numpy(), lost.numpy(), ended)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = [name for name in TASKS.names() if name.startswith(("arm_", "table_"))]
    parser.add_argument("--tasks", nargs="+", default=named, choices=named)
    parser.add_argument("--robot", default="panda")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=100, help="worlds in memory")
    parser.add_argument("--seed", type=int, default=90001, help="the first; each batch of worlds takes the next")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for name in given.tasks:
        begun = time.process_time()
        counts = [min(given.at_once, given.trials - k) for k in range(0, given.trials, given.at_once)]
        parts = [trials(name, given.robot, n, given.seed + k, given.threads) for k, n in enumerate(counts)]
        won = np.concatenate([part.won for part in parts])
        times = np.concatenate([part.time_s for part in parts])[won]
        lost = sum(int(part.lost.sum()) for part in parts)
        low, high = wilson(int(won.sum()), len(won))
        print(
            f"{name}, {given.robot}: {won.sum()} of {len(won)}, {100.0 * won.mean():.1f}%"
            f" ({100.0 * low:.1f} to {100.0 * high:.1f}), {times.mean() if len(times) else np.nan:.2f} s,"
            f" {lost} lost; seeds {given.seed} to {given.seed + len(counts) - 1},"
            f" physics step {1000.0 * TIMESTEP_S:g} ms, {time.process_time() - begun:.0f} CPU-s",
            flush=True,
        )


if __name__ == "__main__":
    main()
