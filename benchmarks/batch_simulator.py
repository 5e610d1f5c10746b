#!/usr/bin/env python3
"""Robot-steps per CPU-second of the batch simulator, bare and as the full training environment, beside MuJoCo's.

One process, one thread; a robot-step is one 10 ms control period of one robot. Bare are the dynamics alone, with and
without late commands. The full environment senses with noise, observes (for policy and critic), rewards and starts
anew who was lost or is done, flown by a policy that hovers, trained here first; only its steps are counted, not
the policy. MuJoCo's row is mj_step alone on the generated model at its own step of 1 ms, ten steps counted as one
robot-step, in the same run.

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

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots.mjcf import mujoco_spec
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.training import ALGORITHMS
from rlstack.training.algorithm import Actor
from rlstack.training.recipe import load_recipe

PEER = "MuJoCo mj_step loop"


def rate(calls: int, repeats: int, robot_steps: int, step: Callable[[], float]) -> list[float]:
    """Return robot-steps a second of ``repeats`` measurements of ``calls`` calls, each of which says what it took."""
    for _ in range(max(3, calls // 10)):
        step()
    return [robot_steps * calls / sum(step() for _ in range(calls)) for _ in range(repeats)]


def timed(work: Callable[[], object], cuda: bool, repeat: int = 1) -> Callable[[], float]:
    """Return a call that does ``work`` and says how many CPU-seconds, on CUDA seconds, it took."""
    clock = time.perf_counter if cuda else time.process_time

    def measured() -> float:
        begin = clock()
        for _ in range(repeat):
            work()
        if cuda:
            torch.cuda.synchronize()
        return clock() - begin

    return measured


def hovering(seed: int) -> Actor:
    """Return a policy that hovers, trained in seconds."""
    recipe = load_recipe("quadrotor_hover")
    task, robot = recipe.task_settings, load_quadrotor(recipe.robot)
    environment = QuadrotorEnvironment(task, robot, task.pipeline(robot), recipe.envs, seed=seed)
    algorithm = ALGORITHMS.load(recipe.algorithm)(recipe.algorithm_settings, environment)
    iterations = recipe.steps // algorithm.steps_per_iteration
    for k in range(iterations):
        algorithm.iterate(k / iterations)
    return algorithm.actor()


def full(environment: QuadrotorEnvironment, actor: Actor, cuda: bool) -> Callable[[], float]:
    """Return a call that lets the policy fly one step and says what the environment took for it."""
    seen = environment.observe()[0]
    actor = actor.to(environment.device)
    memory = {name: torch.zeros(len(seen), *shape, device=seen.device) for name, shape in actor.memory.items()}

    def step() -> float:
        nonlocal seen, memory
        action, memory = actor(seen, memory)
        if cuda:
            torch.cuda.synchronize()
        result = []
        took = timed(lambda: result.append(environment.step(action)), cuda)()
        seen = result[0].actor
        for hidden in memory.values():
            hidden[result[0].done] = 0.0
        return took

    return step


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
    robot = load_quadrotor("crazyflie")
    count, rng, repeats = options.robots, np.random.default_rng(0), options.repeats
    task = load_recipe("quadrotor_hover").task_settings

    rows, ready_s = {}, 0.0
    for title, max_delay_s in (("bare", 0.0), ("bare, late commands", 0.05)):
        begin = time.perf_counter()
        simulator = QuadrotorSimulator(robot, count, device=options.device, max_delay_s=max_delay_s)
        simulator.set_state(task.sample(rng, count, robot).state)
        simulator.step(np.full((count, 4), robot.hover_speed_rad_s))
        ready_s = ready_s or time.perf_counter() - begin
        for command in simulator.commands:
            command[:] = robot.hover_speed_rad_s
        rows[title] = rate(20, repeats, 50 * count, timed(simulator.advance, cuda, 50))
    actor = hovering(seed=0)
    environment = QuadrotorEnvironment(task, robot, task.pipeline(robot), count, device=options.device)
    with torch.inference_mode():
        rows["full environment"] = rate(400, repeats, count, full(environment, actor, cuda))
    model = mujoco_spec(robot, timestep_s=0.001, floor=False).compile()
    data = mujoco.MjData(model)
    if not cuda:
        rows[PEER] = rate(20, repeats, 100, timed(lambda: mujoco.mj_step(model, data, nstep=10), False, 100))

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
