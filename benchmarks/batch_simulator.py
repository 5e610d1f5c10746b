#!/usr/bin/env python3
"""Robot-steps per CPU-second of the batch simulator, bare and as the full training environment, beside MuJoCo's.

One process, one thread; a robot-step is one 10 ms control period of one robot. MuJoCo's row is mj_step alone on the
generated model at its own step of 1 ms, ten steps counted as one robot-step, in the same run.

    python benchmarks/batch_simulator.py [--robots 4096] [--repeats 5] [--device cpu] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import mujoco
import numpy as np
import torch

from rlstack.robots import load_robot
from rlstack.robots.mjcf import mujoco_spec
from rlstack.sim.batch import BatchSimulator
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.environment import TrainingEnvironment

PEER = "MuJoCo mj_step loop"


def rate(step: Callable[[], None], robot_steps: int, calls: int, repeats: int, wall: bool) -> list[float]:
    """Return robot-steps a second (CPU or wall) of ``repeats`` measurements of ``calls`` calls."""
    clock = time.perf_counter if wall else time.process_time
    for _ in range(max(3, calls // 10)):
        step()
    rates = []
    for _ in range(repeats):
        begin = clock()
        for _ in range(calls):
            step()
        if wall:
            torch.cuda.synchronize()
        rates.append(robot_steps * calls / (clock() - begin))
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="on CUDA wall seconds are counted instead of CPU-seconds")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cuda = options.device.startswith("cuda")
    robot = load_robot("crazyflie")
    count, rng = options.robots, np.random.default_rng(0)

    begin = time.perf_counter()
    simulator = BatchSimulator(robot, count, device=options.device)
    prompt = BatchSimulator(robot, count, device=options.device, max_delay_s=0.0)
    simulator.advance()
    ready_s = time.perf_counter() - begin
    task = HoverTask()
    state = task.sample(rng, count, robot).state
    for each in (simulator, prompt):
        each.set_state(state)
        each.step(np.full((count, 4), robot.hover_speed_rad_s))

    environment = TrainingEnvironment(task, robot, task.pipeline(robot), count, device=options.device)
    actions = torch.full((count, 4), 0.334, device=options.device)
    with torch.inference_mode():
        environment.observe()
        rows = {
            "bare, no late commands": rate(prompt.advance, count, 2000, options.repeats, cuda),
            "bare, up to 50 ms late": rate(simulator.advance, count, 2000, options.repeats, cuda),
            "full environment": rate(lambda: environment.step(actions), count, 500, options.repeats, cuda),
        }
    model = mujoco_spec(robot, timestep_s=0.001, floor=False).compile()
    data = mujoco.MjData(model)
    if not cuda:
        rows["MuJoCo mj_step loop"] = rate(
            lambda: mujoco.mj_step(model, data, nstep=10), 1, 2000, options.repeats, False
        )

    peer = statistics.median(rows.get(PEER, [float("nan")]))
    unit = "second" if cuda else "CPU-second"
    print(f"{count} robots on {options.device}; first step after {ready_s:.1f} s; million robot-steps a {unit}:\n")
    print(f"{'':24}{'median':>9}{'min':>9}{'max':>9}{'x MuJoCo':>10}")
    for name, rates in rows.items():
        middle = statistics.median(rates)
        print(f"{name:24}{middle / 1e6:9.3f}{min(rates) / 1e6:9.3f}{max(rates) / 1e6:9.3f}{middle / peer:10.1f}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of the whole process, PyTorch and MuJoCo included: {memory:.0f} MiB")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {"robots": count, "device": options.device, "rates": rows, "peak_memory_mib": memory}, file, indent=2
            )


if __name__ == "__main__":
    main()
