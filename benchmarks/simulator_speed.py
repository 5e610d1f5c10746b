#!/usr/bin/env python3
"""How fast engines step, with and without an environment around them: one process, CPU-seconds, medians.

The hover environment at 240 Hz physics and 30 Hz control is the one that gym-pybullet-drones publishes, whose own runs
in between where an interpreter that has it is given: its HoverAviary with rotor speeds as actions. All robots hover
under constant rotor speeds. Ours fly episodes of 5 s and are reset; the peer is not, as that loads all models again.

    python benchmarks/simulator_speed.py [--repeats 5] [--peer PYTHON] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

import rlstack.environments  # noqa: F401  registers its environments
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.simulation import Simulation

PHYSICS_HZ, CONTROL_HZ = 240.0, 30.0
BACKEND_NAMES = ("pybullet", "mujoco")
TOGETHER = 64
HOVER = "rlstack/QuadrotorHover-v0"
PUBLISHED = {"HoverAviary, 240/30 Hz": 5.0e3, "CtrlAviary, 240/240 Hz": 46e3}
"""Of gym-pybullet-drones, steps a CPU-second on an idle core of another machine."""

PEER = """
import sys, time
import numpy as np
from gym_pybullet_drones.envs.CtrlAviary import CtrlAviary
from gym_pybullet_drones.envs.HoverAviary import HoverAviary
from gym_pybullet_drones.utils.enums import ActionType, ObservationType, Physics

name, count = sys.argv[1], int(sys.argv[2])
if name == "HoverAviary":
    environment = HoverAviary(obs=ObservationType.KIN, act=ActionType.RPM)
    action = np.zeros((1, 4), dtype=np.float32)
else:
    environment = CtrlAviary(num_drones=1, physics=Physics.PYB, pyb_freq=240, ctrl_freq=240)
    action = np.full((1, 4), environment.HOVER_RPM)
