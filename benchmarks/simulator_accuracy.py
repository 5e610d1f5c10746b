#!/usr/bin/env python3
"""How far the simulators are from a fine-step reference and from each other, over 1 s of random rotor commands.

Commands change at 100 Hz. The reference is tests/support/reference.py: float64, RK4 at 0.1 ms, written apart from both.
Each row is the largest departure of any component in any of the flights, the Crazyflie with its drag, from rest.

    python benchmarks/simulator_accuracy.py [--flights 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.reference import ReferenceQuadrotor
from tests.support.worlds import VOID

from rlstack.bringup.simulators_at_hand import simulators_at_hand
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.vector import BATCH

State = dict[str, np.ndarray]
COLUMNS = ("position", "orientation", "linear_velocity", "angular_velocity")


def start(robot: Quadrotor) -> State:
    """Return rest at the origin with the rotors at hover speed."""
    zero = np.zeros(3)
    return {
        "position": zero,
        "orientation": np.array([0.0, 0.0, 0.0, 1.0]),
        "linear_velocity": zero,
        "angular_velocity": zero,
        "rotor_speed": np.full(4, robot.hover_speed_rad_s),
    }


def batch(robot: Quadrotor, commands: np.ndarray, substeps: int = 1) -> list[State]:
    """Fly in the batch simulator."""
    simulator = QuadrotorSimulator(robot, 1, substeps=substeps)
    simulator.set_state({name: array[None] for name, array in start(robot).items()})
    states = []
    for command in commands:
        simulator.step(command[None])
        states.append({name: array[0] for name, array in simulator.state().items()})
    return states


def reference(robot: Quadrotor, commands: np.ndarray) -> list[State]:
    """Fly in the reference."""
    quadrotor = ReferenceQuadrotor(robot, step_s=1e-4)
    quadrotor.state.update(start(robot))
    states = []
    for command in commands:
        quadrotor.step(command, 0.01)
        states.append({name: np.array(array) for name, array in quadrotor.state.items()})
    return states


def engine(name: str, robot: Quadrotor, commands: np.ndarray, physics_rate_hz: float) -> list[State]:
    """Fly in a backend with an engine."""
    backend = BACKENDS.load(name)(robot, world=VOID, physics_rate_hz=physics_rate_hz)
    backend.connect()
    backend.reset(start(robot))
    states = []
    for command in commands:
        backend.write({"rotor_speed": command})
        backend.step(0.01)
        signals = dict(backend.read().signals)
        signals["linear_velocity"] = frames.rotate(signals["orientation"], signals["linear_velocity"])
        states.append(signals)
    backend.close()
    return states


def departure(flown: list[State], other: list[State]) -> dict[str, float]:
    """Return the largest difference of each quantity; attitude as an angle in rad."""
    worst = dict.fromkeys(COLUMNS, 0.0)
    for a, b in zip(flown, other):
        for name in COLUMNS:
            if name == "orientation":
                between = frames.multiply(frames.inverse(frames.normalise(a[name])), frames.normalise(b[name]))
                size = 2.0 * np.arcsin(np.clip(np.linalg.norm(between[:3]), 0.0, 1.0))
            else:
                size = np.abs(a[name] - b[name]).max()
            worst[name] = max(worst[name], float(size))
    return worst


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    robot = load_quadrotor("crazyflie")
    hover, top = robot.hover_speed_rad_s, robot.rotor_model.speed_max_rad_s
    engines = [name for name in simulators_at_hand() if name != BATCH]
    rows: dict[str, dict[str, float]] = {}
    for kind, (low, high) in {"full range": (0.0, top), "hover +-15%": (0.85 * hover, 1.15 * hover)}.items():
        for flight in range(options.flights):
            commands = np.random.default_rng(flight).uniform(low, high, (100, 4))
            fine, one = reference(robot, commands), batch(robot, commands)
            pairs = {
                "batch against reference": (one, fine),
                "batch, 4 substeps, against reference": (batch(robot, commands, 4), fine),
            }
            flown = {name: engine(name, robot, commands, 1000.0) for name in engines}
            for name, states in flown.items():
                coarse = engine(name, robot, commands, 200.0)
                pairs[f"{name}, 1 kHz, against reference"] = (states, fine)
                pairs[f"{name}, 200 Hz, against reference"] = (coarse, fine)
                pairs[f"batch against {name}"] = (one, states)
            for a, b in itertools.combinations(flown, 2):
                pairs[f"{a} against {b}"] = (flown[a], flown[b])
            for title, (a, b) in pairs.items():
                key, new = f"{kind}: {title}", departure(a, b)
                rows[key] = {n: max(new[n], rows.get(key, new)[n]) for n in COLUMNS}
    print(f"{'':52}{'position m':>12}{'attitude rad':>14}{'velocity m/s':>14}{'rates rad/s':>13}")
    for title, row in rows.items():
        print(f"{title:52}" + "".join(f"{row[n]:{w}.1e}" for n, w in zip(COLUMNS, (12, 14, 14, 13))))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
