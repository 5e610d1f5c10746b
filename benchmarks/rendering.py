#!/usr/bin/env python3
"""How many pictures a second the simulators render without a display, on one core.

    python benchmarks/rendering.py [--size 128] [--repeats 5] [--json FILE]

Each figure is the median of several measurements of 60 pictures each, in CPU-seconds of this process (run it with
`OMP_NUM_THREADS=1 LP_NUM_THREADS=1 taskset -c 1`, or Mesa's software renderer spreads over all cores). Seen are
the floor with its shadows from 1 m up, and the same in the world `room`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from rlstack.bringup.simulators_at_hand import simulators_at_hand
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots.sensing import Camera
from rlstack.sim.simulation import Simulation
from rlstack.sim.vector import BATCH

PICTURES = 60
AHEAD = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""The optical frame's axes in the world: looking along +x."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    camera = Camera(
        width=options.size, height=options.size, horizontal_fov_rad=1.4, rate_hz=30.0, position_m=(0.0, 0.0, 0.0)
    )
    rows: dict[str, dict[str, float]] = {}
    for name in (name for name in simulators_at_hand() if name != BATCH):
        for world in (None, "room"):
            simulation = Simulation(BACKENDS.load(name).engine, [load_quadrotor("crazyflie")], world=world)
            simulation.open()
            for wanted in (["rgb"], ["depth"], ["rgb", "depth"]):
                title = f"{name}, {world or 'floor'}, {' and '.join(wanted)}"
                try:
                    rates = [_rate(simulation, camera, wanted) for _ in range(options.repeats)]
                except UserError as error:
                    print(f"{title}: {error}")
                    continue
                rows[title] = {"median": statistics.median(rates), "least": min(rates), "most": max(rates)}
            simulation.close()
    print(f"pictures of {options.size} x {options.size} a CPU-second, {options.repeats} measurements of {PICTURES}\n")
    print(f"{'':40}{'median':>10}{'least':>10}{'most':>10}")
    for title, row in rows.items():
        print(f"{title:40}" + "".join(f"{number:10.0f}" for number in row.values()))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


def _rate(simulation: Simulation, camera: Camera, wanted: list[str]) -> float:
    place = np.array([0.0, 0.0, 1.0])
    simulation.engine.look(place, AHEAD, camera, wanted)  # the first builds the renderer
    begin = time.process_time()
    for _ in range(PICTURES):
        simulation.engine.look(place, AHEAD, camera, wanted)
    return PICTURES / (time.process_time() - begin)


if __name__ == "__main__":
    main()