environment.reset(seed=0)
for _ in range(count // 10):
    environment.step(action)
begin = time.process_time()
for _ in range(count):
    environment.step(action)
print("rate", count / (time.process_time() - begin))
"""


def timed(work: Callable[[], object], calls: int, steps: int) -> Callable[[], float]:
    """Return a call that does ``work`` and says how many steps a CPU-second that was, of ``steps`` in each."""
    for _ in range(max(2, calls // 10)):
        work()

    def measured() -> float:
        begin = time.process_time()
        for _ in range(calls):
            work()
        return steps * calls / (time.process_time() - begin)

    return measured


def physics(name: str, count: int, isolated: bool) -> Callable[[], float]:
    """Return what measures physics steps of robots that hover, with their motors, ``count`` in one world."""
    robot = load_quadrotor("crazyflie")
    simulation = Simulation(BACKENDS.load(name).engine, [robot] * count, isolated=isolated, physics_rate_hz=PHYSICS_HZ)
    simulation.open()
    speeds = np.full((count, len(robot.rotors)), robot.hover_speed_rad_s)
    places = np.stack([np.arange(count) % 8, np.arange(count) // 8, np.full(count, 1.5)], axis=1).astype(float)
    simulation.set_state({"position": places, "rotor_speed": speeds})
    simulation.command(speeds)
    steps = max(8, 2400 // count)
    return timed(lambda: simulation.step(steps / PHYSICS_HZ), 5, steps * count)


def hover_settings(name: str) -> dict[str, Any]:
    """Return the settings of an environment in which nothing pushes the robot."""
    still = {"force_sigma": 0.0, "torque_sigma_m": 0.0}
    return {"backend": name, "physics_rate_hz": PHYSICS_HZ, "rate_hz": CONTROL_HZ, "randomisation": still}


def hover_action(shape: tuple[int, ...]) -> np.ndarray:
    """Return the actions that hold it."""
    robot = load_quadrotor("crazyflie")
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    return np.full(shape, 2.0 * (robot.hover_speed_rad_s - low) / (high - low) - 1.0, dtype=np.float32)


def hover_state() -> dict[str, Any]:
    """Return what a reset takes to start there, level and at rest."""
    robot = load_quadrotor("crazyflie")
    return {"state": {"rotor_speed": np.full(len(robot.rotors), robot.hover_speed_rad_s)}}


def alone(name: str) -> Callable[[], float]:
    """Return what measures a single hover environment, resets included."""
    made = gymnasium.make(HOVER, **hover_settings(name))
    environment: Any = made.unwrapped  # the peer's is measured without Gymnasium's wrappers, too
    action, options = hover_action(environment.action_space.shape), hover_state()
    environment.reset(seed=0, options=options)

    def step() -> None:
        _, _, lost, timed_out, _ = environment.step(action)
        if lost:
            raise RuntimeError("the robot was to hover")
        if timed_out:
            environment.reset(options=options)

    return timed(step, 1000, 1)


def together(name: str) -> Callable[[], float]:
    """Return what measures a vector hover environment, resets included."""
    environment = gymnasium.make_vec(
        HOVER,
        num_envs=TOGETHER,
        vectorization_mode="vector_entry_point",
        autoreset_mode=AutoresetMode.DISABLED,
        **hover_settings(name),
    )
    actions, options = hover_action(environment.action_space.shape), hover_state()
    environment.reset(seed=0, options=options)

    def step() -> None:
        _, _, lost, timed_out, _ = environment.step(actions)
        if lost.any():
            raise RuntimeError("the robots were to hover")
        if timed_out.any():
            environment.reset(options=options)

    return timed(step, 150, TOGETHER)


def peer(python: str, name: str, count: int) -> Callable[[], float]:
    """Return what measures gym-pybullet-drones in a process of its own."""

    def measured() -> float:
        ran = subprocess.run([python, "-c", PEER, name, str(count)], capture_output=True, text=True, check=True)
        return float(ran.stdout.rsplit("rate", 1)[1])

    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has gym-pybullet-drones")
    parser.add_argument("--json")
    options = parser.parse_args()

    measures: dict[str, Callable[[], float]] = {}
    for name in BACKEND_NAMES:
        measures[f"{name}: hover environment, 240/30 Hz"] = alone(name)
        measures[f"{name}: {TOGETHER} hover environments in one, 240/30 Hz"] = together(name)
    if options.peer:
        measures["gym-pybullet-drones: HoverAviary, 240/30 Hz"] = peer(options.peer, "HoverAviary", 2000)
    for name in BACKEND_NAMES:
        measures[f"{name}: physics of one, 240 Hz"] = physics(name, 1, isolated=True)
        measures[f"{name}: physics of {TOGETHER} isolated, 240 Hz"] = physics(name, TOGETHER, isolated=True)
        measures[f"{name}: physics of 16 in one world, 240 Hz"] = physics(name, 16, isolated=False)
    if options.peer:
        measures["gym-pybullet-drones: CtrlAviary, 240/240 Hz"] = peer(options.peer, "CtrlAviary", 10000)

    rates: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(options.repeats):  # in turn, so that what else the machine does falls on all
        for name, measure in measures.items():
            rates[name].append(measure())
    print(f"thousand steps of one robot a CPU-second, {options.repeats} measurements:\n")
    print(f"{'':52}{'median':>9}{'min':>9}{'max':>9}")
    for name, measured in rates.items():
        low, middle, high = (f(measured) / 1e3 for f in (min, statistics.median, max))
        print(f"{name:52}{middle:9.1f}{low:9.1f}{high:9.1f}")
    sixteen = statistics.median(rates["pybullet: physics of 16 in one world, 240 Hz"]) / 16 / PHYSICS_HZ
    print(f"\n16 quadrotors in one PyBullet world: {sixteen:.0f} times real time on one core")
    for name, rate in PUBLISHED.items():
        print(f"gym-pybullet-drones, {name}, measured elsewhere: {rate / 1e3:.1f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rates, file, indent=2)


if __name__ == "__main__":
    main()
