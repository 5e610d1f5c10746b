#!/usr/bin/env python3
"""Environment-steps of a task of arms: physics alone and the whole environment, on one thread and on several.

An environment-step is one control period of one arm: joint targets from an action by inverse kinematics, MuJoCo's
physics with contacts, noise, observation, reward, and worlds that start anew. Actions are the scripted expert's with
noise, so that the arm reaches, touches and lifts; `--random` takes actions at random instead. Wall time counts where
the machine is quiet; the CPU-time of the process is printed beside it. With `--device cuda` MuJoCo Warp steps the
worlds instead of MuJoCo's threads, and with `--device warp:cpu` MuJoCo Warp on the processor.

    python benchmarks/arm_simulator.py [--task arm_pick_place] [--envs 128] [--steps 50] [--repeats 5] [--threads 1 2]
        [--device cuda] [--random] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from rlstack.robots import load_robot
from rlstack.tasks import TASKS


def run(environment: Any, steps: int, random: bool) -> tuple[float, float, float]:
    """Return wall, CPU seconds of ``steps`` steps, and of these the wall seconds of physics."""
    worlds, spent = environment.scene.worlds, 0.0
    plain = worlds.step

    def timed(target: Any) -> None:
        nonlocal spent
        begin = time.perf_counter()
        plain(target)
        spent += time.perf_counter() - begin

    worlds.step = timed
    wall = cpu = 0.0
    for _ in range(steps):
        noise = torch.randn(environment.count, environment.pipeline.action_size, generator=environment.generator)
        action = noise if random else environment.expert_action() + 0.3 * noise  # choosing it is not counted
        begin, cpu_begin = time.perf_counter(), time.process_time()
        environment.step(action)
        wall, cpu = wall + time.perf_counter() - begin, cpu + time.process_time() - cpu_begin
    worlds.step = plain
    return wall, cpu, spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="arm_pick_place")
    parser.add_argument("--robot", default="panda")
    parser.add_argument("--envs", type=int, default=128)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cpu", help="what steps the worlds: cpu (threads), cuda, warp:cpu")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = TASKS.load(options.task)()
    robot = task.reference(load_robot(options.robot))
    found: list[dict[str, Any]] = []
    for threads in options.threads if options.device == "cpu" else [1]:
        from rlstack.tasks.manipulator.environment import ArmEnvironment

        environment = ArmEnvironment(
            task, robot, task.pipeline(robot), options.envs, device=options.device, seed=0, threads=threads
        )
        environment.observe()
        if not found:
            model, steps = environment.scene.worlds.model, environment.scene.worlds.steps
            print(
                f"{options.task}, {robot.name}: {steps} physics steps of {1e3 * model.opt.timestep:g} ms in a control"
                f" period of {1e3 / task.rate_hz:g} ms; {model.nv} degrees of freedom; {options.envs} worlds on"
                f" {options.device}; load {os.getloadavg()[0]:.1f}"
            )
        run(environment, 10, options.random)
        rows = [run(environment, options.steps, options.random) for _ in range(options.repeats)]
        count = options.envs * options.steps
        figures = {
            "threads": threads,
            "steps_per_s": sorted(count / wall for wall, _, _ in rows),
            "steps_per_cpu_s": sorted(count / cpu for _, cpu, _ in rows),
            "physics_per_s": sorted(count / spent for _, _, spent in rows),
            "physics_share": sorted(spent / wall for wall, _, spent in rows),
        }
        found.append(figures)
        environment.close()
        shown = {n: f"{median(v):,.2f} ({v[0]:,.2f} to {v[-1]:,.2f})" for n, v in figures.items() if n != "threads"}
        print(f"{threads} thread{'s' if threads > 1 else ''}: {shown}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            chosen = {"task": options.task, "envs": options.envs, "device": options.device}
            json.dump({**chosen, "runs": found}, file, indent=2)


if __name__ == "__main__":
    main()
